"""Tables: what kubectl prints of a resource. Built-in kinds and definitions have printers of their own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol

from quarterdeck.api.jsonobject import Json


class Printer(Protocol):
    """Turns objects into rows."""

    @property
    def columns(self) -> list[Json]: ...

    @property
    def decode(self) -> Callable[[bytes], Json]:
        """From an object's text to as much of it as the other methods need."""
        ...

    @property
    def shows_none_as_null(self) -> bool:
        """Whether a table without rows has null for them: upstream's tables of name and creation time do."""
        ...

    def cells(self, obj: Json, now: datetime) -> list[Any]: ...

    def age_cell(self, cells: list[Any]) -> int | None:
        """Which cell is the age, if it is the only one that changes while the object does not."""
        ...

    def conditions(self, obj: Json) -> list[Json]:
        """What marks the row of an object, such as that a pod is finished."""
        ...
