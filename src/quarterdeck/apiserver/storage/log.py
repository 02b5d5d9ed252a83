"""The change log in SQLite: what makes an acknowledged write survive.

One row per change, keyed by the global revision. The newest row of a key is its state; older
rows are history for exact lists and for watches that resume, until compaction removes them.
Only `Store` writes here, one batch at a time.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from quarterdeck.errors import QuarterdeckError

SCHEMA_VERSION = "1"
PUT, DELETE = 1, 2
#: SQLite compiles a statement per batch size and keeps it
_ROWS_PER_STATEMENT = 64

_SCHEMA = """
CREATE TABLE IF NOT EXISTS log (
    rev INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    op INTEGER NOT NULL,
    create_rev INTEGER NOT NULL,
    prev_rev INTEGER NOT NULL,
    value BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS log_key ON log (key, rev);
CREATE TABLE IF NOT EXISTS meta (k TEXT PRIMARY KEY, v TEXT NOT NULL) WITHOUT ROWID;
"""


class StorageError(QuarterdeckError):
    """The disk or the database failed; writes stop until a restart."""


class StorageLocked(StorageError):
    """Another server holds the data directory."""


class Durability(Enum):
    """What an acknowledged write survives.

    FULL: power loss (fsync per group commit). NORMAL: a killed process, not a power loss.
    MEMORY: nothing; the state lives in this process only.
    """

    FULL = "full"
    NORMAL = "normal"
    MEMORY = "memory"


class Row(NamedTuple):
    rev: int
    key: str
    op: int
    create_rev: int
    prev_rev: int
    value: bytes


class Log:
    """The database file and its single-writer lock."""

    def __init__(self, directory: Path | None, durability: Durability) -> None:
        self.durability = Durability.MEMORY if directory is None else durability
        self._lock_fd: int | None = None
        self._reader: sqlite3.Connection | None = None
        if directory is None:
            self._path = None
            self._db = self._connect(":memory:")
        else:
            # what is stored includes Secrets: nobody else on the machine may read it
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.chmod(0o700)
            self._lock(directory)
            self._path = directory / "state.db"
            try:
                self._db = self._connect(str(self._path))
            except sqlite3.DatabaseError as error:
                self._unlock()
                raise StorageError(f"cannot open {self._path}: {error}") from error
        self._inserts: dict[int, str] = {}
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _lock(self, directory: Path) -> None:
        path = directory / "lock"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(fd, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(fd)
            raise StorageLocked(
                f"data directory {directory} is in use by another server (process {holder}); "
                "stop it or choose another --data-dir"
            ) from None
        os.ftruncate(fd, 0)
        os.write(fd, f"{os.getpid()}\n".encode())
        self._lock_fd = fd

    def _unlock(self) -> None:
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def _connect(self, target: str) -> sqlite3.Connection:
        # one connection is used by the loop thread and the commit thread, never at the same time
        db = sqlite3.connect(target, isolation_level=None, check_same_thread=False, cached_statements=64)
        if target != ":memory:":
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=" + ("FULL" if self.durability is Durability.FULL else "NORMAL"))
            db.execute("PRAGMA auto_vacuum=INCREMENTAL")
        db.execute("PRAGMA temp_store=MEMORY")
        return db

    def _open(self) -> None:
        try:
            self._db.executescript(_SCHEMA)
            known = self._meta("schema")
            if known is None:
                self._db.execute("BEGIN IMMEDIATE")
                self._set_meta("schema", SCHEMA_VERSION)
                self._set_meta("instance", str(uuid.uuid4()))
                self._set_meta("last_rev", "0")
                self._set_meta("compact_rev", "0")
                self._db.execute("COMMIT")
            elif known != SCHEMA_VERSION:
                raise StorageError(
                    f"{self._path} was written by another version "
                    f"(schema {known}, this one reads {SCHEMA_VERSION})"
                )
            newest = self._db.execute("SELECT COALESCE(MAX(rev), 0) FROM log").fetchone()[0]
            self.last_rev = max(int(self._meta("last_rev") or 0), newest)
            self.compact_rev = int(self._meta("compact_rev") or 0)
        except sqlite3.DatabaseError as error:
            raise StorageError(f"cannot read {self._path}: {error}") from error

    def _meta(self, key: str) -> str | None:
        row = self._db.execute("SELECT v FROM meta WHERE k = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def _set_meta(self, key: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta (k, v) VALUES (?, ?)", (key, value))

    def append(self, rows: Sequence[Row]) -> None:
        """Write one batch in one transaction; durable when this returns. Blocks for the fsync."""
        db = self._db
        if len(rows) <= _ROWS_PER_STATEMENT:
            self._insert(rows)  # a single statement is a transaction of its own
        else:
            db.execute("BEGIN IMMEDIATE")
            try:
                for start in range(0, len(rows), _ROWS_PER_STATEMENT):
                    self._insert(rows[start : start + _ROWS_PER_STATEMENT])
                db.execute("COMMIT")
            except sqlite3.Error:
                db.execute("ROLLBACK")
                raise
        self.last_rev = rows[-1].rev

    def _insert(self, rows: Sequence[Row]) -> None:
        statement = self._inserts.get(len(rows))
        if statement is None:
            places = ",".join(["(?,?,?,?,?,?)"] * len(rows))
            statement = self._inserts[len(rows)] = f"INSERT INTO log VALUES {places}"  # noqa: S608
        self._db.execute(statement, [column for row in rows for column in row])

    def compact(self, rev: int) -> int:
        """Forget history at or below `rev` that is not the state at `rev`; returns the rows removed."""
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        superseded = db.execute(
            "DELETE FROM log WHERE rev IN (SELECT prev_rev FROM log WHERE rev <= ? AND prev_rev > 0)", (rev,)
        ).rowcount
        buried = db.execute("DELETE FROM log WHERE op = ? AND rev <= ?", (DELETE, rev)).rowcount
        self._set_meta("compact_rev", str(rev))
        self._set_meta("last_rev", str(self.last_rev))
        db.execute("COMMIT")
        self.compact_rev = rev
        if self._path is not None:
            db.execute("PRAGMA incremental_vacuum(2000)").fetchall()
        return superseded + buried

    def live(self) -> Iterator[tuple[str, int, int, bytes]]:
        """(key, rev, create_rev, value) of every object that exists, in key order."""
        yield from self._db.execute(
            "SELECT l.key, l.rev, l.create_rev, l.value FROM log l"
            " JOIN (SELECT MAX(rev) AS newest FROM log GROUP BY key) m ON l.rev = m.newest"
            " WHERE l.op = 1 ORDER BY l.key"
        )

    def first_changes(
        self, prefix: str, after: int, up_to: int
    ) -> Iterator[tuple[str, int, int | None, bytes | None]]:
        """(key, rev, create_rev, value) of before the first change of each key with after < rev <= up_to.

        A key that was not there has the revision 0.
        """
        # by revision, not by key: the changes are few, the keys under the prefix may be many
        yield from self._read().execute(
            "SELECT first.key, first.prev_rev, before.create_rev, before.value FROM"
            " (SELECT key, MIN(rev), prev_rev FROM log NOT INDEXED"
            "  WHERE rev > ? AND rev <= ? AND key >= ? AND key < ? GROUP BY key) first"
            " LEFT JOIN log before ON before.rev = first.prev_rev",
            (after, up_to, prefix, prefix + "\U0010ffff"),
        )

    def changes(self, prefix: str, after: int, up_to: int) -> Iterator[Row]:
        """The changes under a prefix with after < rev <= up_to, in order."""
        for row in self._read().execute(
            "SELECT rev, key, op, create_rev, prev_rev, value FROM log NOT INDEXED"
            " WHERE rev > ? AND rev <= ? AND key >= ? AND key < ? ORDER BY rev",
            (after, up_to, prefix, prefix + "\U0010ffff"),
        ):
            yield Row(*row)

    def value_of(self, rev: int) -> bytes | None:
        row = self._read().execute("SELECT value FROM log WHERE rev = ?", (rev,)).fetchone()
        return None if row is None else bytes(row[0])

    def _read(self) -> sqlite3.Connection:
        """History is read beside the writer; in memory there is only the writer's connection."""
        if self._path is None:
            return self._db
        if self._reader is None:
            self._reader = sqlite3.connect(
                f"file:{self._path}?mode=ro", uri=True, isolation_level=None, check_same_thread=False
            )
        return self._reader

    def backup(self, target: Path) -> None:
        self._read().execute("VACUUM INTO ?", (str(target),))

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._db.close()
        self._unlock()
