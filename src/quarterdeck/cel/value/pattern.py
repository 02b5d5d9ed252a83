"""Regular expressions: RE2 with Go's error texts.

RE2 runs in time linear in the text, whatever the pattern.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import re2

from quarterdeck.cel.error import EvalError

_MAX_MEMORY: Final = 8 << 20
_TEXTS: Final = (
    ("missing ]", "missing closing ]"),
    ("missing )", "missing closing )"),
    ("unexpected )", "unexpected )"),
    ("no argument for repetition operator", "missing argument to repetition operator"),
    ("bad repetition operator", "invalid nested repetition operator"),
    ("invalid repetition size", "invalid repeat count"),
    ("invalid perl operator", "invalid or unsupported Perl syntax"),
    ("invalid named capture group", "invalid named capture"),
    ("trailing \\", "trailing backslash at end of expression"),
)


class Pattern:
    """A compiled pattern; works on UTF-8, which spares RE2's wrapper the translation of offsets."""

    __slots__ = ("_search",)

    def __init__(self, compiled: Any) -> None:
        self._search = compiled.search

    def occurs_in(self, text: str) -> bool:
        """Whether the pattern matches somewhere."""
        return self._search(text.encode("utf-8", "surrogatepass")) is not None

    def find(self, text: str) -> str:
        """The leftmost match, empty when there is none."""
        match = self._search(text.encode("utf-8", "surrogatepass"))
        return "" if match is None else str(match.group(), "utf-8", "surrogatepass")

    def find_all(self, text: str, limit: int = -1) -> list[str]:
        """All matches from left to right, at most `limit` when it is not negative.

        Empty matches right after another match do not count.
        """
        data = text.encode("utf-8", "surrogatepass")
        found: list[str] = []
        at, previous = 0, -1
        while at <= len(data) and (limit < 0 or len(found) < limit):
            match = self._search(data, at)
            if match is None:
                break
            start, end = match.span()
            if end > start or start != previous:
                found.append(str(data[start:end], "utf-8", "surrogatepass"))
            previous = end
            at = end if end > start else _next_character(data, end)
        return found


def _next_character(data: bytes, at: int) -> int:
    at += 1
    while at < len(data) and data[at] & 0xC0 == 0x80:
        at += 1
    return at


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    return options


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Pattern:
    """Compile, EvalError with Go's text when the pattern is malformed."""
    try:
        return Pattern(re2.compile(pattern, options=_options()))
    except re2.error as problem:
        raise EvalError(f"error parsing regexp: {_go_text(problem.args[0])}") from problem


def _go_text(problem: bytes | str) -> str:
    text = problem.decode("utf-8", "replace") if isinstance(problem, bytes) else problem
    for own, theirs in _TEXTS:
        if text.startswith(own):
            _, _, where = text.partition(": ")
            return f"{theirs}: `{where}`"
    kind, _, where = text.partition(": ")
    return f"{kind}: `{where}`" if where else text
