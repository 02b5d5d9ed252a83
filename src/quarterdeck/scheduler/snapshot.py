"""The input of a cycle: everything the scheduler looks at, as plain immutable values.

Who takes the snapshot reads the API objects (``intake`` does it for nodes and pods) and fills in these
structs; nothing here refers back to the API. Times are seconds since 1970. Order inside the collections does
not matter: the scheduler orders whatever it walks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, TypeAlias

import msgspec

from quarterdeck.api import Key
from quarterdeck.api.k8s import Affinity, NodeSelector, Taint, Toleration
from quarterdeck.scheduler.device import Allocation, ClaimInfo, Devices, PodClaim
from quarterdeck.scheduler.resource import NOTHING, Resources

UNLIMITED = -1.0
"""A quota or limit without bound."""

MigStrategy: TypeAlias = Literal["", "none", "single", "mixed"]

_NO_LABELS: Mapping[str, str] = {}


class NodeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A node."""

    name: str
    allocatable: Resources
    pods: int = 110
    """Pod slots."""
    labels: Mapping[str, str] = _NO_LABELS
    taints: tuple[Taint, ...] = ()
    is_ready: bool = True
    is_unschedulable: bool = False
    """``spec.unschedulable``."""
    pressures: tuple[str, ...] = ()
    """Types of the conditions that say the node is in trouble, such as ``MemoryPressure``."""
    gpu_memory: int = 0
    """Memory of one GPU in MiB (label ``nvidia.com/gpu.memory``); 0 if unknown."""
    claimable_gpus: int = 0
    """GPUs that pods get by resource claims, as queues count them."""
    mig_strategy: MigStrategy = ""
    """How GPUs that are cut into instances are offered; empty if none is."""


class GpuShare(msgspec.Struct, frozen=True):
    """A request for parts of GPUs: the same part of each of so many devices."""

    portion: float = 0.0
    """Between 0 and 1; 0 when the request is by memory."""
    memory: int = 0
    """MiB of each device; 0 when the request is by portion."""
    devices: int = 1


class HostPort(msgspec.Struct, frozen=True):
    """A port of the node that a pod takes."""

    ANY: ClassVar[str] = "0.0.0.0"  # noqa: S104  # the API's word for every address of the node

    port: int
    protocol: str = "TCP"
    ip: str = ANY


class PodConstraints(msgspec.Struct, frozen=True, kw_only=True):
    """Where a pod may run, apart from resources."""

    node_selector: tuple[tuple[str, str], ...] = ()
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    volume_nodes: tuple[NodeSelector, ...] = ()
    """Node selectors of the persistent volumes behind its claims; all must accept the node."""
    claim_nodes: tuple[NodeSelector, ...] = ()
    """Where claims that have no volume yet may get one; all must accept the node."""
    problems: tuple[str, ...] = ()
    """Why no node will do whatever it has, such as a claim or a ConfigMap that does not exist."""


class PodInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A pod: of this scheduler or of another one that uses up part of a node."""

    namespace: str
    name: str
    uid: str
    created: float = 0.0
    labels: Mapping[str, str] = _NO_LABELS
    scheduler_name: str = "kai-scheduler"
    phase: Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"] = "Pending"
    node: str = ""
    """``spec.nodeName``."""
    nominated_node: str = ""
    is_deleted: bool = False
    deleted: float | None = None
    """When it should have been gone, if it is known."""
    """Has a deletion timestamp."""
    is_gated: bool = False
    """Has scheduling gates."""
    pod_group: str = ""
    """Annotation ``pod-group-name``: a pod group of the same namespace."""
    subgroup: str = ""
    """Label ``kai.scheduler/subgroup-name``."""
    request: Resources = NOTHING
    """Containers, init containers and overhead; whole GPUs only."""
    gpu_share: GpuShare | None = None
    """Annotations ``gpu-fraction``, ``gpu-memory``, ``gpu-fraction-num-devices``."""
    gpu_groups: tuple[str, ...] = ()
    """The shared GPUs it holds (labels ``runai-gpu-group`` and ``runai-gpu-group/<id>``)."""
    claims: tuple[PodClaim, ...] = ()
    claimed_gpus: int = 0
    """GPUs among the devices of its claims, as queues count them."""
    constraints: PodConstraints = PodConstraints()

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)


class BindRequestInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A placement that was decided in an earlier cycle and may still be under way."""

    namespace: str
    name: str
    pod: str
    """``spec.podName``."""
    node: str
    """``spec.selectedNode``."""
    gpu_groups: tuple[str, ...] = ()
    claims: tuple[tuple[str, Allocation], ...] = ()
    """What the claims of the pod get, by what the pod calls them."""
    phase: str = ""
    failed_attempts: int = 0
    backoff_limit: int | None = None


