"""What MutatingAdmissionPolicy expressions build: `Object{...}` trees and `JSONPatch{...}` operations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quarterdeck.cel.declaration import Function, Overload
from quarterdeck.cel.error import EvalError
from quarterdeck.cel.type.celtype import DYN, STRING, CelType, Structs, object_type
from quarterdeck.cel.value.value import StructValue, Value, check_extent

JSON_PATCH: Final = object_type("JSONPatch", {"op": STRING, "path": STRING, "from": STRING, "value": DYN})


class MutationTypes(Structs):
    """`Object`, `Object.<field>...` with any fields, and `JSONPatch`."""

    def find(self, name: str) -> CelType | None:
        if name == "JSONPatch":
            return JSON_PATCH
        if name == "Object" or name.startswith("Object."):
            return CelType("struct", name)
        return None

    def field(self, name: str, field: str) -> CelType | None:
        if name == "JSONPatch":
            # Upstream knows every field of a patch, the unknown ones without a type.
            return CelType("struct", "")
        return DYN if name == "Object" or name.startswith("Object.") else None


def _escape_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def functions() -> Iterable[Function]:
    """All functions of the library."""
    yield Function(
        "jsonpatch.escapeKey",
        [Overload("string_jsonpatch_escapeKey_string", [STRING], STRING, _escape_key)],
    )


def plain(value: Value) -> Value:
    """JSON of a constructed value: structs become objects."""
    check_extent(value)
    return _plain(value)


def _plain(value: Value) -> Value:
    if isinstance(value, StructValue):
        return {name: plain(item) for name, item in value.fields.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise EvalError(f'map key "{key}" is not a string')
        return {key: _plain(item) for key, item in value.items()}
    return value


def type_name_problems(value: Value, path: str = "Object") -> list[str]:
    """Objects whose type name is not the path of the field they are assigned to."""
    problems: list[str] = []
    if isinstance(value, StructValue):
        if value.type_name != path:
            problems.append(
                f'unexpected type name "{value.type_name}", expected "{path}", which matches field name '
                "path from "
                "root Object type"
            )
        for name, item in value.fields.items():
            problems += type_name_problems(item, f"{path}.{name}")
    elif isinstance(value, list):
        for item in value:
            problems += type_name_problems(item, path)
    elif isinstance(value, dict):
        for item in value.values():
            problems += type_name_problems(item, path)
    return problems
