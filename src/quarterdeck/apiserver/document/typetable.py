"""The shape of every built-in Kubernetes type: fields, list and map types, merge keys, protobuf numbers.

Everything that works on built-in objects generically (decoding, field validation, strategic merge patch,
server-side apply, protobuf, OpenAPI) asks here. The facts come from ``data/types.json``, which
``tools/k8s/typetable.py`` generates from the Go sources and describes; this module holds no rules of single
kinds. A type is parsed when it is first asked for, once, so an idle server pays for none.

    pod = struct_for("", "v1", "Pod")
    pod.fields["spec"].type.struct.fields["containers"].list_map_keys   # ("name",)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec

Kind: TypeAlias = Literal[
    "string",
    "int32",
    "int64",
    "bool",
    "double",
    "bytes",
    "time",
    "microTime",
    "quantity",
    "intOrString",
    "rawExtension",
    "fieldsV1",
    "json",
    "strings",
    "schemaOrArray",
    "schemaOrBool",
    "schemaOrStrings",
    "list",
    "map",
    "struct",
]

OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_APIEXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
# These are registered in every group version, custom ones included.
_EVERYWHERE: Final = frozenset(
    [
        "DeleteOptions",
        "CreateOptions",
        "UpdateOptions",
        "PatchOptions",
        "GetOptions",
        "ListOptions",
        "WatchEvent",
    ]
)
_OMITEMPTY, _POINTER, _OMITZERO, _REQUIRED = 1, 2, 4, 8


class Type(msgspec.Struct, frozen=True):
    """The type of a field, a list item or a map value."""

    kind: Kind
    #: the model name of a struct, else empty
    name: str = ""
    #: the item type of a list or the value type of a map
    elem: Type | None = None

    @property
    def struct(self) -> StructType:
        """The struct a type of kind "struct" names."""
        return struct(self.name)


class Field(msgspec.Struct, frozen=True):
    """One JSON field of a struct."""

    #: the JSON name
    name: str
    type: Type
    #: protobuf field numbers, more than one where Go embeds a struct; empty: not encoded
    path: tuple[int, ...]
    omitempty: bool
    #: a pointer in Go: absent and zero differ
    pointer: bool
    omitzero: bool
    #: required in OpenAPI
    required: bool
    #: "atomic", "set", "map", or None where undeclared (server-side apply then takes it as atomic)
    list_type: str | None
    list_map_keys: tuple[str, ...]
    #: "atomic", "granular" or None; for maps and for structs used as one value in this place
    map_type: str | None
    #: of strategic merge patch: "merge", "replace", "retainKeys"
    patch_strategies: tuple[str, ...]
    patch_merge_key: str | None
    #: the OpenAPI default; msgspec.UNSET without one (null is not a default that occurs)
    default: Any
    #: the allowed values as OpenAPI lists them, of the items for a list; empty: anything
    enum: tuple[str, ...]
    #: as Go's decoder prints it: ``cannot unmarshal ... of type <go_type>``
    go_type: str


#: protobuf number -> field, or the numbers inside a flattened message
Proto: TypeAlias = Mapping[int, "Field | Proto"]


class StructType:
    """A struct with its fields in Go's order, embedded structs flattened."""

    __slots__ = ("__dict__", "fields", "is_atomic", "name", "unions")

    def __init__(
        self, name: str, fields: Mapping[str, Field], is_atomic: bool, unions: tuple[Mapping[str, Any], ...]
    ) -> None:
        self.name: Final = name
        self.fields: Final = fields
        #: one value for server-side apply, unless the ``map_type`` of the field says "granular"
        self.is_atomic: Final = is_atomic
        #: OpenAPI's x-kubernetes-unions, which nothing else uses
        self.unions: Final = unions

    def __repr__(self) -> str:
        return f"<StructType {self.name}>"

    @property
    def go_name(self) -> str:
        """The bare Go name, as decode errors print it."""
        return self.name.rpartition(".")[2]

    @cached_property
    def proto(self) -> Proto:
        """Fields by protobuf number."""
        numbers: dict[int, Any] = {}
        for field in self.fields.values():
            level = numbers
            for number in field.path[:-1]:
                level = level.setdefault(number, {})
            if field.path:
                level[field.path[-1]] = field
        return numbers


def struct(name: str) -> StructType:
    """The struct with an OpenAPI model name; KeyError if there is none."""
    return _struct(name)


