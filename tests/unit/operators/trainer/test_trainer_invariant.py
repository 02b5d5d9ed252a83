"""What ``quarterdeck check`` finds about TrainJobs, their JobSets and their keys."""

from __future__ import annotations

import pytest

from quarterdeck.api import Resource
from quarterdeck.api.invariant import Objects
from quarterdeck.api.k8s import ConfigMap, Pod, Secret
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.keys import ssh_secret
from quarterdeck.operators.trainer.logic.invariant import INVARIANTS
from quarterdeck.operators.trainer.logic.secret import key_digest
from quarterdeck.operators.trainer.logic.snapshot import snapshot_text
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


MPI: Json = {"numNodes": 2, "mpi": {"mpiImplementation": "OpenMPI"}}


def running_jobset(digest: str = "") -> JobSet:
    """One of which a pod runs, made with the key of a digest."""
    status = {"replicatedJobsStatus": [{"name": "node", "active": 1}]}
    document = {**jobset().to_dict(), "status": status}
    document["metadata"]["annotations"] = {names.KEY_DIGEST: digest} if digest else {}
    return JobSet.from_dict(document)


def test_keys_that_are_lost_or_replaced_under_running_pods_are_found() -> None:
    job, made_of = train_job(), runtime(policy=MPI)
    key = ssh_secret(job)
    at_work = running_jobset(key_digest(key))
    assert broken("fixed-keys", job, made_of, at_work, key) == []
    assert broken("fixed-keys", job, made_of, at_work) == [
        "TrainJob default/job: the keys of its running pods are gone: there is no Secret job-mpi-ssh-auth"
    ]
    assert broken("fixed-keys", job, made_of, at_work, ssh_secret(job)) == [
        "Secret default/job-mpi-ssh-auth: the keys are not those of the pods that run"
    ]
    assert broken("fixed-keys", job, made_of, jobset()) == []  # nothing runs
    assert broken("fixed-keys", job, runtime(policy=TORCH), at_work) == []  # no keys are needed


def pod(name: str, value: str = "1", *, phase: str = "Running", attempt: str = "0", account: str = "") -> Pod:
    labels = {
        "jobset.sigs.k8s.io/jobset-name": "job",
        "jobset.sigs.k8s.io/replicatedjob-name": "node",
        "jobset.sigs.k8s.io/restart-attempt": attempt,
    }
    container = {"name": "node", "image": "x", "env": [{"name": "A", "value": value}]}
    return Pod.from_dict(
        {
            "metadata": {"name": name, "namespace": "default", "labels": labels},
            "spec": {"containers": [container], "serviceAccountName": account},
            "status": {"phase": phase},
        }
    )


def test_pods_of_one_run_are_of_one_template() -> None:
    job = train_job()
    assert broken("one-template", job, pod("a"), pod("b")) == []
    assert broken("one-template", job, pod("a"), pod("b", "2")) == [
        "Pod default/b: differs from other pods of node of TrainJob job"
    ]
    assert broken("one-template", job, pod("a"), pod("b", account="robot")) != []
    assert broken("one-template", job, pod("a", phase="Failed"), pod("b", "2")) == []
    assert broken("one-template", job, pod("a"), pod("b", "2", attempt="1")) == []
    assert broken("one-template", pod("a"), pod("b", "2")) == []


def test_a_train_job_without_its_runtime_is_found_unless_it_keeps_it_or_has_ended() -> None:
    job, made_of = train_job(), runtime()
    missing = ["TrainJob default/job: its TrainingRuntime test does not exist"]
    assert broken("one-runtime", job, made_of) == []
    assert broken("one-runtime", job) == missing
    # one of the same name and the other kind is another runtime
    assert broken("one-runtime", job, cluster_runtime(made_of, "test")) == missing
    kept = ConfigMap.from_dict(
        {
            "metadata": {"name": "job-runtime-snapshot", "namespace": "default", "ownerReferences": [OWNER]},
            "data": {"runtime": snapshot_text(made_of)},
        }
    )
    assert broken("one-runtime", job, kept) == []
    ended = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert broken("one-runtime", train_job(status=ended)) == []
    assert broken("one-runtime", train_job(managedBy="kueue.x-k8s.io/multikueue")) == []


def test_the_five_invariants_have_the_recoveries_of_the_design() -> None:
    found = {
        each.invariant: each.remedy
        for invariant in INVARIANTS
        for each in invariant.broken(
            Objects(
                {
                    TrainJob: [train_job(runtime="gone")],
                    JobSet: [jobset(uid="gone")],
                    Secret: [secret(immutable=False)],
                    Pod: [pod("a"), pod("b", "2")],
                }
            )
        )
    }
    assert found == {
        "trainer/one-jobset": "the garbage collector removes it; if it stays, delete it",
        "trainer/one-template": "suspend and resume the TrainJob: its pods are then made of one template",
        "trainer/fixed-keys": "delete and recreate the TrainJob",
        "trainer/one-runtime": "create the runtime; the TrainJob then goes on",
    }
    assert len(INVARIANTS) == 5


def test_each_invariant_looks_at_the_kinds_it_needs() -> None:
    kinds = {each.name: {kind.__name__ for kind in each.kinds} for each in INVARIANTS}
    assert kinds["trainer/one-jobset"] == {"TrainJob", "JobSet"}
    assert TrainJob.__name__ in kinds["trainer/fixed-keys"]
