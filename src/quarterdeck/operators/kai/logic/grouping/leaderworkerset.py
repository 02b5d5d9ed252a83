"""The grouper of LeaderWorkerSets: a gang for each replica, of its leader and its workers.

With a segment size the workers are cut into segments that each want to be near each other; the leader is in
the first, or by itself if the set says so.
"""

from __future__ import annotations

from typing import Final

import msgspec

from quarterdeck.api import DynamicObject
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.types import TopologyConstraint

from .default import default_plan
from .field import text_at, whole_at
from .plan import GroupingError, GroupPlan, SubGroupPlan
from .workload import Workload

SIZE_ANNOTATION: Final = "leaderworkerset.sigs.k8s.io/size"
GROUP_INDEX_LABEL: Final = "leaderworkerset.sigs.k8s.io/group-index"
WORKER_INDEX_LABEL: Final = "leaderworkerset.sigs.k8s.io/worker-index"
LEADER_READY: Final = "LeaderReady"
LEADER_CREATED: Final = "LeaderCreated"
LEADER_WORKER: Final = "LeaderWorker"
LEADER_EXCLUDED: Final = "LeaderExcluded"
LEADER: Final = "leader"
WORKERS: Final = "workers"
_TEMPLATE: Final = ("spec", "leaderWorkerTemplate")


def group_leader_worker_set(workload: Workload) -> GroupPlan:
    """One group for the replica of the pod."""
    owner, pod = workload.top_owner, workload.pod.metadata
    plan = default_plan(workload, owner)
    size = _minimum(workload)
    index = pod.labels.get(GROUP_INDEX_LABEL, "")
    name = f"{plan.name}-group-{int(index)}" if index.isdecimal() else plan.name
    segment = _segment_size(owner, size)
    groups = _whole(workload, size) if segment is None else _segments(workload, size, segment)
    return msgspec.structs.replace(plan, name=name, min_member=size, sub_groups=tuple(groups))


def _minimum(workload: Workload) -> int:
    """Pods that must start together: all, or the leader alone where the workers wait for it."""
    owner, pod = workload.top_owner, workload.pod
    size = whole_at(owner, *_TEMPLATE, "size")
    if size is None:
        raise GroupingError(f"leaderWorkerTemplate.size not found in LWS {_named(owner)}")
    if size <= 0:
        raise GroupingError(f"invalid leaderWorkerTemplate.size {size} in LWS {_named(owner)}")
    policy = text_at(owner, "spec", "startupPolicy")
    if policy in (None, LEADER_CREATED):
        return size
    if policy != LEADER_READY:
        raise GroupingError(f"unknown startupPolicy: {policy}")
    if _is_leader(workload) and not pod.spec.node_name:
        return 1
    told = pod.metadata.annotations.get(SIZE_ANNOTATION, "")
    return int(told) if told.isdecimal() else size


def _whole(workload: Workload, size: int) -> list[SubGroupPlan]:
    own, is_leader = frozenset({workload.pod.metadata.name}), _is_leader(workload)
    groups = [SubGroupPlan(name=LEADER, min_member=1, pods=own if is_leader else frozenset())]
    if size > 1:
        pods = frozenset() if is_leader else own
        groups.append(SubGroupPlan(name=WORKERS, min_member=size - 1, pods=pods))
    return groups


def _segment_size(owner: DynamicObject, size: int) -> int | None:
    """Pods of a segment: what the set says, or an annotation of it or of its workers; none if nobody does."""
    found = whole_at(owner, *_TEMPLATE, "subGroupPolicy", "subGroupSize")
    if found is None:
        text = owner.metadata.annotations.get(names.SEGMENT_SIZE_ANNOTATION)
        where = "in LWS"
        if text is None:
            path = (*_TEMPLATE, "workerTemplate", "metadata", "annotations", names.SEGMENT_SIZE_ANNOTATION)
            text, where = text_at(owner, *path), "in workerTemplate of LWS"
        if text is None:
            return None
        if not text.lstrip("-").isdecimal():
            raise GroupingError(f"invalid segment size annotation {text} {where} {_named(owner)}")
        found = int(text)
    if found <= 1:
        raise GroupingError(f"segmentSize {found} is not valid. It must be greater than 1")
    if found > size:
        raise GroupingError(f"segmentSize {found} is greater than replicasSize {size}")
    return found


