"""Whose an object is: those a set controls and selects, orphans it adopts, and those it lets go.

A set never takes what another controller has, and adopts nothing while it is being deleted: it would take it
along.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from quarterdeck.api import Resource, Selector, controller_of, owner_reference, to_dict
from quarterdeck.client import StrategicMergePatch
from quarterdeck.errors import Invalid, NotFound, ignore_not_found
from quarterdeck.runtime.cache import Cache, Entry, Index, IndexQuery, controlled_by
from quarterdeck.runtime.reconcile.context import Context

O = TypeVar("O", bound=Resource)  # noqa: E741  the owner


def _is_uncontrolled(entry: Entry) -> Iterable[str]:
    return () if controller_of(entry.owner_references) is not None else ("yes",)


uncontrolled: Final[Index[Any]] = Index("uncontrolled", of_entry=_is_uncontrolled)
"""Objects that nobody controls."""


def controlled(cache: Cache, kind: type[Resource], owner: Resource) -> tuple[Entry, ...]:
    """The objects of a kind that ``owner`` controls."""
    return _entries(cache, kind, controlled_by(owner))


class Selecting:
    """A selector for many objects at one moment: those that share their labels are looked at once."""

    def __init__(self, selector: Selector) -> None:
        self._selector: Final = selector
        self._known: dict[int, bool] = {}

    def __call__(self, entry: Entry) -> bool:
        """Whether it selects an object, which must be kept as long as this is."""
        labels = entry.labels
        found = self._known.get(id(labels))
        if found is None:
            found = self._known[id(labels)] = self._selector.matches(labels)
        return found


async def claim(
    ctx: Context[O],
    kind: type[Resource],
    selector: Selector,
    *,
    considers: Callable[[Entry], bool] = lambda _: True,
    fits: Callable[[Entry], bool] = lambda _: True,
) -> list[Entry]:
    """The objects of the reconciled owner; needs the indexes ``controller_uid`` and ``uncontrolled``.

    Objects that it does not consider are neither claimed nor let go; ``fits`` is as good as the selector.
    """
    owner = ctx.obj
    is_going = owner.metadata.is_deleting
    mine: list[Entry] = []
    selects = Selecting(selector)
    for entry in controlled(ctx.cache, kind, owner):
        if not considers(entry):
            continue
        if selects(entry) and fits(entry):
            mine.append(entry)
        elif not is_going:
            await _release(ctx, kind, entry)
    if is_going:
        return mine
    orphans = [
        entry
        for entry in _entries(ctx.cache, kind, uncontrolled("yes", owner.metadata.namespace))
        if not entry.is_deleting and selector.matches(entry.labels) and fits(entry) and considers(entry)
    ]
    if orphans and await _may_adopt(ctx):
        for entry in orphans:
            if await _adopt(ctx, kind, entry):
                mine.append(entry)
    return mine


def _entries(cache: Cache, kind: type[Resource], query: IndexQuery[Any]) -> tuple[Entry, ...]:
    table = cache.informer(kind).table(query.index)
    assert table is not None
    return table.get(query.value, query.namespace)


async def _may_adopt(ctx: Context[O]) -> bool:
    """The cache may be behind: an owner that is being deleted must not adopt."""
    with ignore_not_found():
        live = await ctx.get(type(ctx.obj), ctx.key.name, ctx.key.namespace, live=True)
        return live.metadata.uid == ctx.obj.metadata.uid and not live.metadata.is_deleting
    return False


async def _adopt(ctx: Context[O], kind: type[Resource], entry: Entry) -> bool:
    reference = to_dict(owner_reference(ctx.obj, controller=True))
    patch = {"metadata": {"uid": entry.uid, "ownerReferences": [reference]}}
    try:
        await ctx.patch(kind.from_bytes(entry.raw), StrategicMergePatch(patch))
    except NotFound:
        return False
    return True


async def _release(ctx: Context[O], kind: type[Resource], entry: Entry) -> None:
    reference = {"$patch": "delete", "uid": ctx.obj.metadata.uid}
    patch = {"metadata": {"uid": entry.uid, "ownerReferences": [reference]}}
    try:
        await ctx.patch(kind.from_bytes(entry.raw), StrategicMergePatch(patch))
    except (NotFound, Invalid):
        return  # it is gone, or another one of the same name
