"""Cases in the language of the trainer case file: its words, and what the given file leaves out."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

TRAINER = "trainer.kubeflow.org/v1alpha1"
JOBSET = "jobset.x-k8s.io/v1alpha2"
ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"
TORCH: Json = {"numNodes": 1, "torch": {"numProcPerNode": "auto"}}
MPI: Json = {"numNodes": 1, "mpi": {"numProcPerNode": 1, "mpiImplementation": "OpenMPI"}}
RANK = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
ALL = ["trainer", "jobset", "job", "node-simulator"]


def job(name: str = "node", *, ancestor: str = "", container: str = "node", **more: Any) -> Json:
    """A replicated job; `more` goes into its pod spec."""
    containers = [{"name": container, "image": "example/runtime:1", "resources": {"requests": {"cpu": "1"}}}]
    template: Json = {"spec": {"template": {"spec": {"containers": containers, **more}}}}
    if ancestor:
        template["metadata"] = {"labels": {ANCESTOR: ancestor}}
    return {"name": name, "template": template}


def runtime(*jobs: Json, policy: Json | None = None, gang: Json | None = None, **more: Any) -> Json:
    """The TrainingRuntime `test-runtime`; `more` goes into its JobSetSpec."""
    replicated = list(jobs) or [job(ancestor="trainer")]
    spec: Json = {"template": {"spec": {"replicatedJobs": replicated, **more}}}
    if policy is not None:
        spec["mlPolicy"] = policy
    if gang is not None:
        spec["podGroupPolicy"] = gang
    return {
        "apiVersion": TRAINER,
        "kind": "TrainingRuntime",
        "metadata": {"name": "test-runtime", "namespace": "default"},
        "spec": spec,
    }


def mpi_runtime() -> Json:
    return runtime(job("launcher"), job(ancestor="trainer"), policy=MPI)


def train_job(name: str = "test-job", **spec: Any) -> Json:
    return {
        "apiVersion": TRAINER,
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"runtimeRef": {"kind": "TrainingRuntime", "name": "test-runtime"}, **spec},
    }


def overrides(pool: str) -> list[Json]:
    return [{"targetJobs": [{"name": "node"}], "spec": {"nodeSelector": {"pool": pool}}}]


def owned(kind: str, name: str = "test-job", version: str = JOBSET, **more: Any) -> Json:
    """An object that the TrainJob controls."""
    owner = {
        "apiVersion": TRAINER,
        "kind": "TrainJob",
        "name": "test-job",
        "uid": "${uid:TrainJob/default/test-job}",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {"name": name, "namespace": "default", "ownerReferences": [owner]}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def jobset(*replicated: Json, **more: Any) -> Json:
    spec = {"replicatedJobs": list(replicated)} if replicated else {}
    return owned("JobSet", spec={**spec, **more})


def with_env(*entries: Json, name: str = "node", **job_spec: Any) -> Json:
    """A replicated job as expected, with variables of its container `node`."""
    pod = {"spec": {"containers": [{"name": "node", "env": list(entries)}]}}
    return {"name": name, "template": {"spec": {"template": pod, **job_spec}}}


def literal(name: str, value: str) -> Json:
    return {"name": name, "value": value}


def foreign_jobset(**more: Any) -> Json:
    return {
        "apiVersion": JOBSET,
        "kind": "JobSet",
        "metadata": {"name": "test-job", "namespace": "default", "labels": {"who": "someone-else"}},
        "spec": {"replicatedJobs": [job("x")]},
        **more,
    }


def ssh_secret(**more: Any) -> Json:
    return owned("Secret", "test-job-mpi-ssh-auth", "v1", immutable=True, **more)


def ref(kind: str = "TrainJob", name: str = "test-job", version: str = "") -> Json:
    known = {"TrainJob": TRAINER, "TrainingRuntime": TRAINER, "JobSet": JOBSET, "Job": "batch/v1"}
    return {
        "apiVersion": version or known.get(kind, "v1"),
        "kind": kind,
        "name": name,
        "namespace": "default",
    }


def create(document: Json, **more: Any) -> Json:
    return {"op": "create", "object": document, **more}


def patch(target: Json, change: Json, **more: Any) -> Json:
    return {"op": "patch", "ref": target, "mergePatch": change, **more}


def spec(**change: Any) -> Json:
    """A change of the TrainJob's spec."""
    return patch(ref(), {"spec": change})


def patch_status(target: Json, **status: Any) -> Json:
    return {"op": "patchStatus", "ref": target, "mergePatch": {"status": status}}


def delete(target: Json, propagation: str = "Background") -> Json:
    return {"op": "delete", "ref": target, "propagation": propagation}


def expect(*objects: Json, within: int = 30, **more: Any) -> Json:
    return {"op": "expect", "withinSeconds": within, "objects": list(objects), **more}


def hold(*objects: Json, seconds: int = 3, **more: Any) -> Json:
    return {"op": "hold", "seconds": seconds, "objects": list(objects), **more}


def remember(name: str, target: Json, path: str) -> Json:
    return {"op": "remember", "as": name, "ref": target, "path": path}


def compared(name: str, target: Json, path: str) -> list[Json]:
    return [{"remembered": name, "ref": target, "path": path}]


def tamper(name: str, value: str = "", *, replicated: str = "node", bypass: bool = True) -> Json:
    """Change a variable of the JobSet; without a value, remove it."""
    change: Json = {"replicatedJob": replicated, "container": "node", "name": name}
    how = {"setEnv": {**change, "value": value}} if value else {"removeEnv": change}
    return {"op": "tamper", "ref": ref("JobSet"), "bypassAdmission": bypass, **how}


def event(reason: str, text: str = "") -> list[Json]:
    found = {"about": ref(), "type": "Warning", "reason": reason}
    return [{**found, "messageContains": text} if text else found]


def status(**parts: Any) -> Json:
    return {**ref_object(), "status": parts}


def ref_object() -> Json:
    return {
        "apiVersion": TRAINER,
        "kind": "TrainJob",
        "metadata": {"name": "test-job", "namespace": "default"},
    }


def condition(kind: str, value: str, reason: str) -> Json:
    return {"type": kind, "status": value, "reason": reason}


def counters(name: str = "node", **counts: int) -> Json:
    return {"name": name, "ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0, **counts}


def pods(**wanted: Any) -> Json:
    return {"namespace": "default", "selector": {"jobset.sigs.k8s.io/jobset-name": "test-job"}, **wanted}


def scenario(name: str, objects: list[Json], *steps: Json, note: str = "", **environment: Any) -> Json:
    """A case; the operator and its admission unless the environment says otherwise."""
    surroundings = {"controllers": ["trainer"], "admission": ["trainer"], **environment}
    case = {
        "id": name,
        "kind": "scenario",
        "source": "own",
        "given": {"environment": surroundings, "objects": objects},
        "when": {"steps": list(steps)},
        "then": {"allStepsHold": True},
    }
    return {**case, "note": note} if note else case


ACTIVE = counters(active=1)
RUNNING = patch_status(ref("JobSet"), replicatedJobsStatus=[ACTIVE])
WITH_JOBSET_ADMISSION: dict[str, Any] = {"admission": ["trainer", "jobset"]}
