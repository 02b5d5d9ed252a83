"""Reading the log of a run: the format of CRI, options of ``pods/log``, and following what is written."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec

from quarterdeck.cluster.agent.shim.order import EXIT, LOG

_LOOK_SECONDS: Final = 0.1
_CHUNK: Final = 256 * 1024


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of a log, and how."""

    follow: bool = False
    tail: int | None = None
    limit: int | None = None
    since: str = ""
    """Only lines from this time on, in the log's own format, which sorts as text."""
    timestamps: bool = False
    stream: str = ""
    """``stdout`` or ``stderr``; both unless given."""


class _Line(NamedTuple):
    time: bytes
    stream: bytes
    is_whole: bool
    text: bytes


def _parse(raw: bytes) -> _Line | None:
    time, _, rest = raw.partition(b" ")
    stream, _, rest = rest.partition(b" ")
    tag, _, text = rest.partition(b" ")
    if not text and b" " not in rest:
        return None
    return _Line(time, stream, tag == b"F", text)


def select_lines(raw: Iterable[bytes], options: LogOptions) -> list[bytes]:
    """What a reader gets of these lines of a log file, piece by piece."""
    since, stream = options.since.encode(), options.stream.encode()
    out = []
    for each in raw:
        line = _parse(each)
        if line is None or (since and line.time < since) or (stream and line.stream != stream):
            continue
        text = line.text + b"\n" if line.is_whole else line.text
        out.append(line.time + b" " + text if options.timestamps else text)
    return out


def _files(folder: Path) -> list[Path]:
    """The files of a log, oldest first."""
    older = []
    number = 1
    while (path := folder / f"{LOG}.{number}").exists():
        older.append(path)
        number += 1
    return [*reversed(older), folder / LOG]


def _raw_lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    lines.pop()  # what follows the last end of line: nothing, or a line that is being written
    return lines


def _tail(folder: Path, options: LogOptions, newest: bytes | None = None) -> list[bytes]:
    """The last lines that are wanted; a line in parts counts once. ``newest`` are those of the newest file,
    if they have been read already."""
    assert options.tail is not None
    if options.tail == 0:
        return []
    taken: list[bytes] = []
    count = 0
    stream = options.stream.encode()
    for path in reversed(_files(folder)):
        try:
            has_been_read = newest is not None and path.name == LOG
            lines = _raw_lines(newest if newest is not None and has_been_read else path.read_bytes())
        except FileNotFoundError:
            continue
        for raw in reversed(lines):
            line = _parse(raw)
            if line is None or (stream and line.stream != stream):
                continue
            if line.is_whole or not taken:
                count += 1
                if count > options.tail:
                    return taken[::-1]
            taken.append(raw)
    return taken[::-1]


def last_lines(folder: Path, count: int, size: int) -> str:
    """The end of a log as text: at most so many lines and bytes. Blocking."""
    text = b"".join(select_lines(_tail(folder, LogOptions(tail=count)), LogOptions()))
    return text[-size:].decode(errors="replace")


async def read_log(folder: Path, options: LogOptions) -> AsyncIterator[bytes]:
    """The log of a run in pieces; one that is followed ends when the run has, or when its folder is gone."""
    left = options.limit
    follower = await asyncio.to_thread(_Follower, folder, from_end=options.tail is not None)

    def cut(pieces: list[bytes]) -> bytes:
        nonlocal left
        data = b"".join(pieces)
        if left is not None:
            data = data[:left]
            left -= len(data)
        return data

    try:
        if options.tail is not None:
            tail = await asyncio.to_thread(_tail, folder, options, follower.passed)
            data = cut(select_lines(tail, options))
            if data:
                yield data
            if not options.follow:
                return  # what came since is more than was asked for
        else:
            for path in (await asyncio.to_thread(_files, folder))[:-1]:
                data = cut(select_lines(_raw_lines(await asyncio.to_thread(path.read_bytes)), options))
                if data:
                    yield data
        while left is None or left > 0:
            is_over = await asyncio.to_thread(_is_over, folder)  # asked first: what came before is read below
            raw = await asyncio.to_thread(follower.read)
            if raw:
                data = cut(select_lines(_raw_lines(raw), options))
                if data:
                    yield data
            elif is_over or not options.follow:
                return
            else:
                await asyncio.sleep(_LOOK_SECONDS)
    finally:
        follower.close()


def _is_over(folder: Path) -> bool:
    return (folder / EXIT).exists() or not folder.exists()


class _Follower:
    """Reads whole lines of a log file that is being written, and of those that take its place. Blocking.

    The file stays open: what was written before a pod was removed can still be read.
    """

    def __init__(self, folder: Path, *, from_end: bool) -> None:
        self._path: Final = folder / LOG
        self._rest = b""
        self._file: BinaryIO | None = None
        self._open()
        self.passed = b""
        """The lines that were there already, if reading begins behind them."""
        if from_end and self._file is not None:
            data = self._file.read(os.fstat(self._file.fileno()).st_size) or b""
            end = data.rfind(b"\n") + 1
            self.passed, self._rest = data[:end], data[end:]

    def _open(self) -> None:
        with suppress(FileNotFoundError):
            self._file = self._path.open("rb", buffering=0)

    def read(self) -> bytes:
        """Whole lines that are new; empty if there are none now."""
        if self._file is None:
            self._open()
            if self._file is None:
                return b""
        while True:
            data = self._file.read(_CHUNK) or b""
            if not data and self._is_replaced():
                self._file.close()
                self._file, self._rest = self._path.open("rb", buffering=0), b""
                continue
            data = self._rest + data
            end = data.rfind(b"\n") + 1
            self._rest = data[end:]
            return data[:end]

    def _is_replaced(self) -> bool:
        assert self._file is not None
        try:
            return self._path.stat().st_ino != os.fstat(self._file.fileno()).st_ino
        except FileNotFoundError:
            return False

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
