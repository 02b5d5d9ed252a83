"""What TrainJobs and runtimes may say: initializers, overrides and when they change, gangs, runtimes."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api.k8s import Pod
from quarterdeck.errors import InternalError
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.logic.overriderule import active_jobs
from quarterdeck.operators.trainer.logic.plugin import ClusterFacts
from quarterdeck.operators.trainer.logic.runtimerule import (
    is_deprecated,
    reference_warning,
    runtime_warning,
    validate_runtime,
)

from .trainerkit import (
    initializer,
    replicated,
    runtime,
    train_job,
    trainer,
    violations,
)

Json = dict[str, Any]


@pytest.mark.parametrize(
    ("step", "key", "config"),
    [("dataset-initializer", "dataset", "datasetConfig"), ("model-initializer", "model", "modelConfig")],
)
def test_a_runtime_must_have_what_is_initialized(step: str, key: str, config: str) -> None:
    job = train_job(initializer={key: {"storageUri": "hf://x"}})

    def problem(*jobs: Json) -> str:
        (text,) = violations(job, runtime(*jobs, trainer()))
        assert text.startswith("spec.runtimeRef: Invalid value: {")
        return text.rpartition("}: ")[2]

    assert problem() == f"must have {step} job when trainJob is configured with input {config}"
    assert problem(replicated(step, container="other")) == (
        f"must have container with name - {step} in the {step} job"
    )
    assert problem(replicated(step)) == (
        f"must have volumeMount with name - initializer in container {step} of the {step} job"
    )
    assert violations(job, runtime(initializer(step), trainer())) == []


PREP = {"initContainers": [{"name": "prep", "image": "x"}]}


def override(*, job: str = "node", **spec: Any) -> list[Json]:
    return [{"targetJobs": [{"name": job}], "spec": spec}]


@pytest.mark.parametrize(
    ("overrides", "detail"),
    [
        (override(job="nope"), "must not have targetJob that doesn't exist in the runtime job template"),
        (
            override(initContainers=[{"name": "nope"}]),
            "must not have initContainer that doesn't exist in the runtime job node",
        ),
        (
            override(containers=[{"name": "nope"}]),
            "must not have container that doesn't exist in the runtime job node",
        ),
        (
            override(containers=[{"name": "node", "env": [{"name": "A", "value": "1"}]}]),
            "must not have envs for the dataset-initializer, model-initializer, node containers",
        ),
    ],
)
def test_overrides_of_what_is_not_there(overrides: list[Json], detail: str) -> None:
    (text,) = violations(train_job(podTemplateOverrides=overrides), runtime(trainer(pod=PREP)))
    assert text.startswith("spec.podTemplateOverrides: Invalid value: [")
    assert text.endswith(detail)


def test_a_job_that_is_not_there_has_no_containers() -> None:
    overrides = [{"targetJobs": [{"name": "nope"}], "spec": {"containers": [{"name": "node"}]}}]
    found = violations(train_job(podTemplateOverrides=overrides), runtime())
    assert [text.rpartition("]: ")[2] for text in found] == [
        "must not have targetJob that doesn't exist in the runtime job template",
        "must not have container that doesn't exist in the runtime job nope",
    ]


@pytest.mark.parametrize(
    "overrides",
    [
        override(containers=[{"name": "node", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]),
        override(initContainers=[{"name": "prep", "env": [{"name": "A", "value": "1"}]}]),
        override(initContainers=[{"name": "node", "env": [{"name": "A", "value": "1"}]}]),
        override(containers=[{"name": "prep", "env": [{"name": "A", "value": "1"}]}]),
    ],
)
def test_overrides_of_what_is_there(overrides: list[Json]) -> None:
    """Init containers and containers are looked up together, as upstream does."""
    assert violations(train_job(podTemplateOverrides=overrides), runtime(trainer(pod=PREP))) == []


def jobset(*active: str, suspend: bool = False) -> JobSet:
    counters = [
        {"name": name, "ready": 0, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}
        for name in active
    ]
    idle = {"name": "idle", "ready": 1, "succeeded": 1, "failed": 1, "active": 0, "suspended": 1}
    return JobSet.from_dict(
        {
            "metadata": {"name": "job", "namespace": "default"},
            "spec": {"suspend": suspend},
            "status": {"replicatedJobsStatus": [idle, *counters]},
        }
    )


def pod(phase: str = "Running", job: str = "node", *, is_going: bool = False) -> Pod:
    metadata: Json = {"name": "p", "labels": {"jobset.sigs.k8s.io/replicatedjob-name": job}}
    if is_going:
        metadata["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    return Pod.from_dict({"metadata": metadata, "status": {"phase": phase}})


OLD = train_job(suspend=True, podTemplateOverrides=override(serviceAccountName="a"))


def changed(facts: ClusterFacts | None = None, **spec: Any) -> list[str]:
    new = train_job(**{"suspend": True, "podTemplateOverrides": override(serviceAccountName="b"), **spec})
    return violations(new, runtime(), OLD, facts)


NOT_SUSPENDED = (
    "spec.podTemplateOverrides: Forbidden: "
    "PodTemplateOverrides can only be modified when the TrainJob is suspended"
)


def test_overrides_change_only_while_suspended() -> None:
    assert changed() == []
    assert changed(suspend=False) == [NOT_SUSPENDED]


@pytest.mark.parametrize(
    "overrides", [[], override(serviceAccountName="b"), [*OLD.to_dict()["spec"]["podTemplateOverrides"] * 2]]
)
def test_adding_removing_and_changing_all_count(overrides: list[Json]) -> None:
    assert changed(suspend=False, podTemplateOverrides=overrides) == [NOT_SUSPENDED]


def test_the_order_counts() -> None:
    both = override(serviceAccountName="a") + override(nodeSelector={"a": "1"})
    old, new = train_job(podTemplateOverrides=both), train_job(podTemplateOverrides=both[::-1])
    assert violations(new, runtime(), old) == [NOT_SUSPENDED]


def test_absent_and_empty_are_the_same() -> None:
    old, new = train_job(), train_job(podTemplateOverrides=[])
    assert violations(new, runtime(), old) == []
    assert violations(old, runtime(), new) == []


def test_other_changes_are_free() -> None:
    spec: Json = {"podTemplateOverrides": override(serviceAccountName="a")}
    old, new = train_job(**spec), train_job(**spec, trainer={"image": "b"})
    assert violations(new, runtime(), old, ClusterFacts(jobset=jobset("node"))) == []


def test_a_new_job_may_say_what_it_likes() -> None:
    job = train_job(podTemplateOverrides=override(serviceAccountName="a"))
    assert violations(job, runtime(), None, ClusterFacts(jobset=jobset("node"))) == []


def test_each_active_job_is_named() -> None:
    assert changed(ClusterFacts(jobset=jobset("a", "b"))) == [
        "spec.podTemplateOverrides: Forbidden: PodTemplateOverrides cannot be modified when JobSet's "
        f"ReplicatedJob {name} is still active"
        for name in ("a", "b")
    ]


def test_a_jobset_without_status_is_inactive() -> None:
    assert changed(ClusterFacts(jobset=JobSet())) == []


def test_a_jobset_that_cannot_be_read_is_an_error() -> None:
    assert changed(ClusterFacts(jobset=InternalError("no answer"))) == [
        "spec.podTemplateOverrides: Internal error: no answer"
    ]


@pytest.mark.parametrize(
    ("pods", "suspend", "active"),
    [
        ([pod()], False, ["node"]),
        ([pod("Pending")], False, ["node"]),
        ([pod(), pod()], False, ["node"]),
        ([pod()], True, []),
        ([pod(is_going=True)], False, []),
        ([pod("Succeeded"), pod("Failed")], False, []),
        ([pod(job="other"), pod()], False, ["other", "node"]),
    ],
)
def test_pods_tell_what_a_late_status_does_not(pods: list[Pod], suspend: bool, active: list[str]) -> None:
    assert active_jobs(jobset(suspend=suspend), pods) == active


def patches(manager: str = "a.b/c", job: str = "node", **pod: Any) -> list[Json]:
    replicated_job = {"name": job, "template": {"spec": {"template": {"spec": pod}}}}
    template = {"spec": {"replicatedJobs": [replicated_job]}}
    return [{"manager": manager, "trainingRuntimeSpec": {"template": template}}]


def test_patches_of_what_is_not_there() -> None:
    (text,) = violations(train_job(runtimePatches=patches(job="nope")), runtime())
    assert text.startswith("spec.runtimePatches: Invalid value: [")
    assert text.endswith("must not have replicated job that doesn't exist in the runtime job template")
    (text,) = violations(train_job(runtimePatches=patches(containers=[{"name": "nope"}])), runtime())
    assert text.endswith("must not have container that doesn't exist in the runtime job node")


@pytest.mark.parametrize(
    ("before", "after", "is_allowed"),
    [(True, True, True), (True, False, True), (False, True, True), (False, False, False)],
)
def test_patches_change_while_suspended_before_or_after(before: bool, after: bool, is_allowed: bool) -> None:
    old = train_job(suspend=before, runtimePatches=patches(nodeSelector={"a": "1"}))
    new = train_job(suspend=after, runtimePatches=patches(nodeSelector={"a": "2"}))
    found = violations(new, runtime(), old)
    text = "RuntimePatches can only be modified when the TrainJob is suspended before or after the update"
    assert found == ([] if is_allowed else [f"spec.runtimePatches: Forbidden: {text}"])


def test_patches_wait_for_active_jobs() -> None:
    old = train_job(suspend=True, runtimePatches=patches(nodeSelector={"a": "1"}))
    new = train_job(suspend=True, runtimePatches=patches(nodeSelector={"a": "2"}))
    (text,) = violations(new, runtime(), old, ClusterFacts(jobset=jobset("node")))
    assert text.endswith(
        "RuntimePatches cannot be modified when the JobSet's ReplicatedJob node is still active"
    )


def test_the_date_of_a_patch_is_no_change() -> None:
    old = train_job(runtimePatches=[{**each, "time": "2030-01-01T00:00:00Z"} for each in patches()])
    assert violations(train_job(runtimePatches=patches()), runtime(), old) == []


def test_parts_of_a_patch_are_for_ever() -> None:
    def volumes(name: str) -> list[Json]:
        return patches(volumes=[{"name": name, "emptyDir": {}}])

    old, new = (train_job(suspend=True, runtimePatches=volumes(name)) for name in "ab")
    (text,) = violations(new, runtime(), old)
    path = (
        "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0]"
        ".template.spec.template.spec.volumes"
    )
    assert text.startswith(f"{path}: Invalid value: ")
    assert text.endswith("field is immutable")


QUEUE = names.VOLCANO_QUEUE


def test_a_queue_must_have_a_name() -> None:
    made_of = runtime(metadata={"annotations": {QUEUE: ""}}, gang={"volcano": {}})
    assert violations(train_job(), made_of) == [
        f'spec.annotations[{QUEUE}]: Invalid value: "": Volcano queue name must not be empty'
    ]
    assert violations(train_job(annotations={QUEUE: "mine"}), made_of) == []
    assert violations(train_job(annotations={QUEUE: ""}), runtime(gang={"coscheduling": {}})) == []


def test_a_priority_must_exist() -> None:
    made_of = runtime(trainer(pod={"priorityClassName": "high"}), gang={"volcano": {}})
    facts = ClusterFacts(missing_priorities={"high": "not found"})
    detail = 'PriorityClass "high" doesn\'t exist: not found'
    assert violations(train_job(), made_of, None, facts) == [
        f'spec.templateSpec.priorityClassName: Invalid value: "high": {detail}'
    ]
    assert violations(train_job(), made_of) == []
    others = replicated("other", pod={"priorityClassName": "high"})
    last = trainer(pod={"priorityClassName": "system-node-critical"})
    (text,) = violations(train_job(), runtime(others, last, gang={"volcano": {}}), None, facts)
    assert text.endswith(detail)


@pytest.mark.parametrize("replicas", [0, 2])
def test_configured_jobs_have_one_replica(replicas: int) -> None:
    more = {"replicas": replicas}
    made_of = runtime(initializer(more=more), replicated("launcher", more=more), trainer(more=more))
    assert [str(each) for each in validate_runtime(made_of)] == [
        f"spec.template.spec.replicatedJobs[{place}].replicas: Invalid value: {replicas}: always must be 1"
        for place in (0, 2)
    ]


@pytest.mark.parametrize("step", ["trainer", "dataset-initializer", "model-initializer"])
def test_configured_jobs_have_the_container_that_is_configured(step: str) -> None:
    pod = {"initContainers": [{"name": "node", "image": "x"}, {"name": step, "image": "x"}]}
    made_of = runtime(replicated("j", ancestor=step, container="main", pod=pod))
    (found,) = validate_runtime(made_of)
    assert found.field == "spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers"
    assert found.body.endswith(f"must contain the required container for the ancestor: {step}")


def test_other_ancestors_are_nobodys_business() -> None:
    made_of = runtime(replicated("j", ancestor="something", more={"replicas": 5}))
    assert validate_runtime(made_of) == []


def test_warnings_about_deprecated_runtimes() -> None:
    old = runtime()
    assert not is_deprecated(old)
    labels = {names.SUPPORT_LABEL: names.DEPRECATED}
    assert is_deprecated(old.evolve(metadata=old.metadata.evolve(labels=labels)))
    assert runtime_warning("r").startswith('ClusterTrainingRuntime "r" is deprecated and will be removed in')
    assert reference_warning("r") == f"Referenced {runtime_warning('r')}"
    assert runtime_warning("r").endswith("runtime/#runtime-deprecation-policy")


@pytest.mark.parametrize(
    ("manager", "problem"),
    [
        ("", "Required value"),
        ("nobody", 'Invalid value: "nobody": must be a domain-prefixed path (such as "acme.io/foo")'),
        ("A.b/c", 'Invalid value: "A.b": a lowercase RFC 1123 subdomain must consist of'),
        ("a.b/c d", 'Invalid value: "c d": Invalid path (regex used for validation is'),
    ],
)
def test_the_manager_of_a_patch_is_a_domain_with_a_path(manager: str, problem: str) -> None:
    (found,) = violations(train_job(runtimePatches=patches(manager)), runtime())
    assert found.startswith(f"spec.runtimePatches.manager: {problem}")


def test_a_dataset_in_memory_needs_no_volume() -> None:
    job = train_job(initializer={"dataset": {"storageUri": "cache://catalog/table"}})
    made_of = runtime(replicated("dataset-initializer", ancestor="dataset-initializer"), trainer())
    assert violations(job, made_of) == []
