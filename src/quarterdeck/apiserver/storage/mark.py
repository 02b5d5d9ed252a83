"""The high-water mark: what the server has acknowledged, in a file of its own.

SQLite cannot tell a write-ahead log that ends where the server was killed from one that has lost its end: in
both cases it goes on with what is in order. The mark can: it holds the newest revision that was acknowledged.
It is written after each commit and before the answer, in place and without a second fsync. A killed process
leaves it exact, and after a power failure it is at most too low, so that it never accuses falsely.
"""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

NAME: Final = "state.mark"
_SIZE: Final = 160
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class Marked(NamedTuple):
    """What a mark says."""

    instance: str
    """The store it belongs to."""
    boot: str
    """The boot of the machine in which it was written."""
    is_synced: bool
    """Whether commits were on disk before it was written."""
    rev: int

    def binds(self) -> bool:
        """Whether all that was acknowledged must be there, even after a power failure."""
        return self.is_synced or self.boot == _boot()


class Mark:
    """The file, open for writing."""

    def __init__(self, directory: Path, instance: str, *, is_synced: bool) -> None:
        self._head = f"{instance} {_boot()} {'synced' if is_synced else 'buffered'} "
        self._fd = os.open(directory / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def create(self, rev: int) -> None:
        """Write it so that it has its place on disk; later ones go over it."""
        self._put(rev)
        os.fsync(self._fd)

    def write(self, rev: int) -> None:
        """`rev` is acknowledged from now on."""
        with suppress(OSError):  # one that is too low does no harm
            self._put(rev)

    def _put(self, rev: int) -> None:
        text = f"{self._head}{rev:020d}".encode()
        line = b"%b %08x\n" % (text, zlib.crc32(text))
        os.pwrite(self._fd, line.ljust(_SIZE, b"\n"), 0)

    def close(self) -> None:
        os.close(self._fd)


def read_mark(directory: Path) -> Marked | None:
    """The mark of a data directory; None where there is none that makes sense."""
    try:
        text, _, check = (directory / NAME).read_bytes().strip().rpartition(b" ")
    except FileNotFoundError:
        return None
    if check != b"%08x" % zlib.crc32(text):
        return None
    instance, boot, synced, rev = text.decode("ascii").split(" ")
    return Marked(instance, boot, synced == "synced", int(rev))


def _boot() -> str:
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return "-"
