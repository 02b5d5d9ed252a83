"""The garbage collector: objects whose owners are gone go, too.

Every resource that can be listed and deleted is observed, metadata only (``monitor``), and drawn into a graph
of owners (``ownergraph``). Whatever the graph finds worth a look is looked at again on the server before
anything is deleted: the graph may be behind, the server is not.

- all owners absent: the object is deleted, in the way its own finalizers ask for;
- some owners absent: the references to those are removed;
- an owner deleted in the foreground waits for its blocking dependents, which are deleted;
- an owner deleted with ``orphan`` has its dependents' references removed first.

The keys of this controller are UIDs: one incarnation of one object. It serves the manager's own cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Any, Final, NamedTuple

from quarterdeck.api import (
    GroupVersionKind,
    Key,
    ObjectMeta,
    OwnerReference,
    PartialObjectMetadata,
    Resource,
    to_dict,
)
from quarterdeck.client import Client, JsonPatch, MetadataKind, RestMapper, metadata_of
from quarterdeck.client.discovery import ResourceMapping
from quarterdeck.client.option import Propagation
from quarterdeck.cluster.monitor import ResourceMonitor
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.cluster.ownergraph import FOREGROUND, ORPHAN, Node, OwnerGraph
from quarterdeck.errors import Conflict, Invalid, NotFound, ignore_not_found
from quarterdeck.runtime.cache import Cache, Delta, Entry
from quarterdeck.runtime.contract import Recorder
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.queue.workqueue import LOW_PRIORITY
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Result

NAME: Final = "garbage-collector-controller"
_WORKERS: Final = 20
_REMEMBERED_ABSENT: Final = 500
_ABSENT_FOR: Final = 5.0
"""Seconds for which an owner that the server does not have is taken for absent by its other dependents."""


class OwnerState(Enum):
    """What an owner means for its dependent."""

    ABSENT = "absent"
    """There is no such object: the reference counts for nothing."""
    WAITING = "waiting"
    """It is being deleted in the foreground and waits for those that block it."""
    SOLID = "solid"
    """It is there: the dependent stays."""


class GarbageCollector(Reconciler[Resource]):
    """Looks at one object after the other; ``garbage_collector`` makes the controller."""

    def __init__(self, mapper: RestMapper, recorder: Recorder) -> None:
        self._mapper: Final = mapper
        self._recorder: Final = recorder
        self._graph: Final = OwnerGraph()
        self._controller: Controller[Resource] | None = None
        self._clock: Final = LoopClock()
        self._absent: dict[tuple[str, str], float] = {}

    def attach(self, controller: Controller[Resource]) -> None:
        """The controller that runs this collector."""
        self._controller = controller

    def observe(self, mapping: ResourceMapping, delta: Delta) -> None:
        """Draw a change into the graph, and look at what it concerns."""
        priority = LOW_PRIORITY if delta.is_initial else 0
        if delta.new is None:
            self._wake(self._graph.forget(delta.entry.uid), priority)
            return
        if delta.old is not None and delta.old.uid != delta.new.uid:
            self._wake(self._graph.forget(delta.old.uid), priority)
        elif delta.old is not None and _means_the_same(delta.old, delta.new):
            return
        node = _node(mapping.gvk, delta.new)
        if self._absent and not node.is_deleting:
            for owner in node.owners:
                self._absent.pop((node.namespace, owner.uid), None)
        self._wake(self._graph.observe(node), priority)

    def forget(self, mapping: ResourceMapping) -> None:
        """A kind is no longer observed."""
        self._wake(self._graph.forget_kind(mapping.gvk), LOW_PRIORITY)

    def _wake(self, uids: set[str], priority: int = 0) -> None:
        assert self._controller is not None
        for uid in uids:
            self._controller.queue.add(Key("", uid), priority=priority)

    async def reconcile(self, ctx: Context[Resource]) -> Result | None:
        """Decide what becomes of one object."""
        node = self._graph.get(ctx.key.name)
        if not isinstance(node, Node):
            return None  # it is gone, or nothing is to be decided about it
        try:
            if node.orphans_dependents:
                await self._orphan(ctx.client, node)
            elif node.waits_for_dependents:
                await self._finish_foreground(ctx.client, node)
            elif node.owners and not node.is_deleting:
                await self._check_owners(ctx, node)
        except (NotFound, Invalid):  # somebody was faster (Invalid: the patch's test failed)
            return Result(requeue=True)
        return None

    async def _orphan(self, client: Client, owner: Node) -> None:
        """Strip the owner from its dependents, then let it go.

        Its deletion may have been seen before its newest dependents were: those of the same kinds are asked
        for, since without their owner they would be collected.
        """
        dependents = self._graph.dependents(owner.uid)
        for dependent in dependents:
            await _drop_owners(client, dependent, {owner.uid})
        for gvk in {dependent.gvk for dependent in dependents}:
            async for page in client.pages(MetadataKind(gvk), namespace=owner.namespace):
                for head in page.items:
                    if any(reference.uid == owner.uid for reference in head.metadata.owner_references):
                        place = head.metadata
                        unseen = Node(gvk, place.namespace, place.name, place.uid)
                        await _drop_owners(client, unseen, {owner.uid})
        await _drop_finalizer(client, owner, ORPHAN)

    async def _finish_foreground(self, client: Client, owner: Node) -> None:
        if not self._graph.is_blocked(owner.uid):
            await _drop_finalizer(client, owner, FOREGROUND)

    async def _check_owners(self, ctx: Context[Resource], node: Node) -> None:
        absent: set[str] = set()
        waiting: set[str] = set()
        has_solid = False
        for owner in node.owners:
            state = await self._owner_state(ctx.client, node, owner)
            if state is OwnerState.ABSENT:
                absent.add(owner.uid)
            elif state is OwnerState.WAITING:
                waiting.add(owner.uid)
            else:
                has_solid = True
        if has_solid:
            if absent | waiting:
                # A waiting owner must not wait for an object that stays.
                await _drop_owners(ctx.client, node, absent | waiting)
            return
        gone = _Gone(absent, waiting)
        seen = _seen(ctx.cache, node)
        if seen is not None:
            # Deleted is the state that was seen or none, so that a state that is old does no harm.
            with suppress(Conflict):
                await self._collect(ctx, node, seen, gone)
                return
        live = await _live(ctx.client, node)
        if live is not None:
            await self._collect(ctx, node, live, gone)

    async def _collect(
        self, ctx: Context[Resource], node: Node, state: PartialObjectMetadata, gone: _Gone
    ) -> None:
        """Delete one state of an object that nobody solid owns; raises ``Conflict`` if it has another."""
        if state.metadata.is_deleting:
            return
        owners = {owner.uid for owner in state.metadata.owner_references}
        if not owners or owners - gone.absent - gone.waiting:
            return  # it was orphaned, or has a new owner, which the graph has yet to see
        dependents = self._graph.dependents(node.uid)
        policy = _policy(state)
        if gone.waiting and dependents:
            policy = "Foreground"  # its owner waits for the dependents of its dependents, too
            if any(each.waits_for_dependents for each in dependents):
                state = await _unblock_owners(ctx.client, state)
        ctx.log.info("collecting", object=str(node), policy=policy)
        with ignore_not_found():
            await ctx.client.delete(
                MetadataKind(node.gvk),
                node.name,
                node.namespace,
                propagation=policy,
                uid=node.uid,
                resource_version=state.metadata.resource_version,
            )

    async def _owner_state(self, client: Client, node: Node, owner: OwnerReference) -> OwnerState:
        """What the graph knows of an owner; absence is only ever what the server says."""
        known = self._graph.get(owner.uid)
        if known is not None and (not known.namespace or known.namespace == node.namespace):
            return OwnerState.WAITING if known.waits_for_dependents else OwnerState.SOLID
        if known is not None:
            self._report_foreign_owner(node, owner)
            return OwnerState.ABSENT
        if self._absent.get((node.namespace, owner.uid), 0.0) > self._clock.monotonic():
            return OwnerState.ABSENT
        gvk = GroupVersionKind.parse(owner.api_version, owner.kind)
        # An unknown kind raises: it may be served again later, so that is no absence.
        mapping = await self._mapper.mapping(gvk)
        if mapping.is_namespaced and not node.namespace:
            self._report_foreign_owner(node, owner)
            return OwnerState.SOLID  # nobody can tell which namespace is meant, so nothing is deleted
        namespace = node.namespace if mapping.is_namespaced else ""
        try:
            live = await client.get(metadata_of(gvk), owner.name, namespace)
            is_there = live.metadata.uid == owner.uid
        except NotFound:
            is_there = False
        if not is_there:
            self._remember_absent(node.namespace, owner.uid)
        return OwnerState.SOLID if is_there else OwnerState.ABSENT

    def _remember_absent(self, namespace: str, uid: str) -> None:
        """One look is enough for all dependents that an owner leaves, but not for ever: on a server that
        goes back to a backup it is there again, and so may they be, before the owner is seen."""
        self._absent[namespace, uid] = self._clock.monotonic() + _ABSENT_FOR
        if len(self._absent) > _REMEMBERED_ABSENT:
            del self._absent[next(iter(self._absent))]

    def _report_foreign_owner(self, node: Node, owner: OwnerReference) -> None:
        note = (
            f"ownerRef [{owner.api_version}/{owner.kind}, namespace: {node.namespace}, name: {owner.name}, "
            f'uid: {owner.uid}] does not exist in namespace "{node.namespace}"'
        )
        subject = PartialObjectMetadata(
            api_version=node.gvk.api_version,
            kind=node.gvk.kind,
            metadata=ObjectMeta(name=node.name, namespace=node.namespace, uid=node.uid),
        )
        self._recorder.event(subject, "Warning", "OwnerRefInvalidNamespace", "Collect", note)


class _Gone(NamedTuple):
    """UIDs of the owners that keep an object no more."""

    absent: set[str]
    waiting: set[str]


def _seen(cache: Cache, node: Node) -> PartialObjectMetadata | None:
    """What the cache shows of an object."""
    kind = metadata_of(node.gvk)
    informer = cache.informer(kind)
    entry = informer.get(node.namespace, node.name)
    return informer.decoder(kind).once(entry) if entry is not None and entry.uid == node.uid else None


async def _live(client: Client, node: Node) -> PartialObjectMetadata | None:
    try:
        live = await client.get(metadata_of(node.gvk), node.name, node.namespace)
    except NotFound:
        return None
    return live if live.metadata.uid == node.uid else None


def _policy(live: PartialObjectMetadata) -> Propagation:
    """How the object itself asks to be deleted."""
    if ORPHAN in live.metadata.finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in live.metadata.finalizers else "Background"


async def _unblock_owners(client: Client, live: PartialObjectMetadata) -> PartialObjectMetadata:
    """Let nobody wait for an object: it is part of a circle in which everybody waits for the next one."""
    references = [to_dict(each) for each in live.metadata.owner_references]
    if not any(each.get("blockOwnerDeletion") for each in references):
        return live
    for each in references:
        if each.get("blockOwnerDeletion"):
            each["blockOwnerDeletion"] = False
    return await client.patch(
        live,
        JsonPatch(
            [
                {"op": "test", "path": "/metadata/resourceVersion", "value": live.metadata.resource_version},
                {"op": "replace", "path": "/metadata/ownerReferences", "value": references},
            ]
        ),
    )


async def _drop_owners(client: Client, node: Node, uids: set[str]) -> None:
    """Remove the references to some owners."""

    def kept(metadata: ObjectMeta) -> list[Any]:
        return [to_dict(each) for each in metadata.owner_references if each.uid not in uids]

    await _shorten(client, node, "ownerReferences", kept, lambda metadata: len(metadata.owner_references))


async def _drop_finalizer(client: Client, node: Node, finalizer: str) -> None:
    def kept(metadata: ObjectMeta) -> list[Any]:
        return [each for each in metadata.finalizers if each != finalizer]

    await _shorten(client, node, "finalizers", kept, lambda metadata: len(metadata.finalizers))


async def _shorten(
    client: Client,
    node: Node,
    field: str,
    kept: Callable[[ObjectMeta], list[Any]],
    length: Callable[[ObjectMeta], int],
) -> None:
    """Leave only some entries in a list of the live object's metadata, as of the version that was read."""
    live = await _live(client, node)
    if live is None:
        return
    rest = kept(live.metadata)
    if len(rest) == length(live.metadata):
        return
    path = f"/metadata/{field}"
    change = {"op": "replace", "path": path, "value": rest} if rest else {"op": "remove", "path": path}
    version = {"op": "test", "path": "/metadata/resourceVersion", "value": live.metadata.resource_version}
    with ignore_not_found():
        await client.patch(live, JsonPatch([version, change]))


