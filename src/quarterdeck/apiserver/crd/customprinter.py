"""The tables of custom resources: columns with simple JSONPaths, which the definition declares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.print import printers
from quarterdeck.apiserver.builtin.print.text import age
from quarterdeck.apiserver.document.jsonpath import JsonPath
from quarterdeck.apiserver.document.metadatatext import OBJECT_META
from quarterdeck.wire import gostyle

_NAME: Json = {
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

    shows_none_as_null = False

    def __init__(self, declared: Sequence[Json] | None) -> None:
        columns = declared or [_AGE]
        self.columns: list[Json] = [_NAME]
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
    shown = age(text, now)
    return "<invalid>" if shown == "<unknown>" else shown
