"""What must hold in a cluster, said as functions of its objects.

An ``Invariant`` names the kinds it looks at and finds what breaks it. It reads nothing by itself: a checker
brings the objects, and any list of them will do, from a server, a cache or a test.

Lists of several kinds are read one after the other, so what holds only between objects of the same moment
may look broken while things move. Such an invariant is one ``at_rest``: a checker looks again before it
reports anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from .resource import Resource

R = TypeVar("R", bound=Resource)


class Broken(msgspec.Struct, frozen=True, order=True):
    """One object that breaks an invariant."""

    invariant: str
    object: str
    """Kind, namespace and name: ``Subnet default/a``."""
    problem: str
    remedy: str
    """What to do about it."""


class Objects:
    """Objects of a cluster by kind; none of a kind that is not installed."""

    def __init__(self, by_kind: Mapping[type[Resource], Sequence[Resource]]) -> None:
        self._by_kind: Final = by_kind

    def of(self, kind: type[R]) -> list[R]:
        """All objects of a kind that are not being deleted."""
        return [each for each in self._all(kind) if not each.metadata.is_deleting]

    def every(self, kind: type[R]) -> list[R]:
        """All objects of a kind, also those that are being deleted: they hold what they have to the end."""
        return self.of(kind) + [each for each in self._all(kind) if each.metadata.is_deleting]

    def _all(self, kind: type[R]) -> Sequence[Any]:
        return self._by_kind.get(kind, ())


class Invariant(msgspec.Struct, frozen=True):
    """Something that holds."""

    name: str
    """Owner and a few words: ``ipam/no-overlap``."""
    says: str
    """What always holds, in one sentence."""
    kinds: tuple[type[Resource], ...]
    find: Callable[[Objects], Iterable[tuple[Resource, str, str]]]
    """What breaks it: the object, the problem, and what to do."""
    at_rest: bool = False
    """Whether it may be broken for a moment while controllers work."""

    def broken(self, objects: Objects) -> list[Broken]:
        """Everything that breaks it, in order."""
        return sorted(
            Broken(self.name, _text(obj), problem, remedy) for obj, problem, remedy in self.find(objects)
        )


def _text(obj: Resource) -> str:
    space = f"{obj.metadata.namespace}/" if obj.metadata.namespace else ""
    return f"{type(obj).type_info.gvk.kind} {space}{obj.metadata.name}"
