"""From a change to the keys that should be looked at.

``for_object`` names the object itself, ``for_owner`` its owners of one kind, ``mapped`` whatever a function
says. On an update both states are asked, so that a child that moves to another owner wakes both.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from quarterdeck.api import Key, Resource
from quarterdeck.api.kind import GroupKind, GroupVersion
from quarterdeck.runtime.cache.cache import Cache
from quarterdeck.runtime.cache.entry import Entry
from quarterdeck.runtime.controller.change import ObjectEvent

T = TypeVar("T")
Keys: TypeAlias = Iterable[Key] | Awaitable[Iterable[Key]]


class MapContext:
    """What a map function may use: cached reads of the cluster the change happened in."""

    __slots__ = ("cache", "cluster")

    def __init__(self, cache: Cache, cluster: str = "") -> None:
        self.cache: Final = cache
        self.cluster: Final = cluster


class KeyMapper(Protocol):
    """Names the keys a change concerns."""

    def keys(self, event: ObjectEvent[Any], context: MapContext) -> Keys:
        """Keys to enqueue; may be awaitable. Duplicates are dropped by the caller."""
        ...


MapFunction: TypeAlias = Callable[[MapContext, T], Keys]
"""``fn(context, object) -> keys``, plain or async."""


class _ForObject:
    """The object itself."""

    def keys(self, event: ObjectEvent[Any], context: MapContext) -> Iterable[Key]:
        return (event.key,)

    def __repr__(self) -> str:
        return "for_object"


for_object: Final = _ForObject()


class _ForOwner:
    def __init__(self, owner: GroupKind, *, is_namespaced: bool, only_controller: bool) -> None:
        self._owner: Final = owner
        self._is_namespaced: Final = is_namespaced
        self._only_controller: Final = only_controller

    def keys(self, event: ObjectEvent[Any], context: MapContext) -> Iterable[Key]:
        found: dict[Key, None] = {}
        if event.old is not None:
            self._collect(event.old, event.cluster, found)
        if event.new is not None and (
            event.old is None or event.old.owner_references is not event.new.owner_references
        ):
            self._collect(event.new, event.cluster, found)
        return found

    def _collect(self, entry: Entry, cluster: str, found: dict[Key, None]) -> None:
        for reference in entry.owner_references:
            if reference.kind != self._owner.kind:
                continue
            if GroupVersion.parse(reference.api_version).group != self._owner.group:
                continue
            if self._only_controller and reference.controller is not True:
                continue
            namespace = entry.namespace if self._is_namespaced else ""
            found[Key(namespace, reference.name, cluster)] = None

    def __repr__(self) -> str:
        return f"for_owner({self._owner})"


def for_owner(owner: type[Resource], *, only_controller: bool = True) -> KeyMapper:
    """The owners of one kind, whatever the version in the reference.

    ``only_controller=False`` takes every owner, not just the one that controls the object.
    """
    info = owner.type_info
    return _ForOwner(info.gvk.group_kind, is_namespaced=info.is_namespaced, only_controller=only_controller)


class _Mapped:
    def __init__(self, function: MapFunction[Any]) -> None:
        self._function: Final = function

    def keys(self, event: ObjectEvent[Any], context: MapContext) -> Keys:
        first = self._function(context, event.object)
        if event.old is None or event.new is None or event.old is event.new:
            return first
        return self._both(first, self._function(context, event.old_object))

    def _both(self, first: Keys, second: Keys) -> Keys:
        if not inspect.isawaitable(first) and not inspect.isawaitable(second):
            return [*first, *second]
        return self._both_later(first, second)

    async def _both_later(self, first: Keys, second: Keys) -> Iterable[Key]:
        new = await first if inspect.isawaitable(first) else first
        old = await second if inspect.isawaitable(second) else second
        return [*new, *old]

    def __repr__(self) -> str:
        return f"mapped({getattr(self._function, '__qualname__', self._function)})"


def mapped(function: MapFunction[Any]) -> KeyMapper:
    """The keys a function names; on an update it is asked about both states."""
    return _Mapped(function)
