"""Strategic merge of pod templates, and overrides merged by it."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.operators.trainer.logic.strategic import merge_template

from .trainerkit import container_of, env_of, job_of, pod_of, render, replicated, runtime, train_job, trainer

Json = dict[str, Any]


def override(*jobs: str, metadata: Json | None = None, **spec: Any) -> Json:
    made: Json = {"targetJobs": [{"name": job} for job in jobs or ("node",)], "spec": spec}
    return {**made, "metadata": metadata} if metadata else made


@pytest.mark.parametrize(
    ("original", "patch", "merged"),
    [
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}, {"tolerations": [{"key": "b"}]}),
        (
            {"volumeMounts": [{"name": "a", "mountPath": "/d"}]},
            {"volumeMounts": [{"name": "b", "mountPath": "/d"}]},
            {"volumeMounts": [{"name": "b", "mountPath": "/d"}]},
        ),
        (
            {"containers": [{"name": "c", "image": "x", "env": [{"name": "A", "value": "1"}]}]},
            {"containers": [{"name": "c", "env": [{"name": "B", "value": "2"}]}]},
            {
                "containers": [
                    {
                        "name": "c",
                        "image": "x",
                        "env": [{"name": "B", "value": "2"}, {"name": "A", "value": "1"}],
                    }
                ]
            },
        ),
    ],
)
def test_lists_merge_by_the_keys_of_their_types(original: Json, patch: Json, merged: Json) -> None:
    assert merge_template(original, patch) == merged


def test_later_overrides_win_and_several_may_name_one_job() -> None:
    job = train_job(
        podTemplateOverrides=[
            override(nodeSelector={"a": "1", "b": "1"}, serviceAccountName="first"),
            override(nodeSelector={"b": "2"}, serviceAccountName="second"),
        ]
    )
    pod = pod_of(render(job, runtime())["JobSet"])
    assert pod["nodeSelector"] == {"a": "1", "b": "2"}
    assert pod["serviceAccountName"] == "second"


def test_one_override_of_two_jobs_does_not_tie_them_together() -> None:
    made_of = runtime(replicated("launcher"), trainer(), policy={"torch": {}})
    added = [{"name": "v", "emptyDir": {}}]
    job = train_job(
        trainer={"env": [{"name": "MINE", "value": "1"}]},
        podTemplateOverrides=[override("launcher", "node", volumes=added, containers=[{"name": "node"}])],
    )
    jobset = render(job, made_of)["JobSet"]
    assert "MINE" in env_of(jobset)
    assert env_of(jobset, "launcher") == {}
    assert pod_of(jobset, "launcher")["volumes"] == added


def test_labels_and_annotations_of_overrides_go_to_pods_only() -> None:
    metadata = {"labels": {"l": "1"}, "annotations": {"a": "1"}, "name": "ignored"}
    jobset = render(train_job(podTemplateOverrides=[override(metadata=metadata)]), runtime())["JobSet"]
    pods = job_of(jobset)["template"]["spec"]["template"]["metadata"]
    assert pods == {"labels": {"l": "1"}, "annotations": {"a": "1"}}
    assert "labels" not in jobset["metadata"]


def test_what_an_override_leaves_empty_changes_nothing() -> None:
    tolerations = [{"key": "gpu"}]
    made_of = runtime(trainer(pod={"tolerations": tolerations, "nodeSelector": {"a": "1"}}))
    job = train_job(podTemplateOverrides=[override(tolerations=[], nodeSelector={}, serviceAccountName="")])
    pod = pod_of(render(job, made_of)["JobSet"])
    assert (pod["tolerations"], pod["nodeSelector"]) == (tolerations, {"a": "1"})


def test_affinity_merges_by_field_and_replaces_lists() -> None:
    def term(zone: str) -> Json:
        return {"nodeSelectorTerms": [{"matchExpressions": [{"key": zone, "operator": "Exists"}]}]}

    required = "requiredDuringSchedulingIgnoredDuringExecution"
    spread: Json = {"podAntiAffinity": {required: [{"topologyKey": "host"}]}}
    made_of = runtime(trainer(pod={"affinity": {"nodeAffinity": {required: term("a")}, **spread}}))
    job = train_job(podTemplateOverrides=[override(affinity={"nodeAffinity": {required: term("b")}})])
    assert pod_of(render(job, made_of)["JobSet"])["affinity"] == {
        "nodeAffinity": {required: term("b")},
        **spread,
    }


def patch(manager: str, **template: Any) -> Json:
    return {"manager": manager, "trainingRuntimeSpec": {"template": template}}


def patched_job(**template: Any) -> Json:
    return {"replicatedJobs": [{"name": "node", "template": template}]}


def test_runtime_patches_come_after_overrides_and_keep_the_order_of_jobs() -> None:
    made_of = runtime(replicated("launcher"), trainer())
    pod = {"spec": {"template": {"spec": {"nodeSelector": {"pool": "patch"}}}}}
    job = train_job(
        podTemplateOverrides=[override(nodeSelector={"pool": "override", "zone": "a"})],
        runtimePatches=[
            patch(
                "kueue.x-k8s.io/manager",
                metadata={"labels": {"queue": "q"}},
                spec=patched_job(metadata={"labels": {"step": "1"}}, **pod),
            )
        ],
    )
    jobset = render(job, made_of)["JobSet"]
    assert [each["name"] for each in jobset["spec"]["replicatedJobs"]] == ["launcher", "node"]
    assert pod_of(jobset)["nodeSelector"] == {"pool": "patch", "zone": "a"}
    assert jobset["metadata"]["labels"] == {"queue": "q"}
    assert job_of(jobset)["template"]["metadata"]["labels"]["step"] == "1"


def test_a_patch_of_a_container_merges_its_security_context() -> None:
    made_of = runtime(trainer(securityContext={"runAsUser": 1, "privileged": False}))
    containers = [{"name": "node", "securityContext": {"runAsUser": 7}}]
    job = train_job(
        runtimePatches=[
            patch("a.b/c", spec=patched_job(spec={"template": {"spec": {"containers": containers}}}))
        ]
    )
    found = container_of(render(job, made_of)["JobSet"])["securityContext"]
    assert found == {"runAsUser": 7, "privileged": False}
