"""Type models of kinds: built-in ones from the table of built-in types, custom ones from their schema."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.document import typetable

from .typed import (
    ABSENT,
    BOOLEAN,
    DEDUCED,
    NUMERIC,
    STRING,
    UNTYPED,
    UNTYPED_SCALAR,
    AnyType,
    ListType,
    MapType,
    Type,
    TypeModel,
    any_type,
    plain_map,
    schema_model,
)

_ANYTHING: Final[AnyType] = any_type(ListType("atomic", UNTYPED), plain_map(DEDUCED))
_LEAVES: Final[dict[str, Type]] = {
    "string": STRING,
    "bytes": STRING,
    "int32": NUMERIC,
    "int64": NUMERIC,
    "double": NUMERIC,
    "bool": BOOLEAN,
    "time": UNTYPED_SCALAR,
    "microTime": UNTYPED_SCALAR,
    "quantity": UNTYPED_SCALAR,
    "intOrString": _ANYTHING,
    "json": _ANYTHING,
    "schemaOrArray": _ANYTHING,
    "schemaOrBool": _ANYTHING,
    "schemaOrStrings": _ANYTHING,
    "rawExtension": UNTYPED,
    "fieldsV1": plain_map(DEDUCED),
    "strings": ListType("atomic", STRING),
}
#: what Go prints for the zero value of a field that it never leaves out
_ZERO: Final[dict[str, Any]] = {
    "string": "",
    "int32": 0,
    "int64": 0,
    "double": 0,
    "bool": False,
    "quantity": "0",
    "intOrString": 0,
}
#: structs in Go, on which omitempty has no effect
_NEVER_EMPTY: Final = frozenset(["time", "microTime", "quantity", "intOrString", "rawExtension", "json"])
#: groups with kinds that hold values without a declared type
_LOOSE_GROUPS: Final = frozenset(["apiextensions.k8s.io", "resource.k8s.io"])
_LOOSE_KINDS: Final = frozenset([("apps", "ControllerRevision")])


@cache
def builtin_model(group: str, version: str, kind: str) -> TypeModel:
    """The model of a built-in kind; KeyError if there is none."""
    struct = typetable.struct_for(group, version, kind)
    return TypeModel(
        _struct(struct.name),
        zero=_zero_struct(struct),
        is_loose=group in _LOOSE_GROUPS or (group, kind) in _LOOSE_KINDS,
        drops_null=True,
    )


def custom_model(schema: Mapping[str, Any]) -> TypeModel:
    """The model of a custom resource, from the openAPIV3Schema of one version."""
    return schema_model(schema, object_meta())


def object_meta() -> MapType:
    """The type of metadata in every kind."""
    return _struct(typetable.OBJECT_META)


@cache
def _struct(name: str) -> MapType:
    struct = typetable.struct(name)
    return MapType(
        struct.fields,
        _field_type,
        # A struct without fields may hold anything.
        element=None if struct.fields else DEDUCED,
        is_atomic=struct.is_atomic,
        default_of=_default,
    )


def _field_type(field: typetable.Field) -> Type:
    kind = field.type.kind
    if kind == "list":
        return _list(field)
    if kind == "map":
        assert field.type.elem is not None
        return plain_map(_type(field.type.elem), is_atomic=field.map_type == "atomic")
    if kind == "struct":
        made = _struct(field.type.name)
        return made if field.map_type is None else made.with_atomic(field.map_type == "atomic")
    return _LEAVES[kind]


def _list(field: typetable.Field) -> ListType:
    assert field.type.elem is not None
    element = _type(field.type.elem)
    if field.list_type == "map":
        return ListType("map", element, field.list_map_keys)
    if field.list_type is None and "merge" in field.patch_strategies:
        keys = (field.patch_merge_key,) if field.patch_merge_key else ()
        return ListType("map" if keys else "set", element, keys)
    return ListType("set" if field.list_type == "set" else "atomic", element)


def _type(type_: typetable.Type) -> Type:
    if type_.kind == "struct":
        return _struct(type_.name)
    if type_.elem is not None:
        inner = _type(type_.elem)
        return ListType("atomic", inner) if type_.kind == "list" else plain_map(inner)
    return _LEAVES[type_.kind]


def _default(field: typetable.Field) -> Any:
    return ABSENT if field.default is msgspec.UNSET or field.default is None else field.default


def _zero_struct(struct: typetable.StructType) -> Json:
    zero: Json = {}
    for field in struct.fields.values():
        is_struct = field.type.kind == "struct" and not field.pointer
        if is_struct and not field.omitzero:
            zero[field.name] = _zero_struct(field.type.struct)
        elif not field.omitzero and (
            not field.omitempty or (field.type.kind in _NEVER_EMPTY and not field.pointer)
        ):
            zero[field.name] = None if field.pointer else _ZERO.get(field.type.kind)
    return zero
