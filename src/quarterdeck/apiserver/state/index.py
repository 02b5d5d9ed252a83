"""Indexes in memory, kept in step with stored objects: rules of access and admission, quotas, addresses."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.resource.resource import Resource
from quarterdeck.apiserver.storage import Entry, Event, EventType

#: called with a resource's plural, a namespace, a name, and the object, or None if it is gone
Apply = Callable[[str, str, str, Json | None], None]
_log: Final = logging.getLogger("quarterdeck.apiserver")


def follow(resource: Resource, apply_change: Apply) -> None:
    """Tell an index of all objects of a resource, now and whenever they change.

    An object that it cannot take is logged and left out: it prevents neither the start nor what follows.
    """

    def tell(entry: Entry, *, is_gone: bool) -> None:
        try:
            obj = None if is_gone else resource.read(entry)
            apply_change(resource.plural, entry.namespace, entry.name, obj)
        except Exception:  # noqa: BLE001 - supervision point: one bad object stops no other
            where = {"resource": resource.qualified, "namespace": entry.namespace, "object": entry.name}
            _log.exception("a stored object cannot take effect", extra=where)

    def changed(events: list[Event]) -> None:
        for event in events:
            tell(event.entry, is_gone=event.type is EventType.DELETED)

    for entry in resource.bucket.scan():
        tell(entry, is_gone=False)
    resource.bucket.subscribers[apply_change] = changed
