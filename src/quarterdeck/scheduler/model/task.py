"""A pod while a cycle decides about it, and the shape it shares with its like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quarterdeck.scheduler.decision import PodState
from quarterdeck.scheduler.device import Allocation
from quarterdeck.scheduler.resource import Resources, mig_gpus
from quarterdeck.scheduler.snapshot import GpuShare, PodConstraints, PodInfo

if TYPE_CHECKING:
    from quarterdeck.scheduler.model.claim import ClaimState
    from quarterdeck.scheduler.model.job import Job
    from quarterdeck.scheduler.model.node import NodeState
    from quarterdeck.scheduler.model.subgroup import Leaf

Amounts = tuple[float, float, float]
"""CPU, memory and GPUs, as queues count them."""

_ROLE_LABEL: Final = "training.kubeflow.org/job-role"
_LEADING_ROLES: Final = frozenset({"master", "launcher"})
_RAY_LABEL: Final = "ray.io/node-type"
_PRIORITY_LABEL: Final = "kai.scheduler/task-priority"


class Shape:
    """What pods that are equal to the scheduler have in common; nodes are judged once per shape."""

    __slots__ = (
        "claims",
        "constraints",
        "cpu",
        "gpu",
        "instances",
        "is_simple",
        "memory",
        "needs_gpu",
        "other_gpus",
        "scalars",
        "share",
        "verdicts",
    )

    def __init__(
        self,
        request: Resources,
        share: GpuShare | None,
        constraints: PodConstraints,
        claims: tuple[ClaimState, ...] = (),
        claimed_gpus: int = 0,
    ) -> None:
        self.cpu: Final = request.cpu
        self.memory: Final = request.memory
        self.gpu: Final = request.gpu
        """Whole devices."""
        self.scalars: Final = request.scalars
        self.share: Final = share
        self.constraints: Final = constraints
        self.claims: Final = claims
        self.instances: Final = mig_gpus(self.scalars)
        """Slices of GPUs that are cut into instances."""
        self.other_gpus: Final = claimed_gpus + self.instances
        """What queues are charged for GPUs that a node does not count as devices."""
        self.needs_gpu: Final = bool(request.gpu or self.other_gpus) or share is not None
        self.is_simple: Final = not (self.scalars or share or claims or constraints.host_ports)
        """Whether it takes nothing of a node but CPU, memory, whole GPUs and a pod slot."""
        self.verdicts: dict[int, tuple[str, ...]] = {}
        """What speaks against each node, by its rank."""


class Task:
    """A pod: where it is, what it holds, and what happened to it in this cycle."""

    __slots__ = (
        "charge",
        "devices",
        "groups",
        "info",
        "is_evicted",
        "is_virtual",
        "job",
        "key",
        "leaf",
        "node",
        "order",
        "shape",
        "state",
        "wanted",
    )

    def __init__(self, info: PodInfo, shape: Shape, state: PodState, wanted: Amounts) -> None:
        self.info: Final = info
        self.key: Final = info.key
        self.shape: Final = shape
        self.wanted: Final = wanted
        """What it asks its queue for."""
        self.state = state
        self.order: Final = task_order(info)
        self.job: Job | None = None
        self.leaf: Leaf | None = None
        self.node: NodeState | None = None
        """Where it runs, is bound to, or is promised to run."""
        self.groups = info.gpu_groups
        """Shared GPUs it holds on the node."""
        self.devices: tuple[Allocation | None, ...] = ()
        """What each of its claims has, or had before it was evicted."""
        self.charge: Amounts = (0, 0, 0)
        """What its queue is charged for it now."""
        self.is_virtual = False
        """Whether its state is of a search that is not committed."""
        self.is_evicted = False
        """Whether this cycle evicts it (and perhaps promises it another place)."""

    def __repr__(self) -> str:
        return f"Task({self.key}, {self.state.value}, {self.node.name if self.node else ''})"


def task_order(pod: PodInfo) -> tuple[object, ...]:
    """Sort key inside a leaf: which pod is placed first, and evicted last."""
    labels = pod.labels
    if not labels:
        return (True, True, 2, 0, pod.created, pod.uid, pod.name)
    return (
        labels.get(_ROLE_LABEL) not in _LEADING_ROLES,
        labels.get(_RAY_LABEL) != "head",
        *_priority(labels.get(_PRIORITY_LABEL)),
        pod.created,
        pod.uid,
        pod.name,
    )


def _priority(text: str | None) -> tuple[int, int]:
    """Pods that say a priority before those that do not, higher ones first, nonsense after numbers."""
    if text is None:
        return (2, 0)
    try:
        return (0, -int(text))
    except ValueError:
        return (1, 0)
