"""What can go wrong with storage.

StorageError
├── StorageLocked    another server holds the data directory
├── StorageDamaged   something acknowledged is not there any more
└── StorageFull      no room for a write; it passes
WriteConflict        the stored revision is not the expected one
Compacted            history at that revision is gone
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from quarterdeck.errors import QuarterdeckError

from .entry import Entry

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


def not_opened(path: Path, error: sqlite3.Error) -> StorageError:
    """Why a database cannot be opened, where nothing says that it is damaged."""
    if is_passing(error):
        return StorageFull(
            f"cannot open {path} now: {error}; nothing is lost, but its disk seems to be full: "
            "make room and start again"
        )
    return StorageError(f"cannot open {path}: {error}")


class WriteConflict(QuarterdeckError):
    """The stored revision is not the expected one; `current` is what is stored, None if nothing."""

    def __init__(self, name: str, current: Entry | None) -> None:
        super().__init__("stored revision differs")
        self.name = name
        self.current = current


class Compacted(QuarterdeckError):
    """History at that revision is gone; `oldest` is the oldest one kept."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"compacted up to {oldest}")
        self.oldest = oldest
