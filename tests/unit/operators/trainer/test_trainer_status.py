"""The status of TrainJobs, their deadline, and the audit of what runs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quarterdeck.api import Time, to_dict
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.logic.audit import Drift, find_drift, repaired
from quarterdeck.operators.trainer.logic.env import reserved_in
from quarterdeck.operators.trainer.logic.status import (
    deadline,
    is_finished,
    mirrored,
    with_deadline_exceeded,
    with_suspension,
    with_unsupported_runtime,
)
from quarterdeck.operators.trainer.metrics import state_of
from quarterdeck.operators.trainer.types import TrainJobStatus

from .trainerkit import FRAMEWORK, rendered_jobset, rendering, replicated, runtime, train_job, trainer

Json = dict[str, Any]
NOW = Time("2030-01-01T01:00:00Z")
LATER = Time("2030-01-01T02:00:00Z")
EMPTY = TrainJobStatus()


def types(status: TrainJobStatus) -> list[tuple[str, str, str]]:
    return [(each.type, each.status, each.reason) for each in status.conditions]


def ended(kind: str, reason: str = "Why", **status: Any) -> JobSet:
    condition = {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": "said",
        "lastTransitionTime": "2029-12-31T00:00:00Z",
    }
    return JobSet.from_dict({"metadata": {"name": "job"}, "status": {"conditions": [condition], **status}})


def test_a_job_that_was_never_suspended_says_nothing_about_it() -> None:
    assert with_suspension(EMPTY, train_job(), NOW) is EMPTY


def test_suspension_and_resume() -> None:
    suspended = with_suspension(EMPTY, train_job(suspend=True), NOW)
    assert types(suspended) == [("Suspended", "True", "Suspended")]
    assert with_suspension(suspended, train_job(suspend=True), LATER) is suspended
    resumed = with_suspension(suspended, train_job(), LATER)
    assert types(resumed) == [("Suspended", "False", "Resumed")]
    assert resumed.conditions[0].last_transition_time == LATER
    assert with_suspension(resumed, train_job(), NOW) is resumed


@pytest.mark.parametrize(("theirs", "ours"), [("Completed", "Complete"), ("Failed", "Failed")])
def test_the_end_of_the_jobset_is_the_jobs(theirs: str, ours: str) -> None:
    status = mirrored(EMPTY, ended(theirs))
    (condition,) = status.conditions
    assert (condition.type, condition.status, condition.reason, condition.message) == (
        ours,
        "True",
        "Why",
        "said",
    )
    assert condition.last_transition_time == Time("2029-12-31T00:00:00Z")
    assert is_finished(status)


def test_an_end_is_final() -> None:
    failed = with_deadline_exceeded(EMPTY, NOW)
    assert types(mirrored(failed, ended("Completed"))) == [("Failed", "True", "DeadlineExceeded")]


def test_other_conditions_are_the_jobsets_own() -> None:
    assert mirrored(EMPTY, ended("Suspended")) is EMPTY


def test_counters_are_copied_field_by_field() -> None:
    counts = {"name": "node", "ready": 1, "succeeded": 2, "failed": 3, "active": 4, "suspended": 5}
    jobset = ended("Suspended", replicatedJobsStatus=[{**counts, "jobRestarts": [1]}])
    status = mirrored(EMPTY, jobset)
    assert to_dict(status.jobs_status) == [counts]
    assert mirrored(status, jobset) is status


def test_a_status_never_becomes_empty() -> None:
    counted = mirrored(EMPTY, ended("Suspended", replicatedJobsStatus=[{"name": "node"}]))
    assert mirrored(counted, JobSet()) is counted
    suspended = with_suspension(counted, train_job(suspend=True), NOW)
    assert not mirrored(suspended, JobSet()).jobs_status


def test_an_unknown_runtime() -> None:
    status = with_unsupported_runtime(EMPTY, "Mystery.trainer.kubeflow.org", NOW)
    (condition,) = status.conditions
    assert (condition.type, condition.reason, condition.message) == (
        "Failed",
        "TrainingRuntimeNotSupported",
        "unsupported runtime: Mystery.trainer.kubeflow.org",
    )


def test_the_deadline_counts_from_the_beginning_or_the_last_resume() -> None:
    created = Time("2030-01-01T00:00:00Z").timestamp()
    job = train_job(activeDeadlineSeconds=60)
    assert deadline(train_job(), EMPTY) is None
    assert deadline(job, EMPTY) == created + 60
    assert deadline(train_job(activeDeadlineSeconds=60, suspend=True), EMPTY) is None
    suspended = with_suspension(EMPTY, train_job(suspend=True), NOW)
    resumed = with_suspension(suspended, job, LATER)
    assert deadline(job, resumed) == LATER.timestamp() + 60
    assert deadline(job, with_deadline_exceeded(EMPTY, NOW)) is None


@pytest.mark.parametrize(
    ("job", "state"),
    [
        (train_job(), "running"),
        (train_job(suspend=True), "suspended"),
        (train_job(status=to_dict(with_deadline_exceeded(EMPTY, NOW))), "failed"),
        (train_job(status=to_dict(mirrored(EMPTY, ended("Completed")))), "complete"),
        (train_job(suspend=True, status=to_dict(mirrored(EMPTY, ended("Completed")))), "complete"),
    ],
)
def test_one_word_for_how_a_job_is_doing(job: Any, state: str) -> None:
    assert state_of(job) == state


TORCH = runtime(policy={"torch": {}})
MPI = runtime(replicated("launcher"), trainer(), policy={"mpi": {}})
XGBOOST = runtime(policy={"xgboost": {}})
JAX = runtime(policy={"jax": {}})


def live(made_of: Any, *, applied_by: str = "trainer", **spec: Any) -> JobSet:
    """A JobSet as the server has it, with the manager of its processes."""
    jobset = rendered_jobset(train_job(trainer={"numNodes": 2, **spec}), made_of)
    variables = {"node": ("PET_NPROC_PER_NODE", "DMLC_NUM_WORKER"), "launcher": (names.OMPI_SLOTS,)}
    owned: Json = {}
    for job, own in variables.items():
        env: Json = {f'k:{{"name":"{variable}"}}': {"f:value": {}} for variable in own}
        pod = {"f:containers": {'k:{"name":"node"}': {"f:env": env}}}
        owned[f'k:{{"name":"{job}"}}'] = {"f:template": {"f:spec": {"f:template": {"f:spec": pod}}}}
    entry = {
        "manager": applied_by,
        "operation": "Apply",
        "fieldsV1": {"f:spec": {"f:replicatedJobs": owned}},
    }
    document = jobset.to_dict()
    document["metadata"]["managedFields"] = [entry]
    return JobSet.from_dict(document)


def tampered(jobset: JobSet, name: str, entry: Json | None, job: str = "node") -> JobSet:
    document = jobset.to_dict()
    replicated_job = next(each for each in document["spec"]["replicatedJobs"] if each["name"] == job)
    container = replicated_job["template"]["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [
        each if each["name"] != name else {"name": name, **(entry or {})}
        for each in container["env"]
        if entry is not None or each["name"] != name
    ]
    return JobSet.from_dict(document)


def found_in(made_of: Any, jobset: JobSet, processes: str | None = None) -> list[Drift]:
    """What an audit finds, with the processes that are rendered unless others are given."""
    owner = FRAMEWORK.env_owner(made_of)
    assert owner is not None
    known = rendering(train_job(), made_of).record.get(names.PROCESSES_PER_NODE, "")
    return find_drift(owner, made_of.spec.ml_policy, jobset, known if processes is None else processes)


def drift(made_of: Any, jobset: JobSet, processes: str | None = None) -> list[str]:
    return [name for each in found_in(made_of, jobset, processes) for name in each.names]


@pytest.mark.parametrize("made_of", [TORCH, MPI, XGBOOST, JAX])
def test_what_was_rendered_has_no_drift(made_of: Any) -> None:
    assert drift(made_of, live(made_of)) == []


@pytest.mark.parametrize(
    ("made_of", "job", "variable"),
    [
        (TORCH, "node", "PET_NNODES"),
        (TORCH, "node", "PET_NODE_RANK"),
        (TORCH, "node", "PET_MASTER_ADDR"),
        (TORCH, "node", "PET_MASTER_PORT"),
        (MPI, "launcher", "OMPI_MCA_orte_default_hostfile"),
        (MPI, "launcher", "OMPI_MCA_orte_keep_fqdn_hostnames"),
        (MPI, "launcher", "OMPI_MCA_plm_rsh_args"),
        (JAX, "node", "JAX_NUM_PROCESSES"),
        (JAX, "node", "JAX_PROCESS_ID"),
        (JAX, "node", "JAX_COORDINATOR_ADDRESS"),
        (XGBOOST, "node", "DMLC_TRACKER_URI"),
        (XGBOOST, "node", "DMLC_TRACKER_PORT"),
        (XGBOOST, "node", "DMLC_TASK_ID"),
    ],
)
@pytest.mark.parametrize(
    "entry",
    [{"value": "evil"}, {"value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}, None],
)
def test_drift_is_found_and_repaired(made_of: Any, job: str, variable: str, entry: Json | None) -> None:
    jobset = tampered(live(made_of), variable, entry, job)
    assert drift(made_of, jobset) == [variable]
    assert drift(made_of, repaired(jobset, found_in(made_of, jobset))) == []


@pytest.mark.parametrize(
    ("made_of", "job", "variable"),
    [
        (TORCH, "node", "PET_NPROC_PER_NODE"),
        (MPI, "launcher", "OMPI_MCA_orte_set_default_slots"),
        (XGBOOST, "node", "DMLC_NUM_WORKER"),
    ],
)
def test_processes_are_changed_if_somebody_else_owns_them(made_of: Any, job: str, variable: str) -> None:
    ours = tampered(live(made_of), variable, {"value": "9"}, job)
    assert drift(made_of, ours) == []
    theirs = tampered(live(made_of, applied_by="someone-else"), variable, {"value": "9"}, job)
    assert drift(made_of, theirs) == [variable]
    removed = tampered(live(made_of), variable, None, job)
    assert drift(made_of, removed) == [variable]


def test_processes_that_nobody_noted_are_not_known() -> None:
    jobset = tampered(live(TORCH, applied_by="x"), "PET_NPROC_PER_NODE", {"value": "9"})
    assert drift(TORCH, jobset, processes="") == []


def test_the_shape_of_the_jobset_decides() -> None:
    document = live(TORCH).to_dict()
    document["spec"]["replicatedJobs"][0]["template"]["spec"]["parallelism"] = 5
    document["spec"]["network"] = {"subdomain": "net"}
    assert drift(TORCH, JobSet.from_dict(document)) == ["PET_NNODES", "PET_MASTER_ADDR"]


def test_a_repair_touches_nothing_else() -> None:
    jobset = tampered(live(TORCH, env=[{"name": "MINE", "value": "1"}]), "PET_NNODES", {"value": "9"})
    after = repaired(jobset, found_in(TORCH, jobset)).to_dict()
    before = json.loads(json.dumps(jobset.to_dict()))
    container = before["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    next(each for each in container["env"] if each["name"] == "PET_NNODES")["value"] = "2"
    assert after == before


def test_what_the_server_adds_to_a_reference_is_no_drift() -> None:
    reference = {"valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": names.RANK_FIELD}}}
    assert drift(TORCH, tampered(live(TORCH), "PET_NODE_RANK", reference)) == []


def test_torchtune_has_no_address_to_compare() -> None:
    spec: Json = {"command": ["tune", "run"]}
    made_of = runtime(policy={"torch": {}}, name="torchtune-llama3.2-1b")
    jobset = live(made_of, **spec)
    assert drift(made_of, jobset) == []
    assert drift(made_of, tampered(jobset, "PET_NNODES", {"value": "9"})) == ["PET_NNODES"]


def test_reserved_variables_of_a_job_are_found_wherever_they_are() -> None:
    env = [{"name": "PET_NNODES", "value": "1"}, {"name": "MINE", "value": "1"}]
    more = [{"name": "PET_MASTER_PORT", "value": "1"}]
    containers = [{"name": "node", "env": more}, {"name": "other", "env": [{"name": "PET_NODE_RANK"}]}]
    patched = [{"name": "node", "env": [{"name": "PET_MASTER_ADDR", "value": "1"}]}]
    template = {"spec": {"template": {"spec": {"containers": patched}}}}
    job = train_job(
        trainer={"env": env},
        podTemplateOverrides=[{"targetJobs": [{"name": "node"}], "spec": {"containers": containers}}],
        runtimePatches=[
            {
                "manager": "a.b/c",
                "trainingRuntimeSpec": {
                    "template": {"spec": {"replicatedJobs": [{"name": "node", "template": template}]}}
                },
            }
        ],
    )
    assert reserved_in(job, names.TORCH_RESERVED) == ["PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NNODES"]
