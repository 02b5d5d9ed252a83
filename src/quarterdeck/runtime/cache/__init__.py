"""The informer cache: what the server holds, kept as bytes, read as frozen objects.

    reflector      lists and watches one resource, for ever, through every kind of trouble
    entry, store   an object as bytes with a small decoded header; the objects of one list/watch
    informer       one kind: stores, indexes, handlers
    cache          all kinds of one cluster, and the reads

Why bytes: see ``docs/adr/0003-cache-keeps-bytes.md``.
"""

from typing import TYPE_CHECKING

from quarterdeck.api._moved import moved_names as _moved_names
from quarterdeck.runtime.cache.cache import Cache, CacheStatistics
from quarterdeck.runtime.cache.entry import Entry, Head, Transform
from quarterdeck.runtime.cache.health import Health, HealthState
from quarterdeck.runtime.cache.index import (
    Index,
    IndexQuery,
    controlled_by,
    controller_uid,
    field,
    label,
    node_name,
    owned_by,
    owner_uid,
)
from quarterdeck.runtime.cache.informer import Informer, InformerStatistics
from quarterdeck.runtime.cache.objects import IndexView, Objects
from quarterdeck.runtime.cache.options import ALL_NAMESPACES, CacheOptions, KindOptions, WatchSettings
from quarterdeck.runtime.cache.registration import EventHandler, Registration
from quarterdeck.runtime.cache.store import Change, Delta
from quarterdeck.runtime.cache.transform import keep_only, rewrite, strip_last_applied, strip_managed_fields

__all__ = [
    "ALL_NAMESPACES",
    "Cache",
    "CacheOptions",
    "CacheStatistics",
    "Change",
    "Delta",
    "Entry",
    "EventHandler",
    "Head",
    "Health",
    "HealthState",
    "Index",
    "IndexQuery",
    "IndexView",
    "Informer",
    "InformerStatistics",
    "KindOptions",
    "Objects",
    "Registration",
    "Transform",
    "WatchSettings",
    "controlled_by",
    "controller_uid",
    "field",
    "keep_only",
    "label",
    "node_name",
    "owned_by",
    "owner_uid",
    "rewrite",
    "strip_last_applied",
    "strip_managed_fields",
]

if not TYPE_CHECKING:
    __getattr__ = _moved_names(__name__, {"runtime.cache.options": "Settings=WatchSettings"})