def struct_for(group: str, version: str, kind: str) -> StructType:
    """The struct of a kind; KeyError for a kind that is not built in."""
    kinds = _table().kinds.get(f"{group}/{version}" if group else version, {})
    if kind in kinds:
        return _struct(kinds[kind])
    if kind in _EVERYWHERE:
        return _struct(_META + kind)
    raise KeyError((group, version, kind))


def names() -> tuple[str, ...]:
    """The model names of all structs."""
    return tuple(_table().types)


def openapi(name: str, group: str, version: str) -> dict[str, Any]:
    """The OpenAPI v3 schema of a model, as the real server publishes it but without descriptions.

    group and version are those of the document: types that exist in every group version name it in
    ``x-kubernetes-group-version-kind``. The models a schema refers to are for the caller to add.
    """
    if name in _LEAF_SCHEMAS:
        return dict(_LEAF_SCHEMAS[name])
    known = _struct(name)
    required = [field.name for field in known.fields.values() if field.required]
    schema: dict[str, Any] = {"type": "object"}
    if required:
        schema["required"] = required
    if known.fields:
        schema["properties"] = {key: _property(known.fields[key]) for key in sorted(known.fields)}
    if known.is_atomic:
        schema["x-kubernetes-map-type"] = "atomic"
    if known.unions:
        schema["x-kubernetes-unions"] = list(known.unions)
    if kinds := _kinds(known, group, version):
        schema["x-kubernetes-group-version-kind"] = kinds
    return schema


def _kinds(known: StructType, group: str, version: str) -> list[dict[str, str]]:
    if known.go_name in _EVERYWHERE and known.name.startswith(_META):
        places = [("", "v1"), (group, version)] if (group, version) != ("", "v1") else [("", "v1")]
    else:
        places = _places().get(known.name, [])
    return [{"group": g, "kind": known.go_name, "version": v} for g, v in places]


class _Row(msgspec.Struct, frozen=True):
    fields: list[list[Any]]
    atomic: bool = False
    unions: tuple[dict[str, Any], ...] = ()


class _Table(msgspec.Struct, frozen=True):
    kinds: dict[str, dict[str, str]]
    # Kept as bytes until asked for.
    types: dict[str, msgspec.Raw]


@cache
def _table() -> _Table:
    data = (Path(__file__).parent.parent / "data" / "types.json").read_bytes()
    return msgspec.json.decode(data, type=_Table)


@cache
def _places() -> dict[str, list[tuple[str, str]]]:
    """The group versions each model is registered in."""
    result: dict[str, list[tuple[str, str]]] = {}
    for api_version, kinds in _table().kinds.items():
        group, _, version = api_version.rpartition("/")
        for name in kinds.values():
            result.setdefault(name, []).append((group, version))
    return result


@cache
def _struct(name: str) -> StructType:
    row = msgspec.json.decode(_table().types[name], type=_Row)
    fields = {each[0]: _field(*each) for each in row.fields}
    return StructType(name, MappingProxyType(fields), row.atomic, row.unions)


def _field(
    name: str, kind: str, number: int | list[int], flags: int, extra: dict[str, Any] | None = None
) -> Field:
    extra = extra or {}
    type_ = _type(kind)
    path = (number,) if isinstance(number, int) else tuple(number)
    pointer = bool(flags & _POINTER)
    strategies = extra.get("patch")
    return Field(
        name=name,
        type=type_,
        path=() if path == (0,) else path,
        omitempty=bool(flags & _OMITEMPTY),
        pointer=pointer,
        omitzero=bool(flags & _OMITZERO),
        required=bool(flags & _REQUIRED),
        list_type=extra.get("list"),
        list_map_keys=tuple(extra.get("keys", ())),
        map_type=extra.get("map") or extra.get("struct"),
        patch_strategies=tuple(strategies.split(",")) if strategies else (),
        patch_merge_key=extra.get("key"),
        default=extra["default"] if "default" in extra else _implied_default(type_, flags),
        enum=tuple(extra.get("enum", ())),
        go_type=extra.get("go") or _go_type(type_),
    )


@cache
def _type(text: str) -> Type:
    if text.startswith("[]"):
        return Type("list", elem=_type(text[2:]))
    if text.startswith("{}"):
        return Type("map", elem=_type(text[2:]))
    if "." in text:
        return Type("struct", text)
    return Type(cast(Kind, text))


_ZERO: Final = {"string": "", "int32": 0, "int64": 0, "bool": False, "double": 0}


def _implied_default(type_: Type, flags: int) -> Any:
    """What OpenAPI says about a field that cannot be absent in Go: its zero value is its default."""
    if flags & _POINTER:
        return msgspec.UNSET
    if type_.kind == "struct":
        return {}
    if flags & _OMITEMPTY:
        return msgspec.UNSET
    return _ZERO.get(type_.kind, msgspec.UNSET)


