"""What can go wrong with storage.

StorageError
├── StorageLocked    another server holds the data directory
├── StorageDamaged   something acknowledged is not there any more
└── StorageFull      no room for a write; it passes
"""

from __future__ import annotations

import sqlite3
from typing import Final

from quarterdeck.errors import QuarterdeckError

_PASSING: Final = frozenset(
    {
        "SQLITE_FULL",
        "SQLITE_BUSY",
        "SQLITE_NOMEM",
        "SQLITE_IOERR_NOMEM",
        "SQLITE_IOERR_WRITE",
        "SQLITE_IOERR_TRUNCATE",
        "SQLITE_IOERR_SHMSIZE",
        "SQLITE_IOERR_SHMOPEN",
        "SQLITE_IOERR_SHMMAP",
    }
)
"""Nothing has been committed, and a later attempt may succeed. An fsync that failed is none of them: what it
was for may be lost, even if the next one succeeds."""


class StorageError(QuarterdeckError):
    """The disk or the database failed; writes stop until a restart."""


class StorageLocked(StorageError):
    """Another server holds the data directory."""


class StorageDamaged(StorageError):
    """Something that was acknowledged is not there any more; the text names the file and the way out."""


class StorageFull(StorageError):
    """There is no room for a write now; it may be tried again."""


def is_passing(error: BaseException) -> bool:
    """Whether a failed write left everything as it was, and may succeed later."""
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorname", "") in _PASSING