def _means_the_same(old: Entry, new: Entry) -> bool:
    """Whether two states of an object look alike in the graph, as they do after most changes.

    Finalizers count only once the object is being deleted.
    """
    return not (old.is_deleting or new.is_deleting) and old.owner_references == new.owner_references


def _node(gvk: GroupVersionKind, entry: Entry) -> Node:
    return Node(
        gvk,
        entry.namespace,
        entry.name,
        entry.uid,
        entry.owner_references,
        entry.finalizers,
        entry.is_deleting,
    )


def garbage_collector(
    monitor: ResourceMonitor, mapper: RestMapper, recorder: Recorder
) -> Controller[Resource]:
    """The controller, for ``manager.add``; it runs the monitor."""
    collector = GarbageCollector(mapper, recorder)
    controller = (
        Builder[Resource](name=NAME)
        .source(monitor)
        .rbac(
            Rule(
                groups=("*",),
                resources=("*",),
                verbs=("delete", "get", "list", "patch", "watch"),
            )
        )
        # The graph follows the watches by itself, and deletions repeat without harm.
        .options(max_concurrent_reconciles=_WORKERS, consistency="none", field_manager=FIELD_MANAGER)
        .build(collector)
    )
    collector.attach(controller)
    monitor.attach(controller)
    monitor.observe(collector.observe, forget=collector.forget)
    return controller
