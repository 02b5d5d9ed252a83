"""What ``quarterdeck check`` finds about TrainJobs, their JobSets and their keys."""

from __future__ import annotations

import pytest

from quarterdeck.api import Resource
from quarterdeck.api.invariant import Objects
from quarterdeck.api.k8s import Secret
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.logic.invariant import INVARIANTS
from quarterdeck.operators.trainer.types import ClusterTrainingRuntime, TrainingRuntime, TrainJob

from .trainerkit import Json, cluster_runtime, container_of, render, runtime, train_job

TORCH: Json = {"numNodes": 2, "torch": {}}
OWNER = {
    "apiVersion": names.API_VERSION,
    "kind": "TrainJob",
    "name": "job",
    "uid": "uid-1",
    "controller": True,
}


def broken(name: str, *objects: Resource) -> list[str]:
    by_kind: dict[type[Resource], list[Resource]] = {}
    for each in objects:
        by_kind.setdefault(type(each), []).append(each)
    found = next(each for each in INVARIANTS if each.name == f"trainer/{name}").broken(Objects(by_kind))
    return [f"{each.object}: {each.problem}" for each in found]


def jobset(name: str = "job", **owner: object) -> JobSet:
    metadata = {"name": name, "namespace": "default", "ownerReferences": [{**OWNER, **owner}]}
    return JobSet.from_dict({"metadata": metadata, "spec": {"replicatedJobs": []}})


def test_a_jobset_has_the_name_of_its_train_job() -> None:
    job = train_job()
    assert broken("one-jobset", job, jobset()) == []
    assert broken("one-jobset", job, jobset(), jobset("other")) == [
        "JobSet default/other: is controlled by TrainJob job, which has a JobSet of its own name"
    ]


def test_a_jobset_whose_train_job_is_gone_is_found_and_others_are_not() -> None:
    assert broken("one-jobset", train_job(), jobset(uid="gone")) == [
        "JobSet default/job: its TrainJob is gone"
    ]
    assert broken("one-jobset", jobset(kind="Other"), jobset(controller=False)) == []


def changed(document: Json) -> JobSet:
    """A rendered JobSet in which somebody has changed a variable of the system."""
    entry = next(each for each in container_of(document)["env"] if each["name"] == "PET_NNODES")
    entry["value"] = "7"
    document["metadata"] |= {"namespace": "default", "ownerReferences": [OWNER]}
    return JobSet.from_dict(document)


def as_rendered(document: Json) -> JobSet:
    document["metadata"] |= {"namespace": "default", "ownerReferences": [OWNER]}
    return JobSet.from_dict(document)


@pytest.mark.parametrize("kind", ["TrainingRuntime", "ClusterTrainingRuntime"])
def test_variables_that_somebody_changed_are_named(kind: str) -> None:
    made_of = runtime(policy=TORCH)
    source: TrainingRuntime | ClusterTrainingRuntime = made_of
    job = train_job()
    if kind == "ClusterTrainingRuntime":
        source = cluster_runtime(made_of, "test")
        job = train_job(runtimeRef={"apiGroup": names.GROUP, "kind": kind, "name": "test"})
    document = render(train_job(), made_of)["JobSet"]
    assert broken("reserved-variables", job, source, as_rendered(document)) == []
    assert broken("reserved-variables", job, source, changed(document)) == [
        "JobSet default/job: somebody changed what the system sets: PET_NNODES"
    ]


def test_what_has_ended_and_what_has_no_runtime_is_left_alone() -> None:
    made_of, job = runtime(policy=TORCH), train_job()
    found = changed(render(job, made_of)["JobSet"])
    assert broken("reserved-variables", job, found) == []
    assert broken("reserved-variables", job, runtime(), found) == []
    for ended in ("Completed", "Failed"):
        status = {"conditions": [{"type": ended, "status": "True"}]}
        over = JobSet.from_dict({**found.to_dict(), "status": status})
        assert broken("reserved-variables", job, made_of, over) == []


def secret(*, immutable: bool, type: str = names.SSH_SECRET_TYPE, **owner: object) -> Secret:
    metadata = {"name": "keys", "namespace": "default", "ownerReferences": [{**OWNER, **owner}]}
    return Secret.from_dict({"metadata": metadata, "type": type, "immutable": immutable})


def test_keys_that_can_be_changed_are_found() -> None:
    job = train_job()
    assert broken("fixed-keys", job, secret(immutable=True)) == []
    assert broken("fixed-keys", job, secret(immutable=False)) == [
        "Secret default/keys: the SSH keys can be changed under running pods"
    ]
    assert broken("fixed-keys", job, secret(immutable=False, type="Opaque")) == []
    assert broken("fixed-keys", job, secret(immutable=False, uid="other")) == []
    assert broken("fixed-keys", job, secret(immutable=False, controller=False)) == []
    assert broken("fixed-keys", secret(immutable=False)) == []


def test_each_invariant_looks_at_the_kinds_it_needs() -> None:
    kinds = {each.name: {kind.__name__ for kind in each.kinds} for each in INVARIANTS}
    assert kinds["trainer/one-jobset"] == {"TrainJob", "JobSet"}
    assert TrainJob.__name__ in kinds["trainer/fixed-keys"]
