"""What a reconcile says about its next run.

``None`` is "done". A ``Result`` asks for more: ``Requeue`` after a time, ``Wait`` until something is seen in
the cache. ``Requeue`` may be raised instead of returned, from any depth, and means the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from quarterdeck.api import Condition, Key, Writable
from quarterdeck.client.representation import AnyKind
from quarterdeck.errors import ForeignObject, ReconcileError

WAIT_TIMEOUT: Final = 300.0


@dataclass(frozen=True)
class Result:
    """When to come back."""

    requeue_after: float | None = None
    """Seconds; ``None`` means only when something changes. An earlier wake-up that is pending stays."""
    priority: int | None = None
    """Priority of the next run; ``None`` keeps the present one."""
    reason: str = ""
    """Why, in a word or two: logged and counted, so keep the set of reasons small."""
    requeue: bool = False
    """Come back after the back-off of a failure, without being one. Prefer ``requeue_after``."""


class Requeue(Result, ReconcileError):
    """Come back after some seconds: ``return Requeue(after=30, reason="waiting-for-pods")``.

    Returned or raised, it is no failure. ``after=0`` and less mean at once.
    """

    def __init__(self, after: float, reason: str = "", *, priority: int | None = None) -> None:
        Result.__init__(self, requeue_after=after, priority=priority, reason=reason)
        ReconcileError.__init__(self, reason or f"requeue after {after:g}s")


@dataclass(frozen=True)
class Until:
    """Something that will be seen in the cache; made by ``until``, ``until_condition``, ``until_gone``."""

    kind: AnyKind
    key: Key
    test: Callable[[Any | None], bool]
    """Called with the object, or ``None`` while it is not there."""


def until(kind: AnyKind, name: str, namespace: str, test: Callable[[Any | None], bool]) -> Until:
    """Until ``test`` accepts the cached object (``None`` while it is absent)."""
    return Until(kind, Key(namespace, name), test)


def until_gone(obj: Writable, kind: AnyKind) -> Until:
    """Until this incarnation of an object is no longer there."""
    uid = obj.metadata.uid
    return until(
        kind,
        obj.metadata.name,
        obj.metadata.namespace,
        lambda seen: seen is None or seen.metadata.uid != uid,
    )


def until_free(taken: ForeignObject, kind: AnyKind) -> Until:
    """Until the object that has the name of one of ours is no longer there, or is another one."""
    return until(
        kind, taken.name, taken.namespace, lambda seen: seen is None or seen.metadata.uid != taken.uid
    )


def until_condition(kind: AnyKind, name: str, namespace: str, type: str, status: str = "True") -> Until:
    """Until a condition of an object has a status."""

    def test(seen: Any | None) -> bool:
        conditions: tuple[Condition, ...] = getattr(getattr(seen, "status", None), "conditions", None) or ()
        return any(c.type == type and c.status == status for c in conditions)

    return until(kind, name, namespace, test)


class Wait(Result):
    """Come back when something is seen in the cache, or after ``timeout`` seconds (default 300).

    The key is parked, no worker is held, and any event that concerns the key wakes it as always.
    """

    def __init__(self, until: Until, *, timeout: float = WAIT_TIMEOUT, reason: str = "") -> None:
        super().__init__(requeue_after=timeout, reason=reason)
        object.__setattr__(self, "until", until)

    until: Until
