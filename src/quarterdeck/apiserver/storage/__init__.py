"""Durable, versioned storage: one global revision, group commit, history, watch events.

    log      SQLite: every change is a row; nothing is acknowledged before it is on disk
    bucket   memory: the newest state of one resource and its recent changes
    past     the state of one resource at an earlier revision
    store    all buckets over one log: the committer, history, compaction

Values are JSON documents without their outer brace, apiVersion, kind and resourceVersion; see
`entry` for the form. Storage knows keys, revisions and labels, never what an object means.
"""

from .bucket import Bucket
from .entry import Entry, Event, EventType, encode_value
from .log import Durability, StorageError, StorageLocked
from .store import Compacted, Store, WriteConflict

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
