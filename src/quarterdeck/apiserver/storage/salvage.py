"""Keeps what can be read of a damaged data directory, and says what that is.

Rows prove themselves by their check value, so that it does not matter how they were found: SQLite's own view
is one way, and the write-ahead log behind a broken place another. What was lost may have been a change or a
deletion of something saved: it shows the state it had before. The files stay in a folder beside.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from .error import StorageError
from .inspection import DATABASE, is_sound, open_read_only
from .log import SCHEMA_VERSION, lock
from .mark import NAME as MARK
from .mark import read_mark
from .row import COLUMNS, DELETE, SCHEMA, Row

_FILES: Final = (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", MARK)
_LOG_HEADER: Final = struct.Struct(">8I")
_FRAME_HEADER: Final = struct.Struct(">6I")
_PAGE_SIZES: Final = tuple(512 << shift for shift in range(7))
_LONGEST: Final = 1 << 40
_MAX_REV: Final = (1 << 63) - 1
#: how far behind a place that cannot be read rows are looked for, and how many such places are put up with
_REACH: Final = 1 << 24
_ATTEMPTS: Final = 1000


class Report(NamedTuple):
    """What became of a data directory."""

    objects: int
    rev: int
    """The revision it goes on from."""
    lost: int
    """Changes that were acknowledged or are known of, and are gone."""
    broken: list[str]
    """Keys and revisions of rows that can be named but not trusted."""
    folder: Path
    """Where the damaged files are."""

    def lines(self) -> Iterator[str]:
        yield f"saved {self.objects} objects; the next revision is {self.rev + 1}"
        if self.lost:
            yield (
                f"lost {self.lost} changes: what they concerned shows its state of before, or is missing, or "
                "is there although it was deleted"
            )
        for name in self.broken:
            yield f"broken: {name}"
        if not self.lost and not self.broken:
            yield "lost nothing"
        yield f"the damaged files are in {self.folder}"


class _Rows(NamedTuple):
    """Rows that were found, by revision, in the files as they are and in those behind a broken place."""

    sound: dict[int, Row]
    broken: dict[int, str]
    compact_rev: int
    last_rev: int


def salvage(directory: Path) -> Report:
    """Replace the state of a data directory by what can be read of it. Raises StorageError."""
    if not (directory / DATABASE).exists() and not (directory / MARK).exists():
        raise StorageError(f"there is no {directory / DATABASE} to salvage; name the right --data-dir")
    fd = lock(directory)
    try:
        return _salvage(directory)
    finally:
        os.close(fd)


def _salvage(directory: Path) -> Report:
    mark = read_mark(directory)
    with tempfile.TemporaryDirectory(prefix="salvage-", dir=directory) as work:
        found = _merged([_read(path) for path in _candidates(directory, Path(work))])
        acknowledged = max(found.last_rev, mark.rev if mark is not None else 0)
        live: dict[str, Row] = {}
        for _, row in sorted(found.sound.items()):
            if row.op == DELETE:
                live.pop(row.key, None)
            else:
                live[row.key] = row
        above = sum(1 for rev in found.sound if rev > found.compact_rev)
        lost = max(acknowledged - found.compact_rev - above, 0)
        fresh = Path(work) / "fresh.db"
        _write(fresh, live, acknowledged)
        folder = directory / time.strftime("damaged-%Y%m%d-%H%M%S", time.gmtime())
        folder.mkdir(mode=0o700)
        for name in _FILES:
            if (directory / name).exists():
                (directory / name).rename(folder / name)
        fresh.rename(directory / DATABASE)
    return Report(len(live), acknowledged, lost, [found.broken[rev] for rev in sorted(found.broken)], folder)


def _candidates(directory: Path, work: Path) -> Iterator[Path]:
    """Databases to read: as SQLite sees it, and with all that the write-ahead log holds."""
    database, log = directory / DATABASE, directory / f"{DATABASE}-wal"
    seen = work / "seen.db"
    shutil.copyfile(database, seen) if database.exists() else seen.touch()
    _stretch(seen)
    if log.exists():
        shutil.copyfile(log, work / "seen.db-wal")
        whole = work / "whole.db"
        shutil.copyfile(seen, whole)
        if _replay(log.read_bytes(), whole):
            yield whole
    yield seen


def _stretch(path: Path) -> None:
    """Give a database that was cut off its length back: SQLite reads none that is too short."""
    with path.open("r+b") as file:
        header = file.read(32)
        if len(header) == 32:
            [size], [pages] = struct.unpack(">H", header[16:18]), struct.unpack(">I", header[28:32])
            if size in _PAGE_SIZES and path.stat().st_size < size * pages <= _LONGEST:
                file.truncate(size * pages)


def _replay(log: bytes, target: Path) -> bool:
    """Put every page of a write-ahead log in place, whether its check sum holds or not."""
    if len(log) < _LOG_HEADER.size + _FRAME_HEADER.size:
        return False
    size = _LOG_HEADER.unpack_from(log)[2]
    with target.open("rb") as file:
        start = file.read(18)
    if len(start) == 18:  # the database knows better: the header of the log may be what is broken
        [size] = struct.unpack(">H", start[16:])
    if size not in _PAGE_SIZES:
        return False
    round_ = _FRAME_HEADER.unpack_from(log, _LOG_HEADER.size)[2:4]
    pages: dict[int, bytes] = {}
    pending: dict[int, bytes] = {}
    at = _LOG_HEADER.size
    while at + _FRAME_HEADER.size + size <= len(log):
        number, is_commit, *salts = _FRAME_HEADER.unpack_from(log, at)[:4]
        at += _FRAME_HEADER.size
        if tuple(salts) == round_:  # others are of an earlier one
            pending[number] = log[at : at + size]
            if is_commit:
                pages |= pending
                pending = {}
        at += size
    most = (target.stat().st_size + len(log)) // size
    with target.open("r+b") as file:
        for number, page in pages.items():
            if 0 < number <= most:
                file.seek((number - 1) * size)
                file.write(page)
    return bool(pages)


def _read(path: Path) -> _Rows:
    sound: dict[int, Row] = {}
    broken: dict[int, str] = {}
    meta: dict[str, str] = {}
    db = open_read_only(path)
    try:
        db.text_factory = lambda raw: raw.decode("utf-8", "replace")
        for check in ("crc", "NULL"):  # the older schema has no check values
            for row, value in _rows(db, check, 0, _MAX_REV):
                if is_sound(row, value):
                    sound[row.rev] = row
                else:
                    broken[row.rev] = f"{row.key} at revision {row.rev}"
            if sound or broken:
                break
        meta = dict(db.execute("SELECT k, v FROM meta").fetchall())
    except sqlite3.DatabaseError:
        pass  # what was read before it counts
    finally:
        db.close()
    return _Rows(sound, broken, _number(meta, "compact_rev"), max([_number(meta, "last_rev"), *sound]))


def _rows(db: sqlite3.Connection, check: str, low: int, high: int) -> Iterator[tuple[Row, int | None]]:
    """The rows between two revisions; around a place that cannot be read, the span is halved."""
    spans, attempts = [(low, high)], _ATTEMPTS
    while spans and attempts:
        low, high = spans.pop()
        try:
            for *columns, value in db.execute(
                f"SELECT {COLUMNS}, {check} FROM log WHERE rev > ? AND rev <= ? ORDER BY rev",  # noqa: S608
                (low, high),
            ):
                row = Row(*columns)
                low = row.rev
                yield row, value
        except sqlite3.DatabaseError:
            attempts -= 1
            high = min(high, low + _REACH)
            if high - low > 1:
                middle = (low + high) // 2
                spans += [(middle, high), (low, middle)]


def _number(meta: dict[str, str], key: str) -> int:
    text = meta.get(key, "0")
    return int(text) if text.isdigit() else 0


def _merged(found: list[_Rows]) -> _Rows:
    sound: dict[int, Row] = {}
    broken: dict[int, str] = {}
    for rows in found:
        sound |= rows.sound
        broken |= rows.broken
    compact_rev = max(rows.compact_rev for rows in found)
    last_rev = max(rows.last_rev for rows in found)
    return _Rows(sound, {rev: broken[rev] for rev in broken.keys() - sound.keys()}, compact_rev, last_rev)


def _write(path: Path, live: dict[str, Row], rev: int) -> None:
    """A new database with these objects; its history begins with what comes next."""
    db = sqlite3.connect(path, isolation_level=None)
    try:
        db.execute("PRAGMA auto_vacuum=INCREMENTAL")
        db.executescript(SCHEMA)
        db.execute("BEGIN IMMEDIATE")
        for row in live.values():
            row = row._replace(prev_rev=0)
            db.execute(f"INSERT INTO log ({COLUMNS}, crc) VALUES (?,?,?,?,?,?,?)", (*row, row.crc()))  # noqa: S608
        meta = {
            "schema": SCHEMA_VERSION,
            "instance": str(uuid.uuid4()),
            "last_rev": str(rev),
            "compact_rev": str(rev),
            "cleaned_rev": str(rev),
        }
        db.executemany("INSERT INTO meta (k, v) VALUES (?, ?)", meta.items())
        db.execute("COMMIT")
    finally:
        db.close()
