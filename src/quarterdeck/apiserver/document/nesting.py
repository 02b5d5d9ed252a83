"""How deep a document may nest.

Go's decoder, and so the real server, follows 10,000 levels. Here every level costs stack: Python counts its
own frames against the recursion limit, and what the C parts (decoder, encoder, YAML) recurse through lies
on the thread's stack. `make_room` gives a process of ours both. A program that embeds the server keeps its
own limits: there, what nests deeper than those allow is refused, too.
"""

from __future__ import annotations

import re
import resource
import sys
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

MAX_DEPTH: Final = 10_000
#: where nobody made room
SMALL_DEPTH: Final = 1_000
# A level takes up to a handful of frames and, measured, less than half a kilobyte of C stack.
_FRAMES: Final = 10 * MAX_DEPTH
_STACK: Final = 64 * 1024 * 1024

# Possessive: a string that does not end is looked at once, and not again from each quote inside it.
_STRINGS: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_WHOLE_STRINGS: Final = re.compile(rb'(?:[^"]|"(?:[^"\\]|\\.)*+")*+', re.DOTALL)
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in _STEPS)


def make_room() -> None:
    """Let this process follow documents of any depth upstream takes; to be called in the main thread.

    Does nothing where the system does not grant the stack.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    if soft != resource.RLIM_INFINITY and soft < _STACK:
        if hard != resource.RLIM_INFINITY and hard < _STACK:
            return
        resource.setrlimit(resource.RLIMIT_STACK, (_STACK, hard))
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _FRAMES))


def depth_limit() -> int:
    """How many levels a document may have in this process."""
    return MAX_DEPTH if sys.getrecursionlimit() >= _FRAMES else SMALL_DEPTH


def too_deep(text: bytes, limit: int) -> str:
    """The bracket of a JSON-like text that goes beyond `limit` levels; empty if none does."""
    if len(text) < limit or text.count(b"{") + text.count(b"[") <= limit:
        return ""
    end = _end_of_strings(text)
    brackets = (_STRINGS.sub(b"", text[:end]) + text[end:]).translate(None, _NO_BRACKETS)
    if max(_depths(brackets), default=0) <= limit:
        return ""
    return next(
        chr(bracket) for bracket, depth in zip(brackets, _depths(brackets), strict=True) if depth > limit
    )


def _end_of_strings(text: bytes) -> int:
    """Where a string begins that does not end."""
    found = _WHOLE_STRINGS.match(text)
    assert found is not None  # it matches nothing, too
    return found.end()


def _depths(brackets: bytes) -> Iterator[int]:
    return accumulate(map(_STEPS.__getitem__, brackets))
