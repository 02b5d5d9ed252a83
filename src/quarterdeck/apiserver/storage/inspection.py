"""What is found when a data directory is opened: everything that was acknowledged, or the reason to refuse.

The files are only read here, so that whatever is wrong with them can still be salvaged.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from .error import StorageDamaged, StorageError, is_passing, not_opened
from .mark import Marked, read_mark
from .row import COLUMNS, DELETE, Row

DATABASE: Final = "state.db"
CREDENTIALS: Final = "pki"
SCHEMAS: Final = ("1", "2")
"""Versions that can be read; rows of the first have no check value."""
_check_json: Final = msgspec.json.Decoder().decode


class Found(NamedTuple):
    """The content of a data directory, proved complete."""

    schema: str
    instance: str
    last_rev: int
    compact_rev: int
    cleaned_rev: int
    live: dict[str, Row]
    """The newest row of every object that exists, by key."""
    is_restored: bool
    """Whether it was put there from elsewhere: a backup has no mark beside it."""


def inspect(directory: Path) -> Found | None:
    """What is there; None for a directory that has no state yet. Raises StorageDamaged and StorageError."""
    path, mark = directory / DATABASE, read_mark(directory)
    size = path.stat().st_size if path.exists() else -1
    if size <= 0:
        if mark is None and (size < 0 or not (directory / CREDENTIALS).exists()):
            return None
        what = "is empty" if size == 0 else "is missing"
        since = f"; revision {mark.rev} was acknowledged" if mark is not None else ""
        raise damaged(path, f"{what}, but the directory has been in use{since}")
    db = open_read_only(path)
    try:
        return _inspect(path, db, mark)
    except (sqlite3.DatabaseError, ValueError, UnicodeDecodeError) as error:
        if isinstance(error, sqlite3.Error) and is_passing(error):  # even to read, SQLite needs some room
            raise not_opened(path, error) from error
        raise damaged(path, str(error)) from error
    finally:
        db.close()


def open_read_only(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing, not even when it is the last to be closed."""
    return sqlite3.connect(
        f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None, check_same_thread=False
    )


def damaged(path: Path, what: str) -> StorageDamaged:
    return StorageDamaged(
        f"{path} {what}; restore a backup, or keep what can be read with "
        f"'quarterdeck apiserver --salvage --data-dir {path.parent}'"
    )


def _inspect(path: Path, db: sqlite3.Connection, mark: Marked | None) -> Found | None:
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchall():
        if mark is not None:
            raise damaged(path, f"holds nothing, but revision {mark.rev} was acknowledged")
        return None
    meta = dict(db.execute("SELECT k, v FROM meta").fetchall())
    if not meta and mark is None:
        return None  # killed while it was being made
    schema = meta.get("schema", "")
    if schema not in SCHEMAS:
        raise StorageError(
            f"{path} was written by another version (schema {schema}, this one reads {', '.join(SCHEMAS)})"
        )
    compact_rev = int(meta["compact_rev"])
    live, newest, above = _read_rows(path, db, compact_rev, has_crc=schema != "1")
    last_rev = max(int(meta["last_rev"]), newest)
    if above != max(newest - compact_rev, 0):
        raise damaged(path, f"has lost {newest - compact_rev - above} changes of its history")
    if mark is not None and mark.instance != meta["instance"]:
        raise damaged(path, f"is not the file that {path.parent / 'state.mark'} was written for")
    if mark is not None and mark.rev > last_rev and mark.binds():
        raise damaged(
            Path(f"{path}-wal"),
            f"is broken or cut off: the state ends at revision {last_rev}, {mark.rev} was acknowledged",
        )
    return Found(
        schema,
        meta["instance"],
        last_rev,
        compact_rev,
        int(meta.get("cleaned_rev", compact_rev)),
        live,
        is_restored=mark is None,
    )


def _read_rows(
    path: Path, db: sqlite3.Connection, compact_rev: int, *, has_crc: bool
) -> tuple[dict[str, Row], int, int]:
    """Live rows by key, the newest revision, and the number of rows above the compacted ones."""
    live: dict[str, Row] = {}
    newest = above = 0
    crc = "crc" if has_crc else "NULL"
    for *columns, check in db.execute(f"SELECT {COLUMNS}, {crc} FROM log ORDER BY rev"):  # noqa: S608
        row = Row(*columns)
        if not is_sound(row, check):
            raise damaged(path, f"has a broken value: {row.key} at revision {row.rev}")
        newest = row.rev
        above += newest > compact_rev
        if row.op == DELETE:
            live.pop(row.key, None)
        else:
            live[row.key] = row
    return live, newest, above


def is_sound(row: Row, check: int | None) -> bool:
    """Whether a row is what was written. One without a check value at least has to be a document."""
    if check is not None:
        return isinstance(row.key, str) and isinstance(row.value, bytes) and row.crc() == check
    try:
        _check_json(b"{" + row.value)
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError):
        return False
    return row.value.startswith(b'"metadata":{') and row.key.count("/") >= 4
