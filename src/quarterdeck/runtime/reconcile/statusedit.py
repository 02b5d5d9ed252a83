"""The status of the object being reconciled: edited freely, written once.

``ctx.status`` is a draft of the status, ``ctx.conditions`` its list of conditions. At the end of the
reconcile, also of one that failed, the difference is written if there is any (``statuswrite``).
``observedGeneration`` is filled in where the status has such a field, and in every condition that is set.
"""

from collections.abc import Callable
from functools import cache
from types import UnionType
from typing import Any, Final, Generic, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from quarterdeck.api import UNSET, Condition, Model, Resource, Time, UnsetType, to_dict
from quarterdeck.api.condition import Conditions, ConditionStatus
from quarterdeck.api.draft import Draft
from quarterdeck.errors import ConfigError

T = TypeVar("T", bound=Resource)


class EditedStatus:
    """What ``ctx.status`` is for ``quarterdeck.mypy_plugin``, which gives it the status's fields."""


class ConditionEdit:
    """``ctx.conditions``: the conditions in ``status.conditions``."""

    __slots__ = ("_conditions", "_generation", "_now")

    def __init__(self, conditions: Conditions, *, now: Time, generation: int) -> None:
        self._conditions: Final = conditions
        self._now: Final = now
        self._generation: Final = generation

    def set(self, type: str, status: ConditionStatus | bool, *, reason: str, message: str = "") -> bool:
        """Set a condition; returns whether anything changed. Raises ``ValueError`` for bad words."""
        return self._conditions.set(
            type,
            status,
            reason=reason,
            message=message,
            now=self._now,
            observed_generation=self._generation or UNSET,
        )

    def remove(self, type: str) -> bool:
        """Remove a condition; returns whether it was there."""
        return self._conditions.remove(type)

    def find(self, type: str) -> Condition | None:
        """The condition as it stands now, or ``None``."""
        return self._conditions.find(type)

    def is_true(self, type: str) -> bool:
        """Whether the condition is there and ``True``."""
        return self._conditions.is_true(type)

    def is_false(self, type: str) -> bool:
        """Whether the condition is there and ``False``."""
        return self._conditions.is_false(type)


class StatusEdit(Generic[T]):
    """Collects the edits of one reconcile."""

    def __init__(self, obj: T, *, now: Callable[[], Time]) -> None:
        """``now`` is asked once, for the first condition."""
        self._obj: Final = obj
        self._now: Final = now
        self._draft: Draft[Any] | None = None
        self._base: Model | None = None
        self._conditions: Conditions | None = None

    @property
    def is_touched(self) -> bool:
        """Whether anybody looked at the status."""
        return self._draft is not None

    @property
    def draft(self) -> Draft[Any]:
        """The status to edit; an empty one if the object has none yet."""
        if self._draft is None:
            status = getattr(self._obj, "status", UNSET)
            self._base = None if isinstance(status, UnsetType) or status is None else status
            self._draft = Draft(self._base if self._base is not None else _status_class(type(self._obj))())
        return self._draft

    @property
    def conditions(self) -> ConditionEdit:
        """The conditions to edit."""
        if self._conditions is None:
            self._time = self._now()
            present = getattr(self.draft, "conditions", ())
            items = [each.done() if isinstance(each, Draft) else each for each in present or ()]
            self._conditions = Conditions(items)
        return ConditionEdit(self._conditions, now=self._time, generation=self._obj.metadata.generation)

    def change(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The status that was read and the edited one, as documents; ``None`` if nobody edited anything."""
        if self._draft is None:
            return None
        draft = self._draft
        if self._conditions is not None:
            draft.conditions = list(self._conditions.frozen())
        fields = cast("Any", _status_class(type(self._obj))).__struct_fields__
        if "observed_generation" in fields and self._obj.metadata.generation:
            draft.observed_generation = self._obj.metadata.generation
        after = draft.done()
        if after is self._base:
            return None
        return to_dict(self._base) if self._base is not None else {}, to_dict(after)


@cache
def _status_class(kind: type[Resource]) -> type[Model]:
    hint = get_type_hints(kind).get("status")
    for part in get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,):
        if isinstance(part, type) and issubclass(part, Model):
            return part
    raise ConfigError(f"{kind.__name__} has no status: ctx.status cannot be used")
