"""The pods that matter to the default scheduler: those that hold a place on a node, and those that wait.

It follows the cache, so that a round costs what has changed since the last one, and what it places.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from quarterdeck.api.k8s import Pod
from quarterdeck.cluster.placement.device import uses_devices
from quarterdeck.cluster.placement.preemption import Occupant
from quarterdeck.cluster.placement.spread import spread_constraints
from quarterdeck.cluster.placement.state import Demand
from quarterdeck.cluster.placement.volume import VolumeReader, claims_of
from quarterdeck.cluster.podhead import pod_head
from quarterdeck.runtime.cache import Cache, Entry
from quarterdeck.scheduler.intake import pod_info
from quarterdeck.scheduler.snapshot import PodInfo

_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


class Waiting(msgspec.Struct):
    """A pod that has no node."""

    entry: Entry
    demand: Demand
    unbound: tuple[str, ...] = ()
    """Claims that get their volumes once it has a node."""

    @property
    def info(self) -> PodInfo:
        return self.demand.info


class _Known(msgspec.Struct):
    """What was found out about a pod."""

    entry: Entry
    """The state of the object that it is about."""
    demand: Demand | None = None
    """As ``PlacementState`` wants it; none for pods that do not matter."""
    claims: tuple[str, ...] = ()
    """Of volumes."""
    awaits_claims: bool = False
    """Whether claims for devices are yet to be made for it."""


class PodTable:
    """The pods of one cache, for schedulers of some names (of all, if there are none)."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names: Final = names
        self._cache: Cache | None = None
        self._touched: dict[str, Entry | None] = {}
        """By UID, the pods that have changed since the last look, as they are now."""
        self._known: dict[str, _Known] = {}
        self._placed: dict[str, Occupant] = {}
        self._waiting: dict[str, _Known] = {}

    def __len__(self) -> int:
        return len(self._known)

    @property
    def placed(self) -> Iterable[Occupant]:
        """Pods that held a place on a node at the last look."""
        return self._placed.values()

    def with_volumes(self) -> Iterator[tuple[Entry, tuple[str, ...]]]:
        """Pods that matter and have claims of volumes, with those."""
        for known in self._known.values():
            if known.demand is not None and known.claims:
                yield known.entry, known.claims

    def look(self, cache: Cache) -> list[Waiting]:
        """The pods that wait now."""
        if cache is not self._cache:
            self._follow(cache)
        touched, self._touched = self._touched, {}
        for uid, entry in touched.items():
            self._update(uid, entry)
        volumes = VolumeReader(cache)
        waiting = []
        for known in self._waiting.values():
            assert known.demand is not None
            if known.claims:
                waiting.append(Waiting(known.entry, *volumes.demanded(known.demand, known.claims)))
            else:
                waiting.append(Waiting(known.entry, known.demand))
        return waiting

    def _follow(self, cache: Cache) -> None:
        self._cache = cache
        informer = cache.informer(Pod)
        informer.observe(self._swapped)
        self._touched = {entry.uid: entry for entry in informer.entries()}
        self._known, self._placed, self._waiting = {}, {}, {}

    def _swapped(self, old: Entry | None, new: Entry | None) -> None:
        if old is not None:
            self._touched[old.uid] = None
        if new is not None:
            self._touched[new.uid] = new

    def _update(self, uid: str, entry: Entry | None) -> None:
        before = self._known.pop(uid, None)
        self._placed.pop(uid, None)
        self._waiting.pop(uid, None)
        if entry is None:
            return
        known = self._known[uid] = self._read(entry, before)
        if known.demand is None or known.awaits_claims:
            return
        if known.demand.info.node:
            self._placed[uid] = Occupant(known.demand.info, known.demand.priority)
        else:
            self._waiting[uid] = known

    def _read(self, entry: Entry, before: _Known | None) -> _Known:
        head = pod_head(entry)
        if head.has_ended:
            return _Known(entry)
        is_mine = not self._names or head.scheduler in self._names
        if not head.node and (entry.is_deleting or head.is_gated or not is_mine):
            return _Known(entry)
        # What a pod asks for changes with its generation only, or its labels.
        # What its claims for devices are called is told by its status.
        is_same = (
            before is not None
            and before.entry.generation == entry.generation
            and before.entry.labels is entry.labels
            and (bool(head.node) or not uses_devices(entry))
        )
        demand = before.demand if before is not None and is_same else None
        if demand is None or before is None:
            document = _decode(entry.raw)
            demand = Demand(
                pod_info(document),
                head.priority,
                spread_constraints(document),
                document["spec"].get("preemptionPolicy") != "Never",
            )
            awaits_claims = not head.node and _awaits_claims(document)
            return _Known(entry, demand, claims_of(document), awaits_claims)
        info = demand.info
        if (info.node, info.is_deleted) != (head.node, entry.is_deleting):
            info = msgspec.structs.replace(info, node=head.node, is_deleted=entry.is_deleting)
            demand = msgspec.structs.replace(demand, info=info)
        return _Known(entry, demand, before.claims)


def _awaits_claims(pod: dict[str, Any]) -> bool:
    """Whether claims are to be made from templates for a pod, and are not yet."""
    made = {each["name"] for each in pod.get("status", {}).get("resourceClaimStatuses") or ()}
    return any(
        each.get("resourceClaimTemplateName") and each["name"] not in made
        for each in pod["spec"].get("resourceClaims") or ()
    )
