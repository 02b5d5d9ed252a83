"""Warnings the server sends beside its answers.

Each ``Warning: 299 - "text"`` header goes to a handler. The default logs a text once per process, so
that a deprecated version used in a loop does not flood the log; ``log_every_warning`` logs all.
"""

import logging
import re
from collections.abc import Callable
from typing import Final, TypeAlias

WarningHandler: TypeAlias = Callable[[str], None]
"""Gets the text of one warning."""

_log: Final = logging.getLogger("quarterdeck.client")
_HEADER: Final = re.compile(r'\s*(\d{3}) (\S+) "((?:[^"\\]|\\.)*)"')


def parse_warning(header: str) -> list[str]:
    """The texts of code 299 in one header value; others are not for us."""
    return [
        re.sub(r"\\(.)", r"\1", match.group(3))
        for match in _HEADER.finditer(header)
        if match.group(1) == "299"
    ]


def log_every_warning(text: str) -> None:
    """Log each warning, as client-go does."""
    _log.warning("server warning", extra={"warning": text})


class LogOnce:
    """Logs each distinct text once; remembers at most ``limit`` of them."""

    def __init__(self, limit: int = 4096) -> None:
        self._seen: set[str] = set()
        self._limit = limit

    def __call__(self, text: str) -> None:
        if text in self._seen:
            return
        if len(self._seen) >= self._limit:
            self._seen.clear()
        self._seen.add(text)
        log_every_warning(text)
