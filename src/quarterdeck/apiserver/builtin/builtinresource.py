"""A built-in resource version: its shape is in the type table, its rules in a strategy of `catalog`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.apply import FieldManager, TypeModel, builtin_model, resetfields
from quarterdeck.apiserver.document.shape import ShapeError, normalize
from quarterdeck.apiserver.document.typetable import StructType
from quarterdeck.apiserver.resource.resource import Resource, Undecodable, decode_problem
from quarterdeck.apiserver.storage import Entry, encode_value

from .print.builtinprinter import BuiltinPrinter
from .versions import Converter, converter_for


class BuiltinResource(Resource):
    """A built-in kind, stored at the version it is served in (or converted by its strategy)."""

    def __init__(self, *, struct: StructType, converter: Converter | None = None, **facts: Any) -> None:
        super().__init__(**facts)
        self.struct = struct
        self._converter = converter
        self.item_prefix = b"{"

    def decode(self, parsed: Any, *, applied: bool = False) -> tuple[Json, list[str]]:
        try:
            return normalize(parsed, self.struct)
        except ShapeError as error:
            raise Undecodable(self.kind, self.version, str(error), error.converted) from None
        except RecursionError:
            raise status.bad_request("the document is nested too deeply") from None

    def is_settled(self, entry: Entry) -> bool:
        return self._converter is None

    def decode_changed(self, parsed: Json, settled: Json) -> tuple[Json, list[str]]:
        shared = {
            key: value
            for key, value in parsed.items()
            if value is settled.get(key) and key not in ("kind", "apiVersion", "metadata")
        }
        made, unknown = self.decode({key: value for key, value in parsed.items() if key not in shared})
        # In the order of the document, and what Go writes for fields that were not given behind it.
        obj = {
            key: shared[key] if key in shared else made[key] for key in parsed if key in shared or key in made
        }
        return {**obj, **{key: value for key, value in made.items() if key not in obj}}, unknown

    def wrong_kind(self, kind: str, obj: Json) -> status.StatusError:
        return status.bad_request(
            f'{kind} in version "{self.version}" cannot be handled as a {self.kind}: '
            + self.decode_problem(self.api_version, kind)
        )

    def decode_problem(self, api_version: str, kind: str) -> str:
        return decode_problem(self.group, self.kind, api_version, kind)

    def raw_body(self, entry: Entry) -> bytes | None:
        return entry.body if self._converter is None else None

    def raw_bodies(self, entries: Sequence[Entry]) -> list[bytes] | None:
        return [entry.body for entry in entries] if self._converter is None else None

    def read(self, entry: Entry) -> Json:
        stored = entry.document()
        if self._converter is not None:
            stored = self._converter.from_storage(stored)
        return {"kind": self.kind, "apiVersion": self.api_version, **stored}

    def summarized(self, obj: Json) -> Json:
        if self._converter is not None and self._converter.summarizes_stored:
            return self._converter.to_storage(obj)
        return obj

    async def convert_from(self, obj: Json, source: Resource) -> Json:
        # the stored form is common to all versions; only two kinds have more than one
        if isinstance(source, BuiltinResource) and source._converter is not None:
            obj = source._converter.to_storage(obj)
        if self._converter is not None:
            obj = self._converter.from_storage(obj)
        return {**obj, "kind": self.kind, "apiVersion": self.api_version}

    async def to_value(self, obj: Json) -> bytes:
        if self._converter is not None:
            obj = self._converter.to_storage(obj)
        return encode_value(obj)

    @cached_property
    def printer(self) -> BuiltinPrinter:
        return BuiltinPrinter(self.group, self.plural)

    @property
    def model(self) -> TypeModel:
        return builtin_model(self.group, self.version, self.kind)

    @cached_property
    def field_manager(self) -> FieldManager:
        return _field_manager(self)


def _field_manager(resource: BuiltinResource) -> FieldManager:
    kind, plural = resource.kind, resource.plural

    @cache
    def model_for(api_version: str) -> TypeModel | None:
        group, _, version = api_version.rpartition("/")
        if group != resource.group:
            return None
        try:
            return builtin_model(group, version, kind)
        except KeyError:
            return None

    def convert(obj: Json, api_version: str) -> Json:
        group, _, version = obj["apiVersion"].rpartition("/")
        stored = converter_for(group, version, plural)
        hub = stored.to_storage(obj) if stored is not None else obj
        group, _, version = api_version.rpartition("/")
        wanted = converter_for(group, version, plural)
        return {**(wanted.from_storage(hub) if wanted is not None else hub), "apiVersion": api_version}

    has_status = "status" in resource.subresources
    return FieldManager(
        model_for,
        ignored=resetfields.builtin(resource.group, kind, has_status=has_status),
        convert=convert,
        kind=kind,
    )
