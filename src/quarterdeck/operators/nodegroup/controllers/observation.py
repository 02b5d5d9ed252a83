"""What a reconcile sees of the cluster, turned into the facts that ``logic.status`` works with.

Works on anything that reads like a client. Kinds that the cluster does not serve count as empty: most
clusters have machines of one engine only, an embedded one has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec

from quarterdeck.api import DynamicObject, GroupVersionKind, Resource, Time
from quarterdeck.api.k8s import Node, Secret
from quarterdeck.errors import CacheError, NoKindMatch, NotFound
from quarterdeck.operators.nodegroup import names
from quarterdeck.operators.nodegroup.index import NODES_BY_GROUP
from quarterdeck.operators.nodegroup.logic.capacity import capacity_error, starts_from_zero
from quarterdeck.operators.nodegroup.logic.clusterstate import StateError, cluster_configuration
from quarterdeck.operators.nodegroup.logic.status import Facts, MachineFailure, NodeFacts
from quarterdeck.operators.nodegroup.types.machine import (
    CapiMachine,
    CapiMachineDeployment,
    McmMachine,
    McmMachineDeployment,
)
from quarterdeck.runtime.reconcile.context import Context

R = TypeVar("R", bound=Resource)
MACHINE_TYPES: Final = GroupVersionKind(names.GROUP, "v1alpha1", names.MACHINE_TYPES_KIND)


class GroupReader(Protocol):
    """The part of a client that is needed here."""

    async def get(self, kind: type[R], name: str, namespace: str = "") -> R:
        """One object; raises ``NotFound``."""
        ...

    async def get_dynamic(self, kind: GroupVersionKind, name: str) -> DynamicObject:
        """One cluster-wide object of a kind without class; raises ``NotFound``, ``NoKindMatch``."""
        ...

    async def list(
        self, kind: type[R], *, namespace: str = "", labels: Mapping[str, str] | None = None
    ) -> Sequence[R]:
        """The objects that match; none if the kind is not served."""
        ...

    async def nodes(self, group: str) -> Sequence[Node]:
        """The Nodes of a group."""
        ...


class CachedReader:
    """Reads of one reconcile: from the cache where the kind is watched, else from the server."""

    def __init__(self, ctx: Context[Any]) -> None:
        self._ctx = ctx

    async def get(self, kind: type[R], name: str, namespace: str = "") -> R:
        return await self._ctx.get(kind, name, namespace, live=not self._ctx.cache.has_informer(kind))

    async def get_dynamic(self, kind: GroupVersionKind, name: str) -> DynamicObject:
        return await self._ctx.get(kind, name, live=not self._ctx.cache.has_informer(kind))

    async def list(
        self, kind: type[R], *, namespace: str = "", labels: Mapping[str, str] | None = None
    ) -> Sequence[R]:
        return await self._ctx.list(kind, namespace=namespace, labels=labels)

    async def nodes(self, group: str) -> Sequence[Node]:
        return self._ctx.index(Node, NODES_BY_GROUP(group))


class Machines(msgspec.Struct, frozen=True):
    """Machines and deployments of a group, of both engines."""

    count: int
    replicas: int
    engine: str
    is_frozen: bool
    failures: Sequence[MachineFailure]


async def observe(reader: GroupReader, group: Mapping[str, Any], now: Time) -> Facts:
    """Everything the status of a group depends on."""
    name = group["metadata"]["name"]
    nodes = await reader.nodes(name)
    simulated = sum(names.SIMULATED_LABEL in node.metadata.labels for node in nodes)
    provider = await _secret(reader, names.CLOUD_PROVIDER_SECRET, names.SYSTEM_NAMESPACE)
    checksums = await _secret(reader, names.CHECKSUMS_SECRET, names.MODULE_NAMESPACE)
    machines = await _machines(reader, name)
    class_kind = class_kind_of(provider)
    instance_class = await _instance_class(reader, group, class_kind)
    return Facts(
        group=group,
        now=str(now),
        nodes=[_node(node, now) for node in nodes],
        checksum=checksums.get(name, b"").decode(errors="replace"),
        provider_zones=_zones(provider.get("zones", b"")),
        replicas=machines.replicas,
        machines=machines.count + simulated,
        failures=machines.failures,
        is_frozen=machines.is_frozen,
        engine=machines.engine,
        class_kind=class_kind,
        has_class=instance_class is not None,
        capacity_error=await _capacity_error(reader, group, instance_class or {}),
        kubernetes_version=await _kubernetes_version(reader),
    )


def class_kind_of(provider: Mapping[str, bytes]) -> str:
    """The kind of instance class that a provider uses; empty if unknown."""
    return provider.get(names.CLASS_KIND_KEY, b"").decode(errors="replace")


def _node(node: Node, now: Time) -> NodeFacts:
    created = node.metadata.creation_timestamp
    return NodeFacts(
        name=node.metadata.name,
        is_ready=any(one.type == "Ready" and one.status == "True" for one in node.status.conditions),
        is_unschedulable=bool(node.spec.unschedulable),
        age=now.timestamp() - created.timestamp() if isinstance(created, Time) else 0.0,
        annotations=node.metadata.annotations,
        taints=[taint.key for taint in node.spec.taints],
    )


async def _secret(reader: GroupReader, name: str, namespace: str) -> Mapping[str, bytes]:
    try:
        return (await reader.get(Secret, name, namespace)).data
    except NotFound:
        return {}


def _zones(content: bytes) -> Sequence[str]:
    try:
        return msgspec.json.decode(content, type=list[str]) if content else ()
    except msgspec.DecodeError:
        return ()


async def _instance_class(
    reader: GroupReader, group: Mapping[str, Any], kind: str
) -> Mapping[str, Any] | None:
    """The instance class of a group; nothing if it does not exist, empty if it does not matter."""
    reference = ((group.get("spec") or {}).get("cloudInstances") or {}).get("classReference") or {}
    if not kind or reference.get("kind") != kind or not reference.get("name"):
        return {}  # the wrong kind is reported as such
    try:
        return await reader.get_dynamic(instance_class_kind(kind), reference["name"])
    except (NotFound, NoKindMatch):
        return None
    except CacheError:
        return {}


def instance_class_kind(kind: str) -> GroupVersionKind:
    """All providers' classes are in the same group and version."""
    return GroupVersionKind(names.GROUP, "v1", kind)


