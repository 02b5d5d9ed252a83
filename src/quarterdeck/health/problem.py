"""What is wrong: findings about single objects, and the problems they are told as."""

from __future__ import annotations

import math
from typing import Final, Literal, TypeAlias

import msgspec

from .field import plural

Severity: TypeAlias = Literal["critical", "warning", "notice"]
SEVERITIES: Final[tuple[Severity, ...]] = ("critical", "warning", "notice")
"""The worst first. Critical: something that should work does not. Warning: it is worse than it should be, or
waits. Notice: worth knowing, and no reason to wake anybody."""


class Subject(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An object that has a problem."""

    kind: str
    namespace: str = ""
    name: str
    detail: str = ""
    """What is so of this object alone: ``7 restarts``."""
    queue: str = ""

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {place}"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong with one object, from a moment on. It depends on the object alone."""

    situation: str
    """The stable name of the situation; ``SITUATIONS`` has it."""
    subject: Subject
    reason: str
    """Why, in words that are the same for every object with the same trouble."""
    since: str = ""
    after: float = 0.0
    """Seconds from then on until it counts: what takes a moment is no problem."""
    until: float = math.inf
    """Seconds from then on until it is over, for what only happened; otherwise as long as it is found."""
    is_dated: bool = True
    """Whether it is known to have begun then; else that is only when the object was made."""
    about: str = ""
    """What the remedy names besides the object."""


class Problem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The same trouble of one or more objects."""

    situation: str
    severity: Severity
    reason: str
    subjects: tuple[Subject, ...]
    since: str
    """When the first of them had it; empty if nobody knows."""
    remedy: str

    @property
    def key(self) -> str:
        """The same as long as it is the same trouble."""
        return f"{self.situation}: {self.reason}"

    @property
    def text(self) -> str:
        """One sentence: who, and what."""
        return f"{self.head}: {self.reason}"

    @property
    def head(self) -> str:
        """The object, or how many there are of which kinds."""
        if len(self.subjects) == 1:
            only = self.subjects[0]
            return f"{only} ({only.detail})" if only.detail else str(only)
        counts: dict[str, int] = {}
        for each in self.subjects:
            counts[each.kind] = counts.get(each.kind, 0) + 1
        return ", ".join(plural(count, kind) for kind, count in counts.items())