_GO_LEAVES: Final = {
    "bytes": "[]uint8",
    "double": "float64",
    "time": "v1.Time",
    "microTime": "v1.MicroTime",
    "quantity": "resource.Quantity",
    "intOrString": "intstr.IntOrString",
    "rawExtension": "runtime.RawExtension",
    "fieldsV1": "v1.FieldsV1",
    "json": "v1.JSON",
    "strings": "v1.ExtraValue",
    "schemaOrArray": "v1.JSONSchemaPropsOrArray",
    "schemaOrBool": "v1.JSONSchemaPropsOrBool",
    "schemaOrStrings": "v1.JSONSchemaPropsOrStringArray",
}


def _go_type(type_: Type) -> str:
    if type_.elem is not None:
        return ("[]" if type_.kind == "list" else "map[string]") + _go_type(type_.elem)
    if type_.kind == "struct":
        return ".".join(type_.name.rsplit(".", 2)[1:])
    return _GO_LEAVES.get(type_.kind, type_.kind)


_INLINE_SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    "string": {"type": "string"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "bool": {"type": "boolean"},
    "double": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
    "strings": {"type": "array", "items": {"type": "string", "default": ""}},
}
_LEAF_MODELS: Final = {
    "time": _META + "Time",
    "microTime": _META + "MicroTime",
    "fieldsV1": _META + "FieldsV1",
    "quantity": "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "intOrString": "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    "rawExtension": "io.k8s.apimachinery.pkg.runtime.RawExtension",
    "json": _APIEXTENSIONS + "JSON",
    "schemaOrArray": _APIEXTENSIONS + "JSONSchemaPropsOrArray",
    "schemaOrBool": _APIEXTENSIONS + "JSONSchemaPropsOrBool",
    "schemaOrStrings": _APIEXTENSIONS + "JSONSchemaPropsOrStringArray",
}
_LEAF_SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    _LEAF_MODELS["time"]: {"type": "string", "format": "date-time"},
    _LEAF_MODELS["microTime"]: {"type": "string", "format": "date-time"},
    _LEAF_MODELS["fieldsV1"]: {"type": "object"},
    _LEAF_MODELS["quantity"]: {"oneOf": [{"type": "string"}, {"type": "number"}]},
    _LEAF_MODELS["intOrString"]: {
        "format": "int-or-string",
        "oneOf": [{"type": "integer"}, {"type": "string"}],
    },
    _LEAF_MODELS["rawExtension"]: {"type": "object"},
    _LEAF_MODELS["json"]: {},
    _LEAF_MODELS["schemaOrArray"]: {},
    _LEAF_MODELS["schemaOrBool"]: {},
    _LEAF_MODELS["schemaOrStrings"]: {},
}


def _property(field: Field) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    if field.default is not msgspec.UNSET:
        schema["default"] = field.default
    if field.list_map_keys:
        schema["x-kubernetes-list-map-keys"] = list(field.list_map_keys)
    if field.list_type:
        schema["x-kubernetes-list-type"] = field.list_type
    if field.map_type:
        schema["x-kubernetes-map-type"] = field.map_type
    if field.patch_merge_key:
        schema["x-kubernetes-patch-merge-key"] = field.patch_merge_key
    if field.patch_strategies:
        schema["x-kubernetes-patch-strategy"] = ",".join(field.patch_strategies)
    return _beside(_value_schema(field.type, field.enum), schema)


def _value_schema(type_: Type, enum: tuple[str, ...]) -> dict[str, Any]:
    if type_.elem is not None:
        inner = _value_schema(type_.elem, enum)
        # Items and values are never absent, so their zero values show as defaults.
        default = _implied_default(type_.elem, 0)
        inner = _beside(inner, {} if default is msgspec.UNSET else {"default": default})
        if type_.kind == "list":
            return {"type": "array", "items": inner}
        return {"type": "object", "additionalProperties": inner}
    model = type_.name or _LEAF_MODELS.get(type_.kind)
    if model:
        return {"$ref": f"#/components/schemas/{model}"}
    schema = dict(_INLINE_SCHEMAS[type_.kind])
    if enum:
        schema["enum"] = list(enum)
    return schema


def _beside(schema: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Both together; a reference allows nothing beside it, so it moves one level down."""
    if more and "$ref" in schema:
        return {"allOf": [schema], **more}
    return {**schema, **more}