async def _capacity_error(
    reader: GroupReader, group: Mapping[str, Any], instance_class: Mapping[str, Any]
) -> str:
    if not instance_class or not starts_from_zero(group):
        return ""
    kind, name = instance_class["kind"], instance_class["metadata"]["name"]
    return capacity_error(kind, name, instance_class.get("spec") or {}, await _machine_types(reader))


async def _machine_types(reader: GroupReader) -> frozenset[str]:
    try:
        catalogue = await reader.get_dynamic(MACHINE_TYPES, names.MACHINE_TYPES)
    except (NotFound, NoKindMatch, CacheError):
        return frozenset()
    return frozenset(str(one.get("name")) for one in catalogue.get("instanceTypes") or ())


async def _kubernetes_version(reader: GroupReader) -> str:
    secret = await _secret(reader, names.CLUSTER_CONFIGURATION_SECRET, names.SYSTEM_NAMESPACE)
    try:
        return cluster_configuration(secret.get(names.CLUSTER_CONFIGURATION_KEY, b"")).kubernetes_version
    except StateError:
        return ""  # whoever writes a group is told


async def _machines(reader: GroupReader, group: str) -> Machines:
    label = {names.NODE_GROUP_LABEL: group}
    here = names.MODULE_NAMESPACE
    mcm = [one for one in await reader.list(McmMachine, namespace=here) if mcm_group(one) == group]
    capi = await reader.list(CapiMachine, namespace=here, labels=label)
    mcm_deployments = await reader.list(McmMachineDeployment, namespace=here, labels=label)
    capi_deployments = await reader.list(CapiMachineDeployment, namespace=here, labels=label)
    deployments: list[McmMachineDeployment | CapiMachineDeployment] = [*mcm_deployments, *capi_deployments]
    return Machines(
        count=len(mcm) + len(capi),
        replicas=sum(_number((one.spec or {}).get("replicas")) for one in deployments),
        engine=names.MCM if mcm_deployments else names.CAPI if capi_deployments else "",
        is_frozen=any(_is_frozen(one.status or {}) for one in deployments),
        failures=[failure for one in mcm_deployments for failure in _failures(one.status or {})],
    )


def mcm_group(machine: McmMachine) -> Any:
    value: Any = machine.spec or {}
    for step in ("nodeTemplate", "metadata", "labels", names.GROUP_LABEL):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _number(value: Any) -> int:
    return value if type(value) is int else 0


def _is_frozen(status: Mapping[str, Any]) -> bool:
    return any(
        isinstance(one, Mapping) and one.get("type") == "Frozen" and one.get("status") == "True"
        for one in status.get("conditions") or ()
    )


def _failures(status: Mapping[str, Any]) -> list[MachineFailure]:
    found = []
    for machine in status.get("failedMachines") or ():
        operation = machine.get("lastOperation") or {}
        found.append(
            MachineFailure(
                name=str(machine.get("name") or ""),
                provider_id=str(machine.get("providerID") or ""),
                owner=str(machine.get("ownerRef") or ""),
                description=str(operation.get("description") or ""),
                time=str(operation.get("lastUpdateTime") or ""),
                state=str(operation.get("state") or ""),
                type=str(operation.get("type") or ""),
            )
        )
    return found
