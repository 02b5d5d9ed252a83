"""From events of SubnetPools and Subnets to the table, and to the keys of the PoolStatus queue.

An event goes into the table first and makes keys afterwards, in one handler: a reconcile that it causes
never sees a table from before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from quarterdeck.api import Key
from quarterdeck.operators.ipam import names
from quarterdeck.operators.ipam.logic.facts import Member
from quarterdeck.operators.ipam.types import SubnetPool
from quarterdeck.runtime.cache import Entry
from quarterdeck.runtime.cache.store import Change
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import Predicate, strict_generation_changed

from .shared import SharedState
from .subnet import ParentPoolMapper

OWN_EVENTS: Final = strict_generation_changed
"""Of the pool itself: creation, deletion, and updates of the spec (the start of a deletion is one)."""


def _is_child(event: ObjectEvent[Any]) -> bool:
    return bool(event.entry.labels.get(names.PARENT_LABEL))


def _child_moved(event: ObjectEvent[Any]) -> bool:
    old, new = event.old, event.new
    assert old is not None
    assert new is not None
    if old.labels.get(names.PARENT_LABEL) != new.labels.get(names.PARENT_LABEL):
        return True
    if new.is_deleting and not old.is_deleting:
        return True
    return _cidr(event.old_object) != _cidr(event.object)


def _cidr(pool: Any) -> str:
    return pool.spec.cidr if isinstance(pool, SubnetPool) and pool.spec else ""


CHILD_EVENTS: Final = Predicate(
    "child_events", create=_is_child, update=_child_moved, generic=lambda event: False
)
"""Of a child pool, for its parent."""
_EVENT_TYPES: Final = {
    Change.ADDED: "child_create",
    Change.UPDATED: "child_update",
    Change.DELETED: "child_delete",
}


class SubnetFeed:
    """Subnets into the table; the keys are the mapper's."""

    def __init__(self, shared: SharedState) -> None:
        self._shared: Final = shared
        self._mapper: Final = ParentPoolMapper(shared.metrics)

    def keys(self, event: ObjectEvent[Any], context: MapContext) -> Iterable[Key]:
        """Pools whose members changed."""
        if event.is_initial:
            member = self._take(event)
            return self._mapper.count(event, () if member is None else (member.pool_key,))
        uid = _uid(event.entry)
        if event.change is Change.DELETED:
            self._shared.table.drop_subnet(uid)
        elif event.change is not Change.GENERIC:
            self._take(event)
        if event.change in (Change.DELETED, Change.UPDATED):
            self._shared.queue_users(uid)
        return self._mapper.keys(event, context)

    def _take(self, event: ObjectEvent[Any]) -> Member | None:
        shared = self._shared
        member = shared.take_event(event)
        if event.change is Change.ADDED and member is not None and shared.table.member(member.uid) is None:
            # It was thought to be gone for good. Either this is late, and its end follows; or the server
            # was restored, and the block must not be given to anybody else from this moment on.
            shared.table.restore_subnet(member)
        state = shared.table.state(member.pool_key) if member is not None else None
        if member is not None and state is not None and state.rivals(member):
            # Its claim may be bound to it already, by an allocator that did not know of the others.
            shared.queue_owners(event.entry)
        return member


class PoolFeed:
    """Pools into the table, and from a child to its parent."""

    def __init__(self, shared: SharedState) -> None:
        self._shared: Final = shared

    def keys(self, event: ObjectEvent[Any], context: MapContext) -> Iterable[Key]:
        """Parents that a child's change concerns, and children that wait for a parent."""
        shared, key = self._shared, event.key
        if event.change is Change.DELETED:
            shared.table.drop_pool(key, _uid(event.entry))
        elif event.change is not Change.GENERIC:
            shared.take_pool(event.object)
        found = dict.fromkeys(self._parents(event))
        if event.change is Change.UPDATED and _label(event.old) != _label(event.new):
            found[key] = None
        if event.change in (Change.ADDED, Change.DELETED):
            found.update(dict.fromkeys(self._children(key)))
        return found

    def _parents(self, event: ObjectEvent[Any]) -> Iterable[Key]:
        if not CHILD_EVENTS(event) or not event.key.namespace:
            return ()
        labels = dict.fromkeys((_label(event.old), _label(event.new)))
        parents = [Key(event.key.namespace, name) for name in labels if name]
        if self._shared.settings.drop_idle_child_events:
            parents = [parent for parent in parents if not self._is_idle(parent)]
        self._shared.metrics.requeues.labelled(_EVENT_TYPES[event.change]).inc(len(parents))
        return parents

    def _is_idle(self, parent: Key) -> bool:
        state = self._shared.table.state(parent)
        return state is None or state.facts is None or not state.has_news

    def _children(self, key: Key) -> Iterable[Key]:
        state = self._shared.table.state(key)
        return (
            [Key(key.namespace, child.name) for child in state.children.values()] if state is not None else ()
        )


def _label(entry: Entry | None) -> str:
    return entry.labels.get(names.PARENT_LABEL, "") if entry is not None else ""


def _uid(entry: Entry) -> str:
    return entry.uid or f"{entry.namespace}/{entry.name}"
