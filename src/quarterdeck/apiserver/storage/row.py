"""One change as a row of the log, and the check value that proves it unbroken."""

from __future__ import annotations

import zlib
from typing import Final, NamedTuple

PUT, DELETE = 1, 2

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS log (
    rev INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    op INTEGER NOT NULL,
    create_rev INTEGER NOT NULL,
    prev_rev INTEGER NOT NULL,
    value BLOB NOT NULL,
    crc INTEGER
);
CREATE TABLE IF NOT EXISTS meta (k TEXT PRIMARY KEY, v TEXT NOT NULL) WITHOUT ROWID;
"""
COLUMNS: Final = "rev, key, op, create_rev, prev_rev, value"


class Row(NamedTuple):
    rev: int
    key: str
    op: int
    create_rev: int
    prev_rev: int
    value: bytes

    def crc(self) -> int:
        """The check value stored beside the row."""
        head = f"{self.rev} {self.key} {self.op} {self.create_rev} {self.prev_rev}"
        return zlib.crc32(self.value, zlib.crc32(head.encode()))
