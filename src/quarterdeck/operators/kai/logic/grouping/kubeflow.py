"""The groupers of Kubeflow's training jobs: a gang of all replicas.

PyTorchJobs have a subgroup for the master and one for the workers; workers may be cut into segments that
each want to be near each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.types import TopologyConstraint

from .default import default_plan
from .field import object_at, text_at, whole_at
from .plan import GroupingError, GroupPlan, SubGroupPlan
from .workload import Workload

REPLICA_SPECS: Final = {
    "TFJob": "tfReplicaSpecs",
    "PyTorchJob": "pytorchReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
}
"""Where each kind keeps its replicas."""
REPLICA_TYPE_LABEL: Final = "training.kubeflow.org/replica-type"
REPLICA_INDEX_LABEL: Final = "training.kubeflow.org/replica-index"
JOB_NAME_LABEL: Final = "training.kubeflow.org/job-name"
JOB_ROLE_LABEL: Final = "training.kubeflow.org/job-role"
WAIT_FOR_WORKERS: Final = "WaitForWorkersReady"
MASTER: Final = "master"
WORKER: Final = "worker"
MAX_SEGMENTS: Final = 10_000


def group_distributed(workload: Workload) -> GroupPlan:
    """One group for the job, as big as all its replicas unless it says how many it needs."""
    job = workload.top_owner
    replicas = _replicas(job)
    minimum = whole_at(job, "spec", "runPolicy", "schedulingPolicy", "minAvailable")
    if minimum is None:
        minimum = _total(job.metadata.name, replicas)
        elastic = whole_at(job, "spec", "elasticPolicy", "minReplicas")
        minimum = elastic if elastic is not None else minimum
    return msgspec.structs.replace(default_plan(workload, job), min_member=minimum)


def launchers(workload: Workload) -> Mapping[str, str]:
    """The labels of the launcher of an MPIJob, where it matters whether it is there."""
    job = workload.top_owner
    if text_at(job, "spec", "launcherCreationPolicy") != WAIT_FOR_WORKERS:
        return {}
    return {JOB_NAME_LABEL: job.metadata.name, JOB_ROLE_LABEL: "launcher"}


def group_mpi(workload: Workload) -> GroupPlan:
    """One group for the job; a launcher that is made when the workers run does not count before."""
    plan = group_distributed(workload)
    if not launchers(workload) or any(not pod.metadata.is_deleting for pod in workload.companions):
        return plan
    job = workload.top_owner
    replicas = object_at(job, "spec", REPLICA_SPECS["MPIJob"]) or {}
    count = whole_at(replicas.get("Launcher"), "replicas")
    if not count:
        raise GroupingError(
            f"the type of the job {job.metadata.name} doesn't allow for 0 mpiReplicaSpecs pods. "
            "Please fix the replica field"
        )
    return msgspec.structs.replace(plan, min_member=plan.min_member - count)


def group_pytorch(workload: Workload) -> GroupPlan:
    """The same, with a subgroup for the master and one, or several, for the workers."""
    plan = group_distributed(workload)
    replicas = _replicas(workload.top_owner)
    masters = _count(replicas["Master"]) if "Master" in replicas else 0
    groups: list[SubGroupPlan] = []
    if masters > 0:
        groups.append(SubGroupPlan(name=MASTER, min_member=masters, pods=_pods_of(workload, MASTER)))
    if "Worker" in replicas:
        groups += _workers(workload, replicas["Worker"], max(0, plan.min_member - masters))
    return msgspec.structs.replace(plan, sub_groups=tuple(groups))


def _replicas(job: Any) -> Mapping[str, Any]:
    field = REPLICA_SPECS[job.kind]
    found = object_at(job, "spec", field)
    if not found:
        raise GroupingError(
            f"the type of the job {job.metadata.name} doesn't have a {field} field. "
            "Please fix the replica field"
        )
    return found


def _total(name: str, replicas: Mapping[str, Any]) -> int:
    counts = {kind: _count(replica) for kind, replica in replicas.items()}
    for kind, count in counts.items():
        if count <= 0:
            raise GroupingError(
                f"the type of the job {name} doesn't allow for 0 {kind} pods. Please fix the replica field"
            )
    return sum(counts.values())


def _count(replica: Any) -> int:
    """Replicas; Kubeflow takes one unless told otherwise."""
    found = whole_at(replica, "replicas")
    return found if found is not None else 1


def _workers(workload: Workload, replica: Any, minimum: int) -> list[SubGroupPlan]:
    size = _segment_size(workload, replica)
    if size is None:
        return [SubGroupPlan(name=WORKER, min_member=minimum, pods=_pods_of(workload, WORKER))]
    count = _count(replica)
    segments = -(-count // size)
    if segments > MAX_SEGMENTS:
        raise GroupingError(f"segments of {size} would make {segments} subgroups, more than {MAX_SEGMENTS}")
    own, constraint = _segment_of(workload, size), _segment_constraint(workload, replica)
    children = [
        SubGroupPlan(
            name=f"{WORKER}-{place}",
            min_member=min(size, count - place * size),
            parent=WORKER,
            constraint=constraint,
            pods=_pods_of(workload, WORKER) if place == own else frozenset(),
        )
        for place in range(segments)
    ]
    return [SubGroupPlan(name=WORKER, min_member=minimum), *children]


def _pods_of(workload: Workload, kind: str) -> frozenset[str]:
    pod = workload.pod.metadata
    return frozenset({pod.name}) if pod.labels.get(REPLICA_TYPE_LABEL) == kind else frozenset()


def _segment_of(workload: Workload, size: int) -> int | None:
    """The segment of the pod, if it is a worker."""
    pod = workload.pod.metadata
    if pod.labels.get(REPLICA_TYPE_LABEL) != WORKER:
        return None
    label = pod.labels.get(REPLICA_INDEX_LABEL)
    if label is None:
        raise GroupingError(f"replica index label not found on pod {pod.namespace}/{pod.name}")
    if not label.isdecimal():
        raise GroupingError(f"invalid replica index {label} on pod {pod.namespace}/{pod.name}")
    return int(label) // size


def _segment_size(workload: Workload, replica: Any) -> int | None:
    text = _wish(workload, replica, names.SEGMENT_SIZE_ANNOTATION)
    if not text:
        return None
    if not text.isdecimal() or int(text) <= 0:
        raise GroupingError(f"segment size {text} needs to be a positive integer")
    return int(text)


def _segment_constraint(workload: Workload, replica: Any) -> TopologyConstraint | None:
    topology = _wish(workload, replica, names.TOPOLOGY_ANNOTATION)
    topology = topology or workload.top_owner.metadata.annotations.get(names.TOPOLOGY_ANNOTATION, "")
    required = _wish(workload, replica, names.SEGMENT_REQUIRED_ANNOTATION)
    preferred = _wish(workload, replica, names.SEGMENT_PREFERRED_ANNOTATION)
    if not topology or not (required or preferred):
        return None
    return TopologyConstraint(
        topology=topology, required_topology_level=required, preferred_topology_level=preferred
    )


def _wish(workload: Workload, replica: Any, annotation: str) -> str:
    """An annotation of the pod, else of the template of the workers."""
    own = workload.pod.metadata.annotations.get(annotation)
    return own or text_at(replica, "template", "metadata", "annotations", annotation) or ""
