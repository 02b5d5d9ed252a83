"""What to create, update and delete, by comparing what should be with what is."""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

from quarterdeck.api import Writable, to_dict
from quarterdeck.runtime.reconcile.application import holds

__all__ = ["ChildDiff", "diff_children"]

T = TypeVar("T")


class ChildDiff(NamedTuple, Generic[T]):
    """The way from what is to what should be."""

    create: list[T]
    """Desired and not there."""
    update: list[tuple[T, T]]
    """There and different, as pairs (desired, actual)."""
    delete: list[T]
    """There and not desired."""
    unchanged: list[T]
    """There as desired (the actual ones)."""


def _name(obj: Any) -> Hashable:
    return obj.metadata.namespace, obj.metadata.name


def _holds(desired: Any, actual: Any) -> bool:
    return holds(to_dict(actual), to_dict(desired))


def diff_children(
    desired: Iterable[T],
    actual: Iterable[T],
    *,
    key: Callable[[T], Hashable] = _name,
    same: Callable[[T, T], bool] = _holds,
) -> ChildDiff[T]:
    """Compare children by ``key`` (namespace and name by default).

    ``same(desired, actual)`` says whether an update is needed; by default the actual object must hold
    every value of the desired one, so that what the server filled in is no difference. Objects that are
    being deleted are neither updated nor deleted again. Raises ``ValueError`` for two desired children
    with one key.
    """
    wanted: dict[Hashable, T] = {}
    for child in desired:
        identity = key(child)
        if identity in wanted:
            raise ValueError(f"two desired children have the key {identity}")
        wanted[identity] = child
    update: list[tuple[T, T]] = []
    delete: list[T] = []
    unchanged: list[T] = []
    for present in actual:
        child_wanted = wanted.pop(key(present), None)
        if isinstance(present, Writable) and present.metadata.is_deleting:
            continue
        if child_wanted is None:
            delete.append(present)
        elif same(child_wanted, present):
            unchanged.append(present)
        else:
            update.append((child_wanted, present))
    return ChildDiff(list(wanted.values()), update, delete, unchanged)
