"""Durable, versioned storage: one global revision, group commit, history, watch events.

    log      SQLite: every change is a row; nothing is acknowledged before it is on disk
    store    memory: the newest state, a ring of recent changes, the committer

Values are JSON documents without their outer brace, apiVersion, kind and resourceVersion; see
`entry` for the form. Storage knows keys, revisions and labels, never what an object means.
"""

from .entry import Entry, Event, EventType, encode_value
from .log import Durability, StorageError, StorageLocked
from .store import Bucket, Compacted, Store, WriteConflict

__all__ = [
    "Bucket",
    "Compacted",
    "Durability",
    "Entry",
    "Event",
    "EventType",
    "StorageError",
    "StorageLocked",
    "Store",
    "WriteConflict",
    "encode_value",
]
