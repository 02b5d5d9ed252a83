"""The kinds whose state health is judged by, and what is kept of each object."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

import msgspec

from quarterdeck.api import Resource
from quarterdeck.api.k8s import (
    CustomResourceDefinition,
    DaemonSet,
    Deployment,
    EndpointSlice,
    Event,
    Job,
    Lease,
    MutatingWebhookConfiguration,
    Namespace,
    Node,
    PersistentVolumeClaim,
    Pod,
    ReplicaSet,
    ResourceQuota,
    StatefulSet,
    ValidatingWebhookConfiguration,
)
from quarterdeck.operators.grove.types import PodClique, PodCliqueScalingGroup, PodCliqueSet
from quarterdeck.operators.ipam.types import Subnet, SubnetClaim, SubnetPool, SubnetPoolClaim
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.kai.types import BindRequest, PodGroup, Queue
from quarterdeck.operators.nodegroup.types import NodeGroup
from quarterdeck.operators.trainer.types import TrainJob

from .address import examine_claim, examine_pool, examine_pool_claim, examine_subnet
from .controlplane import (
    examine_definition,
    examine_event,
    examine_lease,
    examine_namespace,
    examine_webhooks,
    ready_endpoints,
    webhook_services,
)
from .field import ENDED, Json, condition, gang_of, items, number, of, pod_requests
from .gang import examine_bind_request, examine_pod_group, examine_queue, minimum_of
from .inference import examine_clique, examine_clique_set, examine_scaling_group
from .node import examine_node
from .nodegroup import examine_node_group
from .pod import examine_pod
from .problem import Finding
from .work import (
    examine_daemon_set,
    examine_deployment,
    examine_job,
    examine_job_set,
    examine_quota,
    examine_replica_set,
    examine_stateful_set,
    examine_train_job,
    examine_volume_claim,
)


class PodFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What rules about several objects need of a pod that has not ended."""

    namespace: str
    name: str
    gang: str
    node: str
    ready: bool
    created: str
    requests: tuple[tuple[str, float], ...]
    """Empty unless it waits."""


class GroupFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What rules about several objects need of a gang."""

    namespace: str
    name: str
    queue: str
    minimum: int


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What rules about several objects need of a node."""

    allocatable: dict[str, float]


class Seen(msgspec.Struct, frozen=True):
    """What is kept of an object: what is wrong with it by itself, and what matters together with others."""

    findings: tuple[Finding, ...] = ()
    facts: Any = None


class ObservedKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind, and how its objects are looked at."""

    kind: type[Resource]
    examine: Callable[[Json], Iterable[Finding]]
    facts: Callable[[Json], Any] | None = None
    operator: str = ""
    """Kinds of one operator are all installed, or none of them is."""

    @property
    def name(self) -> str:
        """The resource: ``pods``, ``queues``."""
        return self.kind.type_info.gvr.resource


def see(observed: ObservedKind, obj: Json) -> Seen:
    """What is kept of an object."""
    facts = observed.facts(obj) if observed.facts is not None else None
    return Seen(tuple(observed.examine(obj)), facts)


def _pod_facts(obj: Json) -> PodFacts | None:
    metadata, spec, status = of(obj, "metadata"), of(obj, "spec"), of(obj, "status")
    if status.get("phase") in ENDED or metadata.get("deletionTimestamp"):
        return None
    node = str(spec.get("nodeName") or "")
    gated = bool(items(spec, "schedulingGates"))
    return PodFacts(
        namespace=metadata.get("namespace") or "",
        name=metadata.get("name") or "",
        gang=gang_of(obj),
        node=node,
        ready=condition(obj, "Ready").get("status") == "True",
        created=metadata.get("creationTimestamp") or "",
        requests=() if node or gated else tuple(sorted(pod_requests(obj).items())),
    )


def _group_facts(obj: Json) -> GroupFacts:
    metadata, spec = of(obj, "metadata"), of(obj, "spec")
    return GroupFacts(
        namespace=metadata.get("namespace") or "",
        name=metadata.get("name") or "",
        queue=spec.get("queue") or "",
        minimum=minimum_of(obj),
    )


def _node_facts(obj: Json) -> NodeFacts:
    status = of(obj, "status")
    room = of(status, "allocatable") or of(status, "capacity")
    return NodeFacts(allocatable={name: number(value) for name, value in room.items()})


def _nothing(obj: Json) -> Iterable[Finding]:
    return ()


KINDS: Final = (
    ObservedKind(kind=Node, examine=examine_node, facts=_node_facts),
    ObservedKind(kind=Pod, examine=examine_pod, facts=_pod_facts),
    ObservedKind(kind=Event, examine=examine_event),
    ObservedKind(kind=Namespace, examine=examine_namespace),
    ObservedKind(kind=Lease, examine=examine_lease),
    ObservedKind(kind=PersistentVolumeClaim, examine=examine_volume_claim),
    ObservedKind(kind=ResourceQuota, examine=examine_quota),
    ObservedKind(kind=Deployment, examine=examine_deployment),
    ObservedKind(kind=ReplicaSet, examine=examine_replica_set),
    ObservedKind(kind=StatefulSet, examine=examine_stateful_set),
    ObservedKind(kind=DaemonSet, examine=examine_daemon_set),
    ObservedKind(kind=Job, examine=examine_job),
    ObservedKind(kind=EndpointSlice, examine=_nothing, facts=ready_endpoints),
    ObservedKind(
        kind=ValidatingWebhookConfiguration,
        examine=partial(examine_webhooks, "ValidatingWebhookConfiguration"),
        facts=webhook_services,
    ),
    ObservedKind(
        kind=MutatingWebhookConfiguration,
        examine=partial(examine_webhooks, "MutatingWebhookConfiguration"),
        facts=webhook_services,
    ),
    ObservedKind(kind=CustomResourceDefinition, examine=examine_definition),
    ObservedKind(kind=PodGroup, examine=examine_pod_group, facts=_group_facts, operator="kai"),
    ObservedKind(
        kind=Queue,
        examine=examine_queue,
        facts=lambda obj: of(obj, "spec").get("parentQueue") or "",
        operator="kai",
    ),
    ObservedKind(kind=BindRequest, examine=examine_bind_request, operator="kai"),
    ObservedKind(kind=TrainJob, examine=examine_train_job, operator="trainer"),
    ObservedKind(kind=JobSet, examine=examine_job_set),
    ObservedKind(kind=PodCliqueSet, examine=examine_clique_set, operator="grove"),
    ObservedKind(kind=PodClique, examine=examine_clique, operator="grove"),
    ObservedKind(kind=PodCliqueScalingGroup, examine=examine_scaling_group, operator="grove"),
    ObservedKind(kind=SubnetPool, examine=examine_pool, operator="ipam"),
    ObservedKind(kind=Subnet, examine=examine_subnet, operator="ipam"),
    ObservedKind(kind=SubnetClaim, examine=examine_claim, operator="ipam"),
    ObservedKind(kind=SubnetPoolClaim, examine=examine_pool_claim, operator="ipam"),
    ObservedKind(kind=NodeGroup, examine=examine_node_group, operator="nodegroup"),
)
