"""The tables of built-in kinds, as objects that the registry asks; what they show is in `printers`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from quarterdeck.api.jsonobject import Json

from . import printers


class BuiltinPrinter:
    def __init__(self, group: str, resource: str) -> None:
        self._group = group
        self._resource = resource
        self.columns = printers.columns(group, resource)
        self.decode = printers.decoder(group, resource)
        self.shows_none_as_null = self.columns[-1]["name"] == "Created At"
        self._age = printers.age_column(group, resource)

    def cells(self, obj: Json, now: datetime) -> list[Any]:
        return printers.cells(self._group, self._resource, obj, now)

    def age_cell(self, cells: list[Any]) -> int | None:
        return None if printers.is_moving(self._group, self._resource, cells) else self._age

    def conditions(self, obj: Json) -> list[Json]:
        return printers.row_conditions(self._group, self._resource, obj)
