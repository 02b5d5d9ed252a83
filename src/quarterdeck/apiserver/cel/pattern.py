"""Regular expressions: RE2 with Go's error texts.

RE2 runs in time linear in the text, whatever the pattern.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, Protocol

import re2

from quarterdeck.apiserver.cel.error import EvalError

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


class Match(Protocol):
    """What a search found."""

    def group(self, index: int = 0) -> str: ...

    def span(self, index: int = 0) -> tuple[int, int]: ...


class Pattern(Protocol):
    """A compiled pattern."""

    def search(self, text: str, pos: int = 0) -> Match | None: ...


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    return options


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Pattern:
    """Compile, EvalError with Go's text when the pattern is malformed."""
    try:
        compiled: Pattern = re2.compile(pattern, options=_options())
    except re2.error as problem:
        raise EvalError(f"error parsing regexp: {_go_text(problem.args[0])}") from problem
    return compiled


def _go_text(problem: bytes | str) -> str:
    text = problem.decode("utf-8", "replace") if isinstance(problem, bytes) else problem
    for own, theirs in _TEXTS:
        if text.startswith(own):
            _, _, where = text.partition(": ")
            return f"{theirs}: `{where}`"
    kind, _, where = text.partition(": ")
    return f"{kind}: `{where}`" if where else text


def find_all(pattern: Pattern, text: str, limit: int) -> list[str]:
    """All matches from left to right, at most `limit` when it is not negative, without empty ones that abut
    the match before."""
    found: list[str] = []
    at, previous = 0, -1
    while at <= len(text) and (limit < 0 or len(found) < limit):
        match = pattern.search(text, at)
        if match is None:
            break
        start, end = match.span()
        if end > start or start != previous:
            found.append(match.group())
        previous = end
        at = end if end > start else end + 1
    return found
