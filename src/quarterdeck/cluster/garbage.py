"""The garbage collector: objects whose owners are gone go, too.

Every listable and deletable resource is observed, metadata only. Whatever the graph finds worth a look is
looked at again on the server before anything is deleted: the graph may be behind, the server is not.

- all owners absent: the object is deleted, in the way its own finalizers ask for;
- some owners absent: the references to those are removed;
- an owner deleted in the foreground waits for its blocking dependents, which are deleted;
- an owner deleted with `orphan` has its dependents' references removed first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec

from quarterdeck.api import GroupVersionKind, OwnerReference
from quarterdeck.client import Client, JsonPatch, MetadataKind, Propagation, RestMapper, metadata_of
from quarterdeck.cluster.ownergraph import FOREGROUND, ORPHAN, Node, OwnerGraph
from quarterdeck.errors import Conflict, Invalid, NotFound, QuarterdeckError
from quarterdeck.runtime.cache import Cache, Delta, Entry
from quarterdeck.runtime.queue import QueueClosed, WorkQueue

__all__ = ["GarbageCollector"]

_log = logging.getLogger("quarterdeck.cluster.garbage")
_WORKERS: Final = 8
_DISCOVERY_PERIOD: Final = 30.0
#: changes here mean that resources have come or gone
_DEFINITIONS: Final = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
#: observing these would cost much and nothing owns or is owned by them
_IGNORED: Final = frozenset({"Event", "ComponentStatus"})


class _Meta(msgspec.Struct, rename="camel"):
    finalizers: tuple[str, ...] = ()


class _Document(msgspec.Struct):
    metadata: _Meta


_read_finalizers = msgspec.json.Decoder(_Document).decode


class GarbageCollector:
    """Runs until cancelled: `await GarbageCollector(client, cache, mapper).run()`."""

    def __init__(self, client: Client, cache: Cache, mapper: RestMapper) -> None:
        self._client = client
        self._cache = cache
        self._mapper = mapper
        self._graph = OwnerGraph()
        self._queue: WorkQueue[str] = WorkQueue()
        self._observed: set[GroupVersionKind] = set()
        self._rescan = asyncio.Event()

    async def run(self) -> None:
        """Observe and collect."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._observe_all())
            for _ in range(_WORKERS):
                group.create_task(self._work())

    # -- observing -------------------------------------------------------------------------------------

    async def _observe_all(self) -> None:
        """Keep an informer for every resource that can be collected; definitions come and go."""
        self._cache.informer(metadata_of(_DEFINITIONS)).add_handler(
            _Signal(self._rescan), name="gc-definitions"
        )
        while True:
            try:
                await self._sync_informers()
            except QuarterdeckError as error:
                _log.warning("discovery failed", extra={"error": str(error)})
            self._rescan.clear()
            try:
                async with asyncio.timeout(_DISCOVERY_PERIOD):
                    await self._rescan.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(0.05)  # a definition is served a moment after it changed

    async def _sync_informers(self) -> None:
        await self._mapper.refresh()
        served = {
            mapping.gvk
            for mapping in await self._mapper.all()
            if {"list", "watch", "delete"} <= mapping.verbs and mapping.gvk.kind not in _IGNORED
        }
        preferred = _one_version_each(served)
        for gvk in preferred - self._observed:
            self._cache.informer(metadata_of(gvk)).add_handler(_Observer(self, gvk), name="gc")
        for gvk in self._observed - preferred:
            await self._cache.remove_informer(metadata_of(gvk))
        self._observed = preferred

    def changed(self, gvk: GroupVersionKind, delta: Delta) -> None:
        if delta.new is None:
            self._enqueue(self._graph.forget(delta.entry.uid))
            return
        if delta.old is not None and delta.old.uid != delta.new.uid:
            self._enqueue(self._graph.forget(delta.old.uid))
        self._enqueue(self._graph.observe(_node(gvk, delta.new)))

    def _enqueue(self, uids: set[str]) -> None:
        for uid in uids:
            self._queue.add(uid)

    # -- collecting ------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            try:
                uid = await self._queue.get()
            except QueueClosed:
                return
            try:
                await self._look_at(uid)
                self._queue.forget(uid)
            except (NotFound, Conflict, Invalid):  # somebody was faster (Invalid: a patch's test failed)
                self._queue.add(uid, rate_limited=True)
            except QuarterdeckError as error:
                _log.warning("cannot collect", extra={"uid": uid, "error": str(error)})
                self._queue.add(uid, rate_limited=True)
            finally:
                self._queue.done(uid)

    async def _look_at(self, uid: str) -> None:
        node = self._graph.get(uid)
        if node is None:
            return
        if node.orphans_dependents:
            await self._orphan(node)
            return
        if node.waits_for_dependents:
            await self._finish_foreground(node)
            return
        if node.is_deleting or not node.owners:
            return
        await self._check_owners(node)

    async def _orphan(self, owner: Node) -> None:
        """Strip the owner from its dependents, then let it go."""
        for dependent in self._graph.dependents(owner.uid):
            await self._drop_owners(dependent, {owner.uid})
        await self._drop_finalizer(owner, ORPHAN)

    async def _finish_foreground(self, owner: Node) -> None:
        blocking = self._graph.blocking(owner.uid)
        if not blocking:
            await self._drop_finalizer(owner, FOREGROUND)
            return
        for dependent in self._graph.dependents(owner.uid):
            if not dependent.is_deleting:
                self._queue.add(dependent.uid)

    async def _check_owners(self, node: Node) -> None:
        absent: set[str] = set()
        waiting: set[str] = set()
        has_solid = False
        for owner in node.owners:
            state = await self._owner_state(node, owner)
            if state == "absent":
                absent.add(owner.uid)
            elif state == "waiting" and owner.block_owner_deletion:
                waiting.add(owner.uid)
            else:
                has_solid = True
        if has_solid:
            if absent | waiting:
                await self._drop_owners(node, absent | waiting)
            return
        live = await self._live(node)
        if live is None or live.metadata.is_deleting:
            return
        if {owner.uid for owner in live.metadata.owner_references} - (absent | waiting):
            return  # it has a new owner that the graph has yet to see
        finalizers = set(live.metadata.finalizers)
        policy: Propagation
        if waiting and self._graph.dependents(node.uid):
            policy = "Foreground"
        elif ORPHAN in finalizers:
            policy = "Orphan"
        elif FOREGROUND in finalizers:
            policy = "Foreground"
        else:
            policy = "Background"
        _log.info("collecting", extra={"object": str(node), "policy": policy})
        await self._delete(node, policy)

    async def _owner_state(self, node: Node, owner: OwnerReference) -> str:
        """`absent`, `waiting` (in foreground deletion) or `solid`; absence is what the server says."""
        known = self._graph.get(owner.uid)
        if known is not None and (not known.namespace or known.namespace == node.namespace):
            return "waiting" if known.waits_for_dependents else "solid"
        gvk = GroupVersionKind.parse(owner.api_version, owner.kind)
        # an unknown kind raises: it may be served again later, so that is no absence
        mapping = await self._mapper.mapping(gvk)
        namespace = node.namespace if mapping.is_namespaced else ""
        if mapping.is_namespaced and not node.namespace:
            return "absent"  # a cluster-scoped object cannot be owned from within a namespace
        try:
            live = await self._client.get(metadata_of(gvk), owner.name, namespace)
        except NotFound:
            return "absent"
        return "solid" if live.metadata.uid == owner.uid else "absent"

    # -- writing ---------------------------------------------------------------------------------------

    async def _live(self, node: Node) -> Any:
        try:
            live = await self._client.get(metadata_of(node.gvk), node.name, node.namespace)
        except NotFound:
            return None
        return live if live.metadata.uid == node.uid else None

    async def _delete(self, node: Node, policy: Propagation) -> None:
        try:
            await self._client.delete(
                MetadataKind(node.gvk),
                node.name,
                node.namespace,
                propagation=policy,
                uid=node.uid,
            )
        except NotFound:
            return

    async def _drop_owners(self, node: Node, uids: set[str]) -> None:
        """Remove references to some owners; a test of the UID guards against a namesake."""

        def change(live: Any) -> list[dict[str, Any]] | None:
            kept = [each for each in live.metadata.owner_references if each.uid not in uids]
            if len(kept) == len(live.metadata.owner_references):
                return None
            value = [msgspec.json.decode(each.to_bytes()) for each in kept]
            path = "/metadata/ownerReferences"
            return [
                {"op": "replace", "path": path, "value": value} if value else {"op": "remove", "path": path}
            ]

        await self._edit(node, change)

    async def _drop_finalizer(self, node: Node, finalizer: str) -> None:
        def change(live: Any) -> list[dict[str, Any]] | None:
            kept = [each for each in live.metadata.finalizers if each != finalizer]
            if len(kept) == len(live.metadata.finalizers):
                return None
            path = "/metadata/finalizers"
            return [
                {"op": "replace", "path": path, "value": kept} if kept else {"op": "remove", "path": path}
            ]

        await self._edit(node, change)

    async def _edit(self, node: Node, change: Callable[[Any], list[dict[str, Any]] | None]) -> None:
        """Patch the live object against the version it was read at."""
        live = await self._live(node)
        if live is None:
            return
        operations = change(live)
        if operations is None:
            return
        version = {"op": "test", "path": "/metadata/resourceVersion", "value": live.metadata.resource_version}
        try:
            await self._client.patch(live, JsonPatch([version, *operations]))
        except NotFound:
            return


class _Observer:
    """Feeds one kind's changes into the collector."""

    def __init__(self, collector: GarbageCollector, gvk: GroupVersionKind) -> None:
        self._collector = collector
        self._gvk = gvk

    def handle(self, delta: Delta) -> Awaitable[None] | None:
        self._collector.changed(self._gvk, delta)
        return None


class _Signal:
    """Sets an event at every change."""

    def __init__(self, event: asyncio.Event) -> None:
        self._event = event

    def handle(self, delta: Delta) -> Awaitable[None] | None:
        self._event.set()
        return None


def _node(gvk: GroupVersionKind, entry: Entry) -> Node:
    return Node(
        gvk,
        entry.namespace,
        entry.name,
        entry.uid,
        entry.owner_references,
        _read_finalizers(entry.raw).metadata.finalizers,
        entry.is_deleting,
    )


def _one_version_each(kinds: Sequence[GroupVersionKind] | set[GroupVersionKind]) -> set[GroupVersionKind]:
    """One version of each kind is enough: they show the same objects."""
    chosen: dict[tuple[str, str], GroupVersionKind] = {}
    for gvk in sorted(kinds):
        chosen.setdefault((gvk.group, gvk.kind), gvk)
    return set(chosen.values())