def _segments(workload: Workload, size: int, segment: int) -> list[SubGroupPlan]:
    policy = text_at(workload.top_owner, *_TEMPLATE, "subGroupPolicy", "subGroupPolicyType") or LEADER_WORKER
    constraint = _constraint(workload)
    indexes = [_segment_of(worker, size, segment) for worker in range(size)]
    own, is_leader = frozenset({workload.pod.metadata.name}), _is_leader(workload)
    mine = _segment_of(_worker_index(workload), size, segment)
    # The leader is counted where it belongs, below.
    counts = [indexes[1:].count(number) for number in range(indexes[-1] + 1)]

    def part(number: int, minimum: int, *, holds: bool) -> SubGroupPlan:
        return SubGroupPlan(
            name=f"segment-{number}",
            min_member=minimum,
            constraint=constraint,
            pods=own if holds else frozenset(),
        )

    if policy == LEADER_EXCLUDED:
        if (size - 1) % segment:
            raise GroupingError(
                f"replicasSize {size} is not divisible by segmentSize {segment}. LeaderExcluded policy is "
                "only supported when replicasSize is divisible by segmentSize."
            )
        leader = SubGroupPlan(name=LEADER, min_member=1, pods=own if is_leader else frozenset())
        return [
            leader,
            *(
                part(number, count, holds=not is_leader and number == mine)
                for number, count in enumerate(counts)
            ),
        ]
    first = part(0, counts[0] + 1, holds=False)
    return [
        first,
        *(part(number, count, holds=number == mine) for number, count in enumerate(counts) if number),
        SubGroupPlan(name=LEADER, min_member=1, parent=first.name, pods=own if is_leader else frozenset()),
        SubGroupPlan(
            name=WORKERS,
            min_member=counts[0],
            parent=first.name,
            pods=own if mine == 0 and not is_leader else frozenset(),
        ),
    ]


def _segment_of(worker: int, size: int, segment: int) -> int:
    """The segment of a worker; if the workers make whole segments the leader is one more in the first."""
    if worker == 0:
        return 0
    return (worker - 1) // segment if (size - 1) % segment == 0 else worker // segment


def _constraint(workload: Workload) -> TopologyConstraint | None:
    topology = _wish(workload, names.TOPOLOGY_ANNOTATION)
    topology = topology or workload.top_owner.metadata.annotations.get(names.TOPOLOGY_ANNOTATION, "")
    required = _wish(workload, names.SEGMENT_REQUIRED_ANNOTATION)
    preferred = _wish(workload, names.SEGMENT_PREFERRED_ANNOTATION)
    if not topology or not (required or preferred):
        return None
    return TopologyConstraint(
        topology=topology, required_topology_level=required, preferred_topology_level=preferred
    )


def _wish(workload: Workload, annotation: str) -> str:
    """An annotation of the pod, else of the template of the workers."""
    path = (*_TEMPLATE, "workerTemplate", "metadata", "annotations", annotation)
    return workload.pod.metadata.annotations.get(annotation) or text_at(workload.top_owner, *path) or ""


def _is_leader(workload: Workload) -> bool:
    return workload.pod.metadata.labels.get(WORKER_INDEX_LABEL) == "0"


def _worker_index(workload: Workload) -> int:
    pod = workload.pod.metadata
    label = pod.labels.get(WORKER_INDEX_LABEL, "")
    if not label.isdecimal():
        raise GroupingError(f"failed to get worker index from pod {pod.namespace}/{pod.name}: {label!r}")
    return int(label)


def _named(owner: DynamicObject) -> str:
    return f"{owner.metadata.namespace}/{owner.metadata.name}"
