"""The change log in SQLite: what makes an acknowledged write survive.

One row per change, keyed by the global revision. The newest row of a key is its state; older
rows are history for exact lists and for watches that resume, until compaction removes them.
Only `Store` writes here, one batch at a time.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from time import perf_counter
from typing import Final

from .error import StorageError, StorageLocked, not_opened
from .inspection import DATABASE, Found, inspect, open_read_only
from .mark import Mark
from .row import COLUMNS, DELETE, SCHEMA, Row

_log = logging.getLogger("quarterdeck.apiserver.storage")

SCHEMA_VERSION: Final = "2"
#: SQLite compiles a statement per batch size and keeps it
_ROWS_PER_STATEMENT: Final = 64
#: what may stay of the write-ahead log once its content is in the database, in bytes
_LOG_LIMIT: Final = 16 * 1024 * 1024
#: what a slice of compaction may take, in seconds, and the revisions of the first one
_SLICE_SECONDS: Final = 0.01
_FIRST_SLICE: Final = 500
#: revisions that are left out when a backup is started from: more than anybody writes after making one
RESTORE_GAP: Final = 1_000_000_000
#: free pages that stay in the file, for what is written next
_SPARE_PAGES: Final = 250


class Durability(Enum):
    """What an acknowledged write survives.

    FULL: power loss (fsync per group commit). NORMAL: a killed process, not a power loss.
    MEMORY: nothing; the state lives in this process only, and no log is written.
    """

    FULL = "full"
    NORMAL = "normal"
    MEMORY = "memory"


class Log:
    """The database file and its single-writer lock."""

    def __init__(self, directory: Path, durability: Durability) -> None:
        self.durability = durability
        self._lock_fd: int | None = None
        self._reader: sqlite3.Connection | None = None
        self._mark: Mark | None = None
        self._inserts: dict[int, str] = {}
        self._slice = _FIRST_SLICE
        self._path = directory / DATABASE
        #: the files that hold what is acknowledged, as they were opened
        self._files: dict[Path, tuple[int, int]] = {}
        # What is stored includes Secrets: nobody else on the machine may read it, not even after somebody
        # has made the directory readable. SQLite's other files get the mode of the database.
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.chmod(0o700)
        self._lock_fd = lock(directory)
        try:
            found = inspect(directory)
            self._db = self._connect()
        except sqlite3.DatabaseError as error:
            self._unlock()
            raise not_opened(self._path, error) from error
        except BaseException:
            self._unlock()
            raise
        try:
            self._open(directory, found)
        except BaseException:
            self.close()
            raise

    def _unlock(self) -> None:
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def _connect(self) -> sqlite3.Connection:
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        for file in self._path.parent.glob(f"{DATABASE}*"):
            file.chmod(0o600)
        # one connection is used by the loop thread and the commit thread, never at the same time
        db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, cached_statements=64)
        db.execute("PRAGMA auto_vacuum=INCREMENTAL")  # has an effect in a file without tables only
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=" + ("FULL" if self.durability is Durability.FULL else "NORMAL"))
        db.execute(f"PRAGMA journal_size_limit={_LOG_LIMIT}")
        db.execute("PRAGMA temp_store=MEMORY")
        return db

    def _open(self, directory: Path, found: Found | None) -> None:
        try:
            if found is None:
                instance = self._make()
            else:
                instance = found.instance
                self._migrate(found.schema)
        except sqlite3.DatabaseError as error:
            raise not_opened(self._path, error) from error
        self.last_rev = 0 if found is None else found.last_rev
        self.compact_rev = 0 if found is None else found.compact_rev
        self._cleaned_rev = 0 if found is None else found.cleaned_rev
        if found is not None and found.is_restored:
            self._begin_new_history()
        #: what exists, until it is taken
        self._live = {} if found is None else found.live
        self._mark = Mark(directory, instance, is_synced=self.durability is Durability.FULL)
        self._mark.create(self.last_rev)
        log = self._path.with_name(f"{DATABASE}-wal")
        self._files = {path: _identity(path) for path in (self._path, log) if path.exists()}

    def _begin_new_history(self) -> None:
        """Let revisions go on far behind those that were given out after the backup was made.

        Who goes on watching or writing with one of those is told that it is too old, and lists again.
        Otherwise one revision would mean two things, and a watch that resumes would miss changes in silence.
        """
        self.last_rev += RESTORE_GAP
        self.declare_compacted(self.last_rev)
        _log.info("started from a backup", extra={"revision": self.last_rev})

    def _make(self) -> str:
        instance = str(uuid.uuid4())
        self._db.executescript(SCHEMA)
        self._db.execute("BEGIN IMMEDIATE")
        for key, value in (
            ("schema", SCHEMA_VERSION),
            ("instance", instance),
            ("last_rev", "0"),
            ("compact_rev", "0"),
            ("cleaned_rev", "0"),
        ):
            self._set_meta(key, value)
        self._db.execute("COMMIT")
        return instance

    def _migrate(self, schema: str) -> None:
        if schema == "1":
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("ALTER TABLE log ADD COLUMN crc INTEGER")
            self._db.execute("DROP INDEX IF EXISTS log_key")
            self._set_meta("schema", SCHEMA_VERSION)
            self._db.execute("COMMIT")
        if self._db.execute("PRAGMA auto_vacuum").fetchone()[0] == 0:
            try:
                self._db.execute("PRAGMA auto_vacuum=INCREMENTAL")
                self._db.execute("VACUUM")
            except sqlite3.OperationalError as error:
                _log.warning("the database file cannot shrink yet", extra={"error": str(error)})

    def _set_meta(self, key: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta (k, v) VALUES (?, ?)", (key, value))

    def append(self, rows: Sequence[Row]) -> None:
        """Write one batch in one transaction; durable when this returns. Blocks for the fsync."""
        self._check_files()
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
                self._roll_back()
                raise
        self.last_rev = rows[-1].rev
        if self._mark is not None:
            self._mark.write(self.last_rev)

    def _check_files(self) -> None:
        """What is written to a file that has no name any more is lost with the process."""
        for path, opened in self._files.items():
            try:
                found = _identity(path)
            except FileNotFoundError:
                found = None
            if found != opened:
                raise StorageError(
                    f"{path} was removed or replaced while the server was using it; restart it"
                )

    def _insert(self, rows: Sequence[Row]) -> None:
        statement = self._inserts.get(len(rows))
        if statement is None:
            places = ",".join(["(?,?,?,?,?,?,?)"] * len(rows))
            statement = self._inserts[len(rows)] = f"INSERT INTO log ({COLUMNS}, crc) VALUES {places}"  # noqa: S608
        self._db.execute(statement, [column for row in rows for column in (*row, row.crc())])

    def _roll_back(self) -> None:
        if self._db.in_transaction:  # SQLite may have done it already
            self._db.execute("ROLLBACK")

    def try_to_write(self) -> None:
        """Whether writes succeed again; raises like one of them. Blocks for the fsync."""
        # large enough to need room of its own, and taken back
        newest = self._db.execute("SELECT COALESCE(MAX(rev), 0) FROM log").fetchone()[0]
        if newest > self.last_rev:
            raise StorageError(
                f"revision {newest} was stored although it failed; only a restart can take it in"
            )
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.execute("INSERT OR REPLACE INTO meta (k, v) VALUES ('attempt', ?)", ("x" * 16_384,))
            self._db.execute("COMMIT")
        except sqlite3.Error:
            self._roll_back()
            raise
        self._db.execute("DELETE FROM meta WHERE k = 'attempt'")

    def declare_compacted(self, rev: int) -> None:
        """History at or below `rev` is no longer given out; `clean` removes it."""
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            self._set_meta("compact_rev", str(rev))
            self._set_meta("last_rev", str(self.last_rev))
            db.execute("COMMIT")
        except sqlite3.Error:
            self._roll_back()
            raise
        self.compact_rev = rev

    def clean(self) -> tuple[int, bool]:
        """Remove a slice of compacted history; returns the rows removed and whether there may be more.

        It needs not be durable by itself: what is written next takes it along to the disk.
        """
        if self.durability is not Durability.FULL:
            return self._clean()
        self._db.execute("PRAGMA synchronous=NORMAL")
        try:
            return self._clean()
        finally:
            self._db.execute("PRAGMA synchronous=FULL")

    def _clean(self) -> tuple[int, bool]:
        start, db = self._cleaned_rev, self._db
        if start >= self.compact_rev:
            return 0, self._shrink()
        began = perf_counter()
        [nearest] = db.execute("SELECT MIN(rev) FROM log WHERE rev > ?", (start,)).fetchone()
        stop = self.compact_rev if nearest is None else min(nearest + self._slice, self.compact_rev)
        db.execute("BEGIN IMMEDIATE")
        try:
            # with a deletion goes all that was before it, in the same transaction: nothing comes back
            superseded = db.execute(
                "DELETE FROM log WHERE rev IN"
                " (SELECT prev_rev FROM log WHERE rev > ? AND rev <= ? AND prev_rev > 0)",
                (start, stop),
            ).rowcount
            buried = db.execute(
                "DELETE FROM log WHERE op = ? AND rev > ? AND rev <= ?", (DELETE, start, stop)
            ).rowcount
            self._set_meta("cleaned_rev", str(stop))
            db.execute("COMMIT")
        except sqlite3.Error:
            self._roll_back()
            raise
        self._cleaned_rev = stop
        pace = _SLICE_SECONDS / max(perf_counter() - began, 1e-6)
        self._slice = max(_FIRST_SLICE // 5, min(int(self._slice * min(pace, 2.0)), 2_000))
        return superseded + buried, True

    def _shrink(self) -> bool:
        """Give some of the free pages back to the disk; returns whether there are more."""
        [free] = self._db.execute("PRAGMA freelist_count").fetchone()
        if free <= _SPARE_PAGES:
            return False
        # as a script: `execute` takes one step of it, which frees one page
        self._db.executescript(f"PRAGMA incremental_vacuum({min(free - _SPARE_PAGES, 200)})")
        return True

    def take_live(self) -> list[Row]:
        """Every object that exists, in key order; once."""
        live, self._live = self._live, {}
        return [live[key] for key in sorted(live)]

    def first_changes(
        self, prefix: str, after: int, up_to: int
    ) -> Iterator[tuple[str, int, int | None, bytes | None]]:
        """(key, rev, create_rev, value) of before the first change of each key with after < rev <= up_to.

        A key that was not there has the revision 0.
        """
        yield from self._read().execute(
            "SELECT first.key, first.prev_rev, before.create_rev, before.value FROM"
            " (SELECT key, MIN(rev), prev_rev FROM log"
            "  WHERE rev > ? AND rev <= ? AND key >= ? AND key < ? GROUP BY key) first"
            " LEFT JOIN log before ON before.rev = first.prev_rev",
            (after, up_to, prefix, prefix + "\U0010ffff"),
        )

    def changes(self, prefix: str, after: int, up_to: int) -> Iterator[Row]:
        """The changes under a prefix with after < rev <= up_to, in order."""
        for row in self._read().execute(
            f"SELECT {COLUMNS} FROM log"  # noqa: S608
            " WHERE rev > ? AND rev <= ? AND key >= ? AND key < ? ORDER BY rev",
            (after, up_to, prefix, prefix + "\U0010ffff"),
        ):
            yield Row(*row)

    def value_of(self, rev: int) -> bytes | None:
        row = self._read().execute("SELECT value FROM log WHERE rev = ?", (rev,)).fetchone()
        return None if row is None else bytes(row[0])

    def _read(self) -> sqlite3.Connection:
        """History is read beside the writer."""
        if self._reader is None:
            self._reader = open_read_only(self._path)
        return self._reader

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._db.close()
        if self._mark is not None:
            self._mark.close()
        self._unlock()


class NoLog:
    """Takes the place of a log where nothing is kept: all that is known of the past is in memory."""

    durability: Final = Durability.MEMORY

    def __init__(self) -> None:
        self.last_rev = 0
        self.compact_rev = 0

    def append(self, rows: Sequence[Row]) -> None:
        self.last_rev = rows[-1].rev

    def try_to_write(self) -> None:
        """There is room as long as there is memory."""

    def declare_compacted(self, rev: int) -> None:
        self.compact_rev = rev

    def take_live(self) -> list[Row]:
        return []

    def first_changes(
        self, prefix: str, after: int, up_to: int
    ) -> Iterator[tuple[str, int, int | None, bytes | None]]:
        return iter(())

    def changes(self, prefix: str, after: int, up_to: int) -> Iterator[Row]:
        return iter(())

    def value_of(self, rev: int) -> bytes | None:
        return None

    def close(self) -> None:
        """Nothing is open."""


def _identity(path: Path) -> tuple[int, int]:
    """Which file it is, whatever its name."""
    found = os.stat(path)
    return found.st_dev, found.st_ino


def lock(directory: Path) -> int:
    """Become the only user of a data directory, until the result is closed."""
    fd = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(fd, 32).decode("ascii", "replace").strip() or "unknown"
        os.close(fd)
        raise StorageLocked(
            f"data directory {directory} is in use by another server (process {holder}); "
            "stop it or choose another --data-dir"
        ) from None
    with suppress(OSError):  # who it is matters to people only
        os.ftruncate(fd, 0)
        os.write(fd, f"{os.getpid()}\n".encode())
    return fd
