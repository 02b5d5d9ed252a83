"""From events of SubnetPools and Subnets to the ledger, and to the keys of the PoolStatus queue.

An event goes into the ledger first and makes keys afterwards, in one handler: a reconcile that it causes
never sees a ledger from before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from quarterdeck.api import Key
from quarterdeck.operators.ipam import names
from quarterdeck.operators.ipam.types import SubnetPool
from quarterdeck.runtime.cache import Entry
from quarterdeck.runtime.controller.change import Change, ObjectEvent
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import Predicate, strict_generation_changed

from .office import Office
from .subnet import ParentPoolMapper

OWN_EVENTS: Final = strict_generation_changed
"""Of the pool itself: creation, deletion, and updates of the spec (the begin of a deletion is one)."""


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
    """Subnets into the ledger; the keys are the mapper's."""

    def __init__(self, office: Office) -> None:
        self._office: Final = office
        self._mapper: Final = ParentPoolMapper(office.metrics)

    def keys(self, event: ObjectEvent[Any], context: MapContext) -> Iterable[Key]:
        """Pools whose members changed."""
        uid = _uid(event.entry)
        if event.change is Change.DELETED:
            self._office.ledger.drop_subnet(uid)
        elif event.change is not Change.GENERIC:
            self._take(event)
        if event.change in (Change.DELETED, Change.UPDATED):
            self._office.ring_users(uid)
        return self._mapper.keys(event, context)

    def _take(self, event: ObjectEvent[Any]) -> None:
        office = self._office
        member = office.take_subnet(event.object)
        book = office.ledger.book(member.pool_key) if member is not None else None
        if member is not None and book is not None and book.rivals(member):
            # Its claim may be bound to it already, by an allocator that did not know of the others.
            office.ring_owners(event.entry)


class PoolFeed:
    """Pools into the ledger, and from a child to its parent."""

    def __init__(self, office: Office) -> None:
        self._office: Final = office

    def keys(self, event: ObjectEvent[Any], context: MapContext) -> Iterable[Key]:
        """Parents that a child's change concerns, and children that wait for a parent."""
        office, key = self._office, event.key
        if event.change is Change.DELETED:
            office.ledger.drop_pool(key, _uid(event.entry))
        elif event.change is not Change.GENERIC:
            office.take_pool(event.object)
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
        if self._office.settings.drop_idle_child_events:
            parents = [parent for parent in parents if not self._is_idle(parent)]
        self._office.metrics.requeues.labelled(_EVENT_TYPES[event.change]).inc(len(parents))
        return parents

    def _is_idle(self, parent: Key) -> bool:
        book = self._office.ledger.book(parent)
        return book is None or book.facts is None or not book.has_news

    def _children(self, key: Key) -> Iterable[Key]:
        book = self._office.ledger.book(key)
        return (
            [Key(key.namespace, child.name) for child in book.children.values()] if book is not None else ()
        )


def _label(entry: Entry | None) -> str:
    return entry.labels.get(names.PARENT_LABEL, "") if entry is not None else ""


def _uid(entry: Entry) -> str:
    return entry.uid or f"{entry.namespace}/{entry.name}"
