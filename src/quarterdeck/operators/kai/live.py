"""The scheduler's snapshot of a cluster, read over the API or from a cache: for tools, not for the operator.

The operator keeps its snapshot up to date by events; all read objects with the same functions.
"""

from __future__ import annotations

from typing import Any, Final

from quarterdeck.api import Key, Resource
from quarterdeck.api.k8s import (
    ConfigMap,
    DeviceClass,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PriorityClass,
    ResourceClaim,
    ResourceSlice,
    StorageClass,
)
from quarterdeck.client import Client, metadata_of
from quarterdeck.errors import NoKindMatch
from quarterdeck.runtime.cache import Cache
from quarterdeck.scheduler.deviceintake import account_of, read_slice
from quarterdeck.scheduler.deviceselector import DeviceSelectors
from quarterdeck.scheduler.intake import node_info
from quarterdeck.scheduler.snapshot import Snapshot

from .logic.demand import Surroundings, read_pod, with_demands
from .logic.device import claimable_gpus, with_claimable_gpus
from .logic.intake import bind_request_info, pod_group_info, priority_class_info, queue_info, topology_info
from .logic.shard import Pool
from .settings import KaiSettings
from .types import BindRequest, PodGroup, Queue, Topology

_PAGE = 1000
KINDS: Final = (
    metadata_of(ConfigMap),
    metadata_of(Namespace),
    DeviceClass,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PriorityClass,
    ResourceClaim,
    ResourceSlice,
    StorageClass,
    BindRequest,
    PodGroup,
    Queue,
    Topology,
)
"""What a cache must hold to be read."""


async def read_snapshot(client: Client | Cache, settings: KaiSettings, now: float) -> Snapshot:
    """All that the scheduler looks at; raises ``NoKindMatch`` where its kinds are not installed."""
    claims = {each.key: each.to_dict() for each in await _all(client, PersistentVolumeClaim)}
    volumes = {each.metadata.name: each.to_dict() for each in await _all(client, PersistentVolume)}
    classes = {each.metadata.name: each.to_dict() for each in await _all(client, StorageClass)}
    resource_claims = {each.key: each.to_dict() for each in await _served(client, ResourceClaim)}
    groups = {each.key: each for each in await _all(client, PodGroup)}
    devices = account_of(
        [read_slice(each.to_dict()) for each in await _served(client, ResourceSlice)],
        {each.metadata.name: each.to_dict() for each in await _served(client, DeviceClass)},
        resource_claims.values(),
        DeviceSelectors().accepts,
    )
    gpus = claimable_gpus(devices.slices)
    config_maps = {each.key for each in await client.list(metadata_of(ConfigMap))}
    around = Surroundings(
        claim=lambda namespace, name: claims.get(Key(namespace, name)),
        volume=volumes.get,
        storage_class=classes.get,
        volumes=lambda: [*volumes.values()],
        has_config_map=lambda namespace, name: Key(namespace, name) in config_maps,
        resource_claim=lambda namespace, name: resource_claims.get(Key(namespace, name)),
        devices=lambda: devices,
        queue_of=lambda namespace, name: (
            groups[Key(namespace, name)].spec.queue if Key(namespace, name) in groups else ""
        ),
    )
    pods = [each.to_dict() for each in await _all(client, Pod)]
    uids = {Key(pod["metadata"].get("namespace", ""), pod["metadata"]["name"]): pod for pod in pods}
    requests = [
        each for each in await _all(client, BindRequest) if not _is_left_over(each, uids)
    ]  # one of an earlier pod of the name is about to be deleted
    return Snapshot(
        now=now,
        nodes=tuple(
            with_claimable_gpus(node_info(each.to_dict()), gpus)
            for each in await _all(client, Node)
            if _is_in_pool(each, settings)
        ),
        pods=tuple(with_demands(read_pod(pod, settings.scheduler_name), around) for pod in pods),
        pod_groups=tuple(pod_group_info(each) for each in groups.values() if _is_in_pool(each, settings)),
        queues=tuple(queue_info(each) for each in await _all(client, Queue) if _is_in_pool(each, settings)),
        bind_requests=tuple(bind_request_info(each) for each in requests if _is_in_pool(each, settings)),
        priority_classes=tuple(priority_class_info(each) for each in await _all(client, PriorityClass)),
        topologies=tuple(topology_info(each) for each in await _all(client, Topology)),
        namespaces={
            each.metadata.name: dict(each.metadata.labels)
            for each in await client.list(metadata_of(Namespace))
        },
        devices=devices.devices,
        claims=devices.claims,
    )


async def _served(client: Client | Cache, kind: type[Any]) -> list[Any]:
    """All objects of a kind that the server need not have."""
    try:
        return await _all(client, kind)
    except NoKindMatch:
        return []


async def _all(client: Client | Cache, kind: type[Any]) -> list[Any]:
    found: list[Any] = []
    if isinstance(client, Cache):
        return [*await client.list(kind)]
    async for page in client.pages(kind, limit=_PAGE):
        found.extend(page)
    return found


def _is_in_pool(obj: Resource, settings: KaiSettings) -> bool:
    return Pool(settings.node_pool_label, settings.node_pool or None).has(obj.metadata.labels)


def _is_left_over(request: BindRequest, pods: dict[Key, dict[str, Any]]) -> bool:
    present = pods.get(Key(request.metadata.namespace, request.spec.pod_name))
    owners = request.metadata.owner_references
    return (
        present is not None
        and bool(owners)
        and all(owner.uid != present["metadata"].get("uid") for owner in owners)
    )
