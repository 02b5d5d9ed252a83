"""Durable, versioned storage: one global revision, group commit, history, watch events.

    inspection  what is found at start; `mark` knows what was acknowledged, `salvage` keeps what can be read
    log      SQLite: every change is a row; nothing is acknowledged before it is on disk
    bucket   memory: the newest state of one resource and its recent changes
    past     the state of one resource at an earlier revision
    store    all buckets over one log: the committer, history, compaction

Values are JSON documents without their outer brace, apiVersion, kind and resourceVersion; see
`entry` for the form. Storage knows keys, revisions and labels, never what an object means.
"""

from .bucket import Bucket
from .entry import Entry, Event, EventType, encode_value
from .error import Compacted, StorageDamaged, StorageError, StorageFull, StorageLocked, WriteConflict
from .log import Durability
from .salvage import salvage
from .store import Store
from .write import decided, outlives_cancellation

__all__ = [
    "Bucket",
    "Compacted",
    "Durability",
    "Entry",
    "Event",
    "EventType",
    "StorageDamaged",
    "StorageError",
    "StorageFull",
    "StorageLocked",
    "Store",
    "WriteConflict",
    "decided",
    "encode_value",
    "outlives_cancellation",
    "salvage",
]