class QueueResource(msgspec.Struct, frozen=True):
    """What a queue may use of one resource, in the units of ``Resources``; ``UNLIMITED`` is -1."""

    quota: int | float = 0.0
    limit: int | float = 0.0
    over_quota_weight: int | float = 0.0


class QueueInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A queue. Memory is in bytes here: the API's megabytes times 10⁶."""

    name: str
    display_name: str = ""
    parent: str = ""
    priority: int = 100
    created: float = 0.0
    cpu: QueueResource = QueueResource()
    memory: QueueResource = QueueResource()
    gpu: QueueResource = QueueResource()
    preempt_min_runtime: float | None = None
    reclaim_min_runtime: float | None = None
    usage: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Past use of cpu, memory and gpu as a part of the cluster; counts with time-based shares."""


class TopologyConstraint(msgspec.Struct, frozen=True, kw_only=True):
    """How close together pods must or should run; levels are node labels of the topology."""

    topology: str = ""
    required_level: str = ""
    preferred_level: str = ""


class SubGroupInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of ``spec.subGroups``."""

    name: str
    min_member: int = 0
    is_optional: bool = False
    """``minMember`` is 0 in so many words: nobody waits for its pods."""
    parent: str | None = None
    topology_constraint: TopologyConstraint | None = None
    min_subgroup: int | None = None


class SchedulingConditionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What matters of ``status.schedulingConditions``."""

    type: str
    node_pool: str
    status: str = "True"


class PodGroupInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A pod group; the scheduler calls it a job."""

    namespace: str
    name: str
    uid: str = ""
    created: float = 0.0
    queue: str = ""
    min_member: int = 0
    priority_class_name: str = ""
    preemptibility: Literal["", "preemptible", "non-preemptible"] = ""
    mark_unschedulable: bool = True
    scheduling_backoff: int = -1
    topology_constraint: TopologyConstraint = TopologyConstraint()
    subgroups: tuple[SubGroupInfo, ...] = ()
    min_subgroup: int | None = None
    last_start: float | None = None
    """Annotation ``kai.scheduler/last-start-timestamp``."""
    stale_since: float | None = None
    """Annotation ``kai.scheduler/stale-podgroup-timestamp``."""
    last_eviction: float | None = None
    """Annotation ``kai.scheduler/last-eviction-timestamp``."""
    preemption_delay: float = 0.0
    """Seconds for which it waits before others may be evicted for it."""
    staleness_grace_period: float | None = None
    """Seconds; none takes that of the settings."""
    scheduling_conditions: tuple[SchedulingConditionInfo, ...] = ()

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)


class PriorityClassInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A priority class."""

    name: str
    value: int
    is_global_default: bool = False


class TopologyInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A topology: node label keys from the widest level to the narrowest."""

    name: str
    levels: tuple[str, ...]


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster at one instant."""

    now: float
    nodes: tuple[NodeInfo, ...] = ()
    pods: tuple[PodInfo, ...] = ()
    pod_groups: tuple[PodGroupInfo, ...] = ()
    queues: tuple[QueueInfo, ...] = ()
    bind_requests: tuple[BindRequestInfo, ...] = ()
    priority_classes: tuple[PriorityClassInfo, ...] = ()
    topologies: tuple[TopologyInfo, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = {}
    """Labels of namespaces by name, for namespace selectors of pod affinity."""
    devices: Devices = Devices()
    claims: tuple[ClaimInfo, ...] = ()
