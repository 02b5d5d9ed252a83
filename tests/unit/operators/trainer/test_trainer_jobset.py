"""What a TrainJob becomes: sizes, containers, metadata, gangs; and what is left alone while it runs."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import to_dict
from quarterdeck.errors import ConfigError
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.logic.framework import Framework, is_running
from quarterdeck.operators.trainer.logic.info import merge_resources
from quarterdeck.operators.trainer.logic.plugin import Present
from quarterdeck.operators.trainer.logic.plugins import default_plugins
from quarterdeck.operators.trainer.logic.plugins.jobset import JobSetPlugin

from .trainerkit import (
    FRAMEWORK,
    components,
    container_of,
    env_of,
    info_of,
    initializer,
    job_of,
    pod_of,
    render,
    rendered_jobset,
    replicated,
    runtime,
    train_job,
    trainer,
)

Json = dict[str, Any]


def size(jobset: Json, name: str = "node") -> int:
    spec = job_of(jobset, name)["template"]["spec"]
    assert spec["parallelism"] == spec["completions"]
    found: int = spec["parallelism"]
    return found


@pytest.mark.parametrize(
    ("parallelism", "policy", "said", "expected"),
    [
        (3, None, None, 3),
        (None, None, None, 1),
        (0, None, None, 1),
        (3, {"numNodes": 7}, None, 7),
        (3, {}, None, 1),
        (3, {"numNodes": 7}, 2, 2),
        (None, {"numNodes": 7}, 0, 0),
    ],
)
def test_how_many_pods(parallelism: Any, policy: Any, said: Any, expected: int) -> None:
    job = {} if parallelism is None else {"parallelism": parallelism}
    wanted = {} if said is None else {"trainer": {"numNodes": said}}
    made_of = runtime(trainer(job=job), policy=policy)
    assert size(render(train_job(**wanted), made_of)["JobSet"]) == expected


def test_other_jobs_keep_their_size() -> None:
    made_of = runtime(replicated("side", job={"parallelism": 4}), trainer(), policy={"numNodes": 2})
    jobset = render(train_job(), made_of)["JobSet"]
    assert (size(jobset, "side"), size(jobset)) == (4, 2)


def test_replicas_are_not_multiplied_in() -> None:
    made_of = runtime(replicated("side", more={"replicas": 3}), trainer())
    jobset = render(train_job(), made_of)["JobSet"]
    assert job_of(jobset, "side")["replicas"] == 3
    assert size(jobset, "side") == 1


def test_a_runtime_without_jobs_has_no_pods() -> None:
    info = info_of(train_job(), runtime().evolve(spec=None))
    assert info.pod_sets == []


def test_metadata_of_runtime_and_job() -> None:
    made_of = runtime(metadata={"labels": {"a": "runtime", "b": "runtime"}, "annotations": {"c": "runtime"}})
    job = train_job(labels={"b": "job"}, annotations={"d": "job"})
    jobset = render(job, made_of)["JobSet"]
    assert jobset["metadata"]["labels"] == {"a": "runtime", "b": "job"}
    assert jobset["metadata"]["annotations"] == {"c": "runtime", "d": "job"}
    assert "labels" not in (job_of(jobset)["template"]["spec"]["template"].get("metadata") or {})
    assert jobset["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "name": "job",
            "uid": "uid-1",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def test_container_of_the_trainer() -> None:
    spec = {"image": "mine", "command": ["run"], "args": ["a"], "env": [{"name": "A", "value": "job"}]}
    made_of = runtime(trainer(env=[{"name": "A", "value": "runtime"}, {"name": "B", "value": "runtime"}]))
    jobset = render(train_job(trainer=spec), made_of)["JobSet"]
    container = container_of(jobset)
    assert (container["image"], container["command"], container["args"]) == ("mine", ["run"], ["a"])
    assert env_of(jobset) == {"A": "job", "B": "runtime"}


def test_what_a_job_does_not_say_stays_the_runtimes() -> None:
    made_of = runtime(trainer(command=["run"], args=["a"]))
    container = container_of(render(train_job(trainer={}), made_of)["JobSet"])
    assert (container["image"], container["command"], container["args"]) == ("x", ["run"], ["a"])


@pytest.mark.parametrize(
    ("known", "wanted", "merged"),
    [
        ({}, {"requests": {"cpu": "1"}}, {"requests": {"cpu": "1"}}),
        (
            {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}},
            {"requests": {"cpu": "4"}, "limits": {"gpu": "1"}},
            {"requests": {"cpu": "4", "memory": "1Gi"}, "limits": {"cpu": "2", "gpu": "1"}},
        ),
        (
            {"claims": [{"name": "a"}, {"name": "b"}]},
            {"claims": [{"name": "b", "request": "x"}]},
            {"claims": [{"name": "a"}, {"name": "b", "request": "x"}]},
        ),
    ],
)
def test_resources_merge_by_name(known: Json, wanted: Json, merged: Json) -> None:
    assert merge_resources(known, wanted) == merged
    made_of = runtime(trainer(resources=known))
    jobset = render(train_job(trainer={"resourcesPerNode": wanted}), made_of)["JobSet"]
    assert container_of(jobset)["resources"] == merged


def test_initializers() -> None:
    made_of = runtime(initializer(env=[{"name": "A", "value": "runtime"}]), trainer())
    dataset = {
        "storageUri": "hf://data",
        "env": [{"name": "A", "value": "job"}],
        "secretRef": {"name": "token"},
    }
    jobset = render(train_job(initializer={"dataset": dataset}), made_of)["JobSet"]
    step = names.DATASET_INITIALIZER
    assert env_of(jobset, step, step) == {"A": "job", "STORAGE_URI": "hf://data"}
    assert container_of(jobset, step, step)["envFrom"] == [{"secretRef": {"name": "token"}}]
    assert job_of(jobset, step)["replicas"] == 1


def test_an_empty_address_replaces_that_of_the_runtime() -> None:
    made_of = runtime(initializer(env=[{"name": "STORAGE_URI", "value": "hf://runtime"}]), trainer())
    step = names.DATASET_INITIALIZER
    jobset = render(train_job(initializer={"dataset": {"storageUri": ""}}), made_of)["JobSet"]
    assert env_of(jobset, step, step) == {"STORAGE_URI": ""}


def test_an_initializer_that_the_job_does_not_use_stays_as_it_is() -> None:
    made_of = runtime(initializer(), trainer())
    step = names.DATASET_INITIALIZER
    container = container_of(render(train_job(), made_of)["JobSet"], step, step)
    assert not container.keys() & {"env", "envFrom"}


def test_policies_of_the_template_pass_through() -> None:
    parts: Json = {
        "successPolicy": {"operator": "All", "targetReplicatedJobs": ["node"]},
        "failurePolicy": {"maxRestarts": 3},
        "network": {"subdomain": "net"},
        "ttlSecondsAfterFinished": 60,
    }
    depends = [{"name": "dataset-initializer", "status": "Complete"}]
    made_of = runtime(initializer(), trainer(more={"dependsOn": depends}), **parts)
    jobset = render(train_job(), made_of)["JobSet"]
    assert {key: jobset["spec"][key] for key in parts} == parts
    assert job_of(jobset)["dependsOn"] == depends


@pytest.mark.parametrize("suspend", [True, False])
def test_suspension_is_said_in_any_case(suspend: bool) -> None:
    assert render(train_job(suspend=suspend), runtime())["JobSet"]["spec"]["suspend"] is suspend


def test_rendering_changes_neither_the_job_nor_the_runtime() -> None:
    job = train_job(trainer={"numNodes": 2, "env": [{"name": "A", "value": "1"}]})
    made_of = runtime(trainer(env=[{"name": "B", "value": "1"}]), policy={"torch": {}})
    before = (to_dict(job), to_dict(made_of))
    first = render(job, made_of)
    assert render(job, made_of) == first
    assert (to_dict(job), to_dict(made_of)) == before


def live(job: Any, made_of: Any, *, suspend: bool) -> JobSet:
    jobset = rendered_jobset(job, made_of)
    return jobset.evolve(spec=jobset.spec.evolve(suspend=suspend))


@pytest.mark.parametrize(
    ("job_suspended", "jobset_suspended", "is_built"),
    [(False, False, False), (True, False, True), (False, True, True), (True, True, True)],
)
def test_a_jobset_is_rendered_unless_it_runs(
    job_suspended: bool, jobset_suspended: bool, is_built: bool
) -> None:
    job, made_of = train_job(suspend=job_suspended), runtime()
    present = Present(jobset=live(job, made_of, suspend=jobset_suspended))
    assert ("JobSet" in render(job, made_of, present)) is is_built
    assert is_running(job, present.jobset) is not is_built
    assert not is_running(job, None)


def test_children_of_a_running_jobset_follow_it_and_not_the_job() -> None:
    made_of = runtime(
        replicated("launcher"), trainer(), policy={"mpi": {"numProcPerNode": 2}}, gang={"coscheduling": {}}
    )
    jobset = live(train_job(trainer={"numNodes": 2}), made_of, suspend=False)
    edited = train_job(trainer={"numNodes": 9, "numProcPerNode": 9})
    found = render(edited, made_of, Present(jobset=jobset))
    assert found["ConfigMap"]["data"]["hostfile"] == "job-node-0-0.job slots=2\njob-node-0-1.job slots=2\n"
    assert found["PodGroup"]["spec"]["minMember"] == 3
    assert "JobSet" not in found


CPU: Json = {"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}


def test_a_gang_for_coscheduling() -> None:
    made_of = runtime(
        replicated("side", job={"parallelism": 4}, **CPU),
        trainer(**CPU),
        policy={"numNodes": 2},
        gang={"coscheduling": {"scheduleTimeoutSeconds": 90}},
    )
    found = render(train_job(), made_of)
    assert found["PodGroup"]["apiVersion"] == "scheduling.x-k8s.io/v1alpha1"
    assert found["PodGroup"]["spec"] == {
        "minMember": 6,
        "minResources": {"cpu": "3", "memory": "6Gi"},
        "scheduleTimeoutSeconds": 90,
    }
    for name in ("side", "node"):
        template = job_of(found["JobSet"], name)["template"]["spec"]["template"]
        assert template["metadata"]["labels"] == {"scheduling.x-k8s.io/pod-group": "job"}


def test_resources_of_the_job_count_for_the_gang() -> None:
    made_of = runtime(trainer(**CPU), policy={"numNodes": 2}, gang={"coscheduling": {}})
    job = train_job(trainer={"resourcesPerNode": {"requests": {"cpu": "4"}}})
    spec = render(job, made_of)["PodGroup"]["spec"]
    assert spec["minResources"] == {"cpu": "8", "memory": "2Gi"}
    assert spec["scheduleTimeoutSeconds"] == 60


def test_what_the_trainer_waits_for_is_not_of_its_gang() -> None:
    def members(status: str) -> int:
        depends = [{"name": names.DATASET_INITIALIZER, "status": status}]
        made_of = runtime(initializer(), trainer(more={"dependsOn": depends}), gang={"coscheduling": {}})
        found: int = render(train_job(), made_of)["PodGroup"]["spec"]["minMember"]
        return found

    assert members("Complete") == 1
    assert members("Ready") == 2


def test_neither_is_what_had_to_end_before_that() -> None:
    def after(step: str) -> Json:
        return {"dependsOn": [{"name": step, "status": "Complete"}]}

    dataset, model = names.DATASET_INITIALIZER, names.MODEL_INITIALIZER
    jobs = (initializer(dataset), initializer(model, more=after(dataset)), trainer(more=after(model)))
    made_of = runtime(*jobs, gang={"coscheduling": {}})
    assert render(train_job(), made_of)["PodGroup"]["spec"]["minMember"] == 1


def test_a_gang_for_volcano() -> None:
    topology = {"mode": "soft", "highestTierAllowed": 2}
    made_of = runtime(
        replicated("launcher", pod={"priorityClassName": "low"}),
        trainer(pod={"priorityClassName": "high"}),
        metadata={"annotations": {"scheduling.volcano.sh/queue-name": "runtime"}},
        gang={"volcano": {"networkTopology": topology}},
    )
    job = train_job(annotations={"scheduling.volcano.sh/queue-name": "mine"})
    found = render(job, made_of)
    assert found["PodGroup"]["apiVersion"] == "scheduling.volcano.sh/v1beta1"
    assert found["PodGroup"]["spec"] == {
        "minMember": 2,
        "queue": "mine",
        "priorityClassName": "high",
        "networkTopology": topology,
    }
    metadata = job_of(found["JobSet"])["template"]["spec"]["template"]["metadata"]
    assert metadata["annotations"] == {"scheduling.k8s.io/group-name": "job"}


@pytest.mark.parametrize("gang", [{"coscheduling": {}}, {"volcano": {}}])
@pytest.mark.parametrize(
    ("suspend", "exists", "is_built"), [(False, True, False), (True, True, True), (False, False, True)]
)
def test_a_gang_in_use_is_left_alone(gang: Json, suspend: bool, exists: bool, is_built: bool) -> None:
    present = Present(has_pod_group=exists)
    assert ("PodGroup" in render(train_job(suspend=suspend), runtime(gang=gang), present)) is is_built


def test_init_containers_and_overhead_count() -> None:
    pod = {
        "initContainers": [
            {"name": "big", "image": "x", "resources": {"requests": {"cpu": "3"}}},
            {
                "name": "sidecar",
                "image": "x",
                "restartPolicy": "Always",
                "resources": {"requests": {"cpu": "1"}},
            },
        ],
        "overhead": {"cpu": "250m"},
    }
    info = info_of(train_job(), runtime(trainer(resources={"requests": {"cpu": "1"}}, pod=pod)))
    assert str(info.pod_sets[0].requests["cpu"]) == "3250m"


def test_there_is_one_source_of_status() -> None:
    with pytest.raises(ConfigError, match="too many TrainJobStatus plugins are registered"):
        Framework((*default_plugins(), JobSetPlugin()))
    with pytest.raises(ConfigError, match="no TrainJobStatus plugin is registered"):
        Framework(default_plugins()[:-1])


def test_what_is_watched() -> None:
    watched = {(each.kind.type_info.group, each.kind.type_info.kind) for each in FRAMEWORK.watches()}
    assert watched == {
        ("", "Secret"),
        ("", "ConfigMap"),
        ("scheduling.x-k8s.io", "PodGroup"),
        ("scheduling.volcano.sh", "PodGroup"),
        ("jobset.x-k8s.io", "JobSet"),
    }


def test_endpoints_are_the_names_that_pods_get() -> None:
    made_of = runtime(replicated("launcher"), trainer(), policy={"numNodes": 2, "mpi": {}})
    info = info_of(train_job(), made_of)
    JobSetPlugin().identify_pods(info)
    assert [each.endpoints for each in info.pod_sets] == [
        ["job-launcher-0-0.job"],
        ["job-node-0-0.job", "job-node-0-1.job"],
    ]


def test_only_objects_that_are_made_once_are_not_applied() -> None:
    made = components(train_job(), runtime(replicated("launcher"), trainer(), policy={"mpi": {}}))
    assert [each.obj.kind for each in made if each.is_created_once] == ["Secret"]


def test_a_pod_keeps_what_nobody_speaks_about() -> None:
    pod = {"volumes": [{"name": "v", "emptyDir": {}}], "hostNetwork": True, "priorityClassName": "p"}
    found = pod_of(render(train_job(), runtime(trainer(pod=pod)))["JobSet"])
    assert {key: found[key] for key in pod} == pod
