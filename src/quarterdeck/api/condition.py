"""Conditions: the list in ``status.conditions``, edited by the rules of the API conventions.

``Conditions`` wraps the frozen list of an object, takes edits, and gives a frozen list back::

    conditions = Conditions(obj.status.conditions)
    changed = conditions.set("Ready", "True", reason="AllUp", message="3 of 3", now=now,
                             observed_generation=obj.metadata.generation)
    if changed:
        obj = obj.evolve(status=obj.status.evolve(conditions=conditions.frozen()))

The order of the list never changes: new conditions are appended, known ones edited in place. The
transition time moves only when the status does.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal

from quarterdeck.api.instant import Time
from quarterdeck.api.meta import Condition
from quarterdeck.api.model import UNSET, UnsetType

ConditionStatus = Literal["True", "False", "Unknown"]

_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")


def find_condition(conditions: Iterable[Condition], type: str) -> Condition | None:
    """The condition of a type, or ``None``."""
    return next((condition for condition in conditions if condition.type == type), None)


def is_condition_true(conditions: Iterable[Condition], type: str) -> bool:
    """Whether the condition is there and ``True``."""
    found = find_condition(conditions, type)
    return found is not None and found.status == "True"


def is_condition_false(conditions: Iterable[Condition], type: str) -> bool:
    """Whether the condition is there and ``False`` (absent and ``Unknown`` are neither)."""
    found = find_condition(conditions, type)
    return found is not None and found.status == "False"


class Conditions:
    """An editable copy of a list of conditions."""

    __slots__ = ("_items",)

    def __init__(self, conditions: Iterable[Condition] = ()) -> None:
        self._items = list(conditions)

    def set(
        self,
        type: str,
        status: ConditionStatus | bool,
        *,
        reason: str,
        message: str = "",
        now: Time,
        observed_generation: int | UnsetType = UNSET,
    ) -> bool:
        """Set one condition; returns whether anything changed.

        Raises ``ValueError`` for a type, reason or message the API server would refuse.
        """
        text: ConditionStatus = status if isinstance(status, str) else ("True" if status else "False")
        _check(type, text, reason, message)
        for i, known in enumerate(self._items):
            if known.type == type:
                edited = self._edit(known, text, reason, message, now, observed_generation)
                self._items[i] = edited
                return edited != known
        self._items.append(
            Condition(
                type=type,
                status=text,
                reason=reason,
                message=message,
                observed_generation=observed_generation,
                last_transition_time=now,
            )
        )
        return True

    @staticmethod
    def _edit(
        known: Condition,
        status: str,
        reason: str,
        message: str,
        now: Time,
        observed_generation: int | UnsetType,
    ) -> Condition:
        moved = known.status != status or not known.last_transition_time
        return known.evolve(
            status=status,
            reason=reason,
            message=message,
            observed_generation=known.observed_generation
            if isinstance(observed_generation, UnsetType)
            else observed_generation,
            last_transition_time=now if moved else known.last_transition_time,
        )

    def remove(self, type: str) -> bool:
        """Remove a condition; returns whether it was there."""
        before = len(self._items)
        self._items = [condition for condition in self._items if condition.type != type]
        return len(self._items) != before

    def find(self, type: str) -> Condition | None:
        """The condition of a type, or ``None``."""
        return find_condition(self._items, type)

    def is_true(self, type: str) -> bool:
        """Whether the condition is there and ``True``."""
        return is_condition_true(self._items, type)

    def is_false(self, type: str) -> bool:
        """Whether the condition is there and ``False``."""
        return is_condition_false(self._items, type)

    def frozen(self) -> tuple[Condition, ...]:
        """The list to put back into the object."""
        return tuple(self._items)

    def __iter__(self) -> Iterator[Condition]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


def _check(type: str, status: str, reason: str, message: str) -> None:
    if not type or len(type) > 316:
        raise ValueError(f"condition type {type!r} must have 1 to 316 characters")
    if status not in ("True", "False", "Unknown"):
        raise ValueError(f"condition status {status!r} must be True, False or Unknown")
    if len(reason) > 1024 or _REASON.fullmatch(reason) is None:
        raise ValueError(f"condition reason {reason!r} must be a CamelCase word of 1 to 1024 characters")
    if len(message) > 32768:
        raise ValueError("condition message must have at most 32768 characters")
