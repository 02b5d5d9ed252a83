"""The log of a container, in files that do not grow for ever.

Lines look like ``2006-01-02T15:04:05.000000000Z stdout F text``.

Lines are written whole, and several at a time. A line longer than 16 KiB is written in parts, tagged ``P``
but for the last.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

_PART: Final = 16 * 1024


class LogWriter:
    """Writes one container's log; the newest file is ``path``, the one before ``path.1`` and so on."""

    def __init__(self, path: Path, *, max_bytes: int, max_files: int) -> None:
        self._path: Final = path
        self._max_bytes: Final = max_bytes
        self._max_files: Final = max_files
        self._rest: Final[dict[bytes, bytes]] = {}
        self._second = -1
        self._prefix = b""
        self._open()

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._file = os.open(self._path, flags, 0o600)
        self._size = os.fstat(self._file).st_size

    def write(self, stream: bytes, data: bytes) -> None:
        """Add what a stream (``stdout`` or ``stderr``) has said; the last line may be unfinished."""
        data = self._rest.pop(stream, b"") + data
        lines = data.split(b"\n")
        rest = lines.pop()
        head = self._head(stream)
        out: list[bytes] = []
        for line in lines:
            while len(line) > _PART:
                out.append(head + b"P " + line[:_PART] + b"\n")
                line = line[_PART:]
            out.append(head + b"F " + line + b"\n")
        while len(rest) > _PART:
            out.append(head + b"P " + rest[:_PART] + b"\n")
            rest = rest[_PART:]
        if rest:
            self._rest[stream] = rest
        if out:
            self._append(b"".join(out))

    def close(self) -> None:
        """Write what has no end of line, and close."""
        for stream, rest in self._rest.items():
            self._append(self._head(stream) + b"P " + rest + b"\n")
        self._rest.clear()
        os.close(self._file)

    def _head(self, stream: bytes) -> bytes:
        now = time.time_ns()
        second, nanoseconds = divmod(now, 1_000_000_000)
        if second != self._second:
            self._second = second
            self._prefix = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second)).encode()
        return b"%b.%09dZ %b " % (self._prefix, nanoseconds, stream)

    def _append(self, data: bytes) -> None:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._file, view) :]
        except OSError:
            return  # the disk is full: the container goes on, its words are lost
        self._size += len(data)
        if self._size >= self._max_bytes:
            self._rotate()

    def _rotate(self) -> None:
        os.close(self._file)
        for number in range(self._max_files - 1, 0, -1):
            older = self._path if number == 1 else self._path.with_name(f"{self._path.name}.{number - 1}")
            if older.exists():
                os.replace(older, self._path.with_name(f"{self._path.name}.{number}"))
        self._open()
