"""The cluster as a scheduling cycle sees it, taken from the cache.

What was read of objects follows the events: a snapshot costs what changed since the last one. Events that
change nothing the scheduler looks at (a heartbeat of a node, a condition of a pod) count as none, so that a
cluster at rest is known to be without looking at all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

from quarterdeck.api import Key, Resource
from quarterdeck.api.codec import decode_json
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
from quarterdeck.client import AnyKind, metadata_of
from quarterdeck.client.clock import Clock
from quarterdeck.operators.kai.logic.demand import Surroundings, read_pod, with_demands
from quarterdeck.operators.kai.logic.device import claimable_gpus, with_claimable_gpus
from quarterdeck.operators.kai.logic.intake import (
    bind_request_info,
    pod_group_info,
    priority_class_info,
    queue_info,
    topology_info,
)
from quarterdeck.operators.kai.logic.shard import Pool
from quarterdeck.operators.kai.settings import KaiSettings
from quarterdeck.operators.kai.types import BindRequest, PodGroup, Queue, Topology
from quarterdeck.runtime.cache import Cache, Informer
from quarterdeck.runtime.cache.entry import Entry
from quarterdeck.runtime.rbac import watch_rules
from quarterdeck.scheduler.deviceintake import DeviceAccount, account_of, read_slice
from quarterdeck.scheduler.deviceselector import DeviceSelectors
from quarterdeck.scheduler.intake import node_info
from quarterdeck.scheduler.snapshot import PodInfo, Snapshot

T = TypeVar("T")
R = TypeVar("R", bound=Resource)
NAMESPACES: Final = metadata_of(Namespace)
CONFIG_MAPS: Final = metadata_of(ConfigMap)
KINDS: Final[tuple[AnyKind, ...]] = (
    Node,
    Pod,
    PodGroup,
    Queue,
    BindRequest,
    PriorityClass,
    Topology,
    PersistentVolumeClaim,
    PersistentVolume,
    StorageClass,
    NAMESPACES,
    CONFIG_MAPS,
)
"""What a snapshot is taken of."""
DEVICE_KINDS: Final[tuple[AnyKind, ...]] = (ResourceSlice, DeviceClass, ResourceClaim)
"""The same of clusters that have them."""
RULES: Final = tuple(rule for kind in (*KINDS, *DEVICE_KINDS) for rule in watch_rules(kind))


class _Reading(Generic[T]):
    """What was read of each object of a kind; it follows the events, and tells when something changed."""

    def __init__(self, informer: Informer, read: Callable[[Entry], T]) -> None:
        self._read: Final = read
        self._known: dict[Key, tuple[Entry, T]] = {}
        self._touched: dict[Key, Entry | None] = {entry.key: entry for entry in informer.entries()}
        """Objects that changed since they were read, as they are now."""
        self._version = 0
        self._values: tuple[T, ...] | None = None
        informer.observe(self._swapped)

    def _swapped(self, old: Entry | None, new: Entry | None) -> None:
        entry = new or old
        assert entry is not None
        self._touched[entry.key] = new

    def version(self) -> int:
        """Changes with what is known; a heartbeat and its like change nothing of it."""
        if self._touched:
            touched, self._touched = self._touched, {}
            for key, entry in touched.items():
                self._version += self._update(key, entry)
        return self._version

    def _update(self, key: Key, entry: Entry | None) -> bool:
        """Read an object again; whether it is different."""
        old = self._known.get(key)
        if entry is None:
            self._values = None
            return self._known.pop(key, None) is not None
        value = self._read(entry)
        if old is not None and old[1] == value and old[0].labels == entry.labels:
            self._known[key] = (entry, old[1])
            return False
        self._known[key] = (entry, value)
        self._values = None
        return True

    def all(self) -> Iterable[tuple[Entry, T]]:
        """Every object, with what is known of it."""
        self.version()
        return self._known.values()

    def values(self) -> tuple[T, ...]:
        """What is known of every object."""
        self.version()
        if self._values is None:
            self._values = tuple(value for _, value in self._known.values())
        return self._values


class _Count:
    """Counts the changes of a kind."""

    def __init__(self, informer: Informer, is_change: Callable[[Entry, Entry], bool]) -> None:
        """``is_change`` tells whether a change from one version to the next matters."""
        self._is_change: Final = is_change
        self.changes = 0
        informer.observe(self._swapped)

    def _swapped(self, old: Entry | None, new: Entry | None) -> None:
        if old is None or new is None or self._is_change(old, new):
            self.changes += 1


def _is_any_change(old: Entry, new: Entry) -> bool:
    return True


def _is_relabelled(old: Entry, new: Entry) -> bool:
    return old.labels != new.labels


def _is_no_change(old: Entry, new: Entry) -> bool:
    return False


_COUNTED: Final[Mapping[AnyKind, Callable[[Entry, Entry], bool]]] = {
    PersistentVolumeClaim: _is_any_change,
    PersistentVolume: _is_any_change,
    StorageClass: _is_any_change,
    ResourceSlice: _is_any_change,
    DeviceClass: _is_any_change,
    ResourceClaim: _is_any_change,
    NAMESPACES: _is_relabelled,
    CONFIG_MAPS: _is_no_change,  # they only have to be there
}
"""Kinds that are not read as a whole, with what matters of their changes."""


class SnapshotTaker:
    """Takes snapshots of one cluster, or of node pools of it."""

    def __init__(self, cache: Cache, settings: KaiSettings, clock: Clock) -> None:
        """Declares ``KINDS`` to the cache."""
        self._clock: Final = clock
        self._pool: Final = Pool(settings.node_pool_label, settings.node_pool or None)
        self._informers: Final = {kind: cache.informer(kind) for kind in KINDS}
        self._informers.update((kind, cache.informer(kind, optional=True)) for kind in DEVICE_KINDS)
        self._slices: Final = _Reading(
            self._informers[ResourceSlice], lambda entry: read_slice(_document(entry))
        )
        self._resource_claims: Final = _Reading(self._informers[ResourceClaim], _document)
        self._selectors: Final = DeviceSelectors()
        self._devices: tuple[object, DeviceAccount] = (None, DeviceAccount())
        """Of a version."""
        self._nodes: Final = _Reading(self._informers[Node], lambda entry: node_info(_document(entry)))
        self._pods: Final = _Reading(
            self._informers[Pod], lambda entry: read_pod(_document(entry), settings.scheduler_name)
        )
        self._volumes: Final = _Reading(self._informers[PersistentVolume], _document)
        known = self._informers[CONFIG_MAPS]
        self._around: Final = Surroundings(
            claim=lambda namespace, name: self._find(PersistentVolumeClaim, name, namespace),
            volume=lambda name: self._find(PersistentVolume, name),
            storage_class=lambda name: self._find(StorageClass, name),
            volumes=self._volumes.values,
            has_config_map=lambda namespace, name: known.get(namespace, name) is not None,
            resource_claim=lambda namespace, name: self._find(ResourceClaim, name, namespace),
            devices=self.devices,
            queue_of=self._queue_of,
        )
        self._groups: Final = self._typed(PodGroup, pod_group_info)
        self._queues: Final = self._typed(Queue, queue_info)
        self._requests: Final = self._typed(BindRequest, bind_request_info)
        self._priorities: Final = self._typed(PriorityClass, priority_class_info)
        self._topologies: Final = self._typed(Topology, topology_info)
        self._counts: Final = {
            kind: _Count(self._informers[kind], is_change) for kind, is_change in _COUNTED.items()
        }
        self._demanding: tuple[object, tuple[PodInfo, ...]] = (None, ())
        """Pods with what they demand, of a version."""

    def version(self) -> object:
        """Two moments with equal versions have equal snapshots, apart from the time."""
        readings = (
            *(self._nodes, self._pods, self._groups, self._queues),
            *(self._requests, self._priorities, self._topologies),
        )
        return (*(each.version() for each in readings), *self._version_of(self._counts))

    def _version_of(self, kinds: Iterable[AnyKind]) -> tuple[int, ...]:
        return tuple(self._counts[kind].changes for kind in kinds)

    def devices(self) -> DeviceAccount:
        """Devices and claims; computed when they have changed."""
        version = self._version_of(DEVICE_KINDS)
        if self._devices[0] != version:
            slices = self._slices.values()
            self._selectors.forget_others({each.name for each in slices})
            classes = {entry.name: _document(entry) for entry in self._informers[DeviceClass].entries()}
            claims = self._resource_claims.values()
            self._devices = (version, account_of(slices, classes, claims, self._selectors.accepts))
        return self._devices[1]

    def _queue_of(self, namespace: str, group: str) -> str:
        entry = self._informers[PodGroup].get(namespace, group) if group else None
        found = (_document(entry).get("spec") or {}).get("queue") if entry is not None else None
        return found or ""

    def take(self, pool: Pool | None = None) -> Snapshot:
        """The cluster now, or a part of it, as far as the cache knows; that of the settings unless told."""
        pool = pool or self._pool
        devices = self.devices()
        gpus = claimable_gpus(devices.slices)
        return Snapshot(
            now=self._clock.time(),
            nodes=tuple(
                with_claimable_gpus(info, gpus) for entry, info in self._nodes.all() if pool.has(entry.labels)
            ),
            pods=self._pods_with_demands(),
            pod_groups=tuple(info for entry, info in self._groups.all() if pool.has(entry.labels)),
            queues=tuple(info for entry, info in self._queues.all() if pool.has(entry.labels)),
            bind_requests=tuple(
                info
                for entry, info in self._requests.all()
                if pool.has(entry.labels) and not self._is_left_over(entry, info.pod)
            ),
            priority_classes=self._priorities.values(),
            topologies=self._topologies.values(),
            namespaces={entry.name: entry.labels for entry in self._informers[NAMESPACES].entries()},
            devices=devices.devices,
            claims=devices.claims,
        )

    def _pods_with_demands(self) -> tuple[PodInfo, ...]:
        version = (self._pods.version(), self._groups.version(), *self._version_of(self._counts))
        if self._demanding[0] != version:
            pods = tuple(with_demands(pod, self._around) for pod in self._pods.values())
            self._demanding = (version, pods)
        return self._demanding[1]

    def left_over_requests(self) -> list[Key]:
        """Bind requests of pods whose name another pod has by now."""
        return [entry.key for entry, info in self._requests.all() if self._is_left_over(entry, info.pod)]

    def _typed(self, kind: type[R], read: Callable[[R], T]) -> _Reading[T]:
        informer = self._informers[kind]
        decode = informer.decoder(kind)
        return _Reading(informer, lambda entry: read(decode(entry)))

    def _is_left_over(self, request: Entry, pod: str) -> bool:
        present = self._informers[Pod].get(request.namespace, pod)
        owners = request.owner_references
        return present is not None and bool(owners) and all(owner.uid != present.uid for owner in owners)

    def _find(self, kind: type[Resource], name: str, namespace: str = "") -> Mapping[str, Any] | None:
        entry = self._informers[kind].get(namespace, name)
        return _document(entry) if entry is not None else None


def _document(entry: Entry) -> dict[str, Any]:
    document: dict[str, Any] = decode_json(entry.raw)
    return document
