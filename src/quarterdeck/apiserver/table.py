"""Tables: what kubectl prints. Columns and cells per resource.

Built-in kinds have their printers in `builtin.print`; custom resources declare columns with
simple JSONPaths in their CRD.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Protocol

from quarterdeck.wire import gostyle

from .builtin.print import printers
from .discovery.metadatatext import OBJECT_META
from .document.jsonpath import JsonPath

Json = dict[str, Any]


class Printer(Protocol):
    """Turns objects into rows."""

    @property
    def columns(self) -> list[Json]: ...

    @property
    def decode(self) -> Callable[[bytes], Json]:
        """From an object's text to as much of it as the other methods need."""
        ...

    def cells(self, obj: Json, now: datetime) -> list[Any]: ...

    def age_cell(self, cells: list[Any]) -> int | None:
        """Which cell is the age, if it is the only one that changes while the object does not."""
        ...

    def conditions(self, obj: Json) -> list[Json]:
        """What marks the row of an object, such as that a pod is finished."""
        ...


class PrintedResource(Protocol):
    """What a printer is chosen by."""

    @property
    def group(self) -> str: ...

    @property
    def plural(self) -> str: ...

    @property
    def printer(self) -> Printer | None:
        """A printer of its own, if the resource declares one."""
        ...


class BuiltinPrinter:
    def __init__(self, group: str, resource: str) -> None:
        self._group = group
        self._resource = resource
        self.columns = printers.columns(group, resource)
        self.decode = printers.decoder(group, resource)
        self._age = printers.age_column(group, resource)

    def cells(self, obj: Json, now: datetime) -> list[Any]:
        return printers.cells(self._group, self._resource, obj, now)

    def age_cell(self, cells: list[Any]) -> int | None:
        return None if printers.is_moving(self._group, self._resource, cells) else self._age

    def conditions(self, obj: Json) -> list[Json]:
        return printers.row_conditions(self._group, self._resource, obj)


NAME_COLUMN: Json = {
    "name": "Name",
    "type": "string",
    "format": "name",
    "description": "Name must be unique within a namespace.",
    "priority": 0,
}


_AGE: Json = {
    "name": "Age",
    "type": "date",
    "jsonPath": ".metadata.creationTimestamp",
    "description": OBJECT_META["creationTimestamp"],
}


class CustomPrinter:
    """Columns of a CRD version (`additionalPrinterColumns`), or Name and Age when it declares none."""

    def __init__(self, declared: Sequence[Json] | None) -> None:
        columns = declared or [_AGE]
        self.columns: list[Json] = [NAME_COLUMN]
        self.decode = printers.decode_whole
        self._cells: list[Callable[[Json, datetime], Any]] = []
        for column in columns:
            path = column["jsonPath"]
            description = (
                column.get("description") or f"Custom resource definition column (in JSONPath format): {path}"
            )
            self.columns.append(
                {
                    "name": column["name"],
                    "type": column["type"],
                    "format": column.get("format", ""),
                    "description": description,
                    "priority": column.get("priority", 0),
                }
            )
            self._cells.append(_cell(JsonPath(path), column["type"]))
        dates = [place for place, each in enumerate(columns, 1) if each["type"] == "date"]
        is_age = len(dates) == 1 and columns[dates[0] - 1]["jsonPath"] == _AGE["jsonPath"]
        self._age = dates[0] if is_age else None

    def age_cell(self, cells: list[Any]) -> int | None:
        return self._age

    def cells(self, obj: Json, now: datetime) -> list[Any]:
        return [obj["metadata"].get("name", ""), *(cell(obj, now) for cell in self._cells)]

    def conditions(self, obj: Json) -> list[Json]:
        return []


def _cell(path: JsonPath, kind: str) -> Callable[[Json, datetime], Any]:
    def render(obj: Json, now: datetime) -> Any:
        values = path.find(obj)
        if not values:
            return None
        value = values[0]
        if kind == "date":
            return _age(value, now) if isinstance(value, str) else "<unknown>"
        if kind == "integer":
            if isinstance(value, float) and value.is_integer():
                return int(value)
            return value if isinstance(value, int) and not isinstance(value, bool) else None
        if kind == "number":
            return value if isinstance(value, int | float) and not isinstance(value, bool) else None
        if kind == "boolean":
            return value if isinstance(value, bool) else None
        if isinstance(value, str):
            return value
        if value is None:
            return None
        return gostyle.json_text(value) if isinstance(value, dict | list) else gostyle.scalar(value)

    return render


def _age(text: str, now: datetime) -> str:
    """The age of a date; what is no date has no valid one."""
    shown = printers.age(text, now)
    return "<invalid>" if shown == "<unknown>" else shown


_builtin: dict[tuple[str, str], BuiltinPrinter] = {}


def printer_for(resource: PrintedResource) -> Printer:
    if resource.printer is not None:
        return resource.printer
    key = (resource.group, resource.plural)
    if key not in _builtin:
        _builtin[key] = BuiltinPrinter(*key)
    return _builtin[key]
