"""Reading the log of a run: the format of CRI, options of ``pods/log``, and following what is written."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from quarterdeck.cluster.agent.shim.order import EXIT, LOG

__all__ = ["LogOptions", "last_lines", "read_log", "select_lines"]

_LOOK_SECONDS: Final = 0.1
_CHUNK: Final = 256 * 1024
_TIME_LENGTH: Final = 30


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


def _tail(folder: Path, options: LogOptions) -> list[bytes]:
    """The last lines that are wanted; a line in parts counts once."""
    assert options.tail is not None
    if options.tail == 0:
        return []
    taken: list[bytes] = []
    count = 0
    stream = options.stream.encode()
    for path in reversed(_files(folder)):
        try:
            lines = _raw_lines(path.read_bytes())
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
    """The log of a run in pieces; one that is followed ends when the run has."""
    left = options.limit
    position = await asyncio.to_thread(_size, folder / LOG) if options.tail is not None else 0
    identity = await asyncio.to_thread(_identity, folder / LOG)

    def cut(pieces: list[bytes]) -> bytes:
        nonlocal left
        data = b"".join(pieces)
        if left is not None:
            data = data[:left]
            left -= len(data)
        return data

    if options.tail is not None:
        data = cut(select_lines(await asyncio.to_thread(_tail, folder, options), options))
        if data:
            yield data
    else:
        older = (await asyncio.to_thread(_files, folder))[:-1]
        for path in older:
            data = cut(select_lines(_raw_lines(await asyncio.to_thread(path.read_bytes)), options))
            if data:
                yield data
    while left is None or left > 0:
        is_over = (folder / EXIT).exists()  # asked first: what is written before it is read below
        raw, position, is_replaced = await asyncio.to_thread(_read_on, folder / LOG, position, identity)
        if raw:
            data = cut(select_lines(_raw_lines(raw), options))
            if data:
                yield data
        if is_replaced:
            position, identity = 0, await asyncio.to_thread(_identity, folder / LOG)
        elif len(raw) < _CHUNK // 2:
            if is_over or not options.follow:
                return
            await asyncio.sleep(_LOOK_SECONDS)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _identity(path: Path) -> int:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return 0


def _read_on(path: Path, position: int, identity: int) -> tuple[bytes, int, bool]:
    """Whole lines from a position on, the new position, and whether the file has been put aside since."""
    for candidate in (path, path.with_name(f"{path.name}.1")):
        try:
            descriptor = os.open(candidate, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        with os.fdopen(descriptor, "rb") as file:
            if identity and os.fstat(descriptor).st_ino != identity:
                continue
            file.seek(position)
            data = file.read(_CHUNK)
        whole = data[: data.rfind(b"\n") + 1]
        is_replaced = candidate != path and len(data) < _CHUNK
        return whole, position + len(whole), is_replaced
    return b"", 0, True
