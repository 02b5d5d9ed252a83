"""CEL types out of OpenAPI structural schemas.

`Shape` describes how data of a schema node looks to expressions: visible fields under their escaped names,
the largest number of elements (for cost), the smallest JSON size, and how JSON becomes a CEL value. Data
whose JSON form already is its CEL form is used as it is (`convert` is None).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from quarterdeck.cel.error import EvalError
from quarterdeck.cel.type.celtype import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    CelType,
)
from quarterdeck.cel.value import gotime
from quarterdeck.cel.value.value import Duration, MapList, SetList, Timestamp, Value

Schema: TypeAlias = Mapping[str, Any]
Convert: TypeAlias = Callable[[Any], Value]

MAX_REQUEST_BYTES: Final = 3 * 1024 * 1024
_DURATION_SIZE: Final = 32
_DATE_SIZE: Final = 12
_DATE_TIME_SIZE: Final = 32

# Words an identifier cannot be.
KEYWORDS: Final = frozenset(
    {
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    }
)
_SPECIAL: Final = re.compile(r"__|[-./]|[^a-zA-Z0-9\-./_]")
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


def escape_name(name: str) -> str | None:
    """Identifier under which a property is selected; None when there is none."""
    if not name or "0" <= name[0] <= "9":
        return None
    if name in KEYWORDS:
        return f"__{name}__"
    ok = True

    def replace(match: re.Match[str]) -> str:
        nonlocal ok
        text = _ESCAPES.get(match.group())
        if text is None:
            ok = False
            return ""
        return text

    escaped = _SPECIAL.sub(replace, name)
    return escaped if ok else None


class Shape:
    """How data of one schema node appears in CEL."""

    __slots__ = (
        "cel_type",
        "convert",
        "element",
        "fields",
        "key",
        "list_keys",
        "list_type",
        "max_elements",
        "min_size",
        "names",
        "nullable",
    )

    def __init__(self, cel_type: CelType, *, max_elements: int = 0, min_size: int = 1) -> None:
        self.cel_type = cel_type
        self.max_elements = max_elements
        self.min_size = min_size
        # objects: escaped name -> shape, escaped name -> property name
        self.fields: dict[str, Shape] | None = None
        self.names: dict[str, str] = {}
        # lists and maps
        self.element: Shape | None = None
        self.key: Shape | None = None
        self.list_type = ""
        self.list_keys: tuple[str, ...] = ()
        self.nullable = False
        self.convert: Convert | None = None

    def field(self, name: str) -> tuple[str, Shape] | None:
        """Property and shape of a field by its name in expressions; keywords also work unescaped."""
        if self.fields is None:
            return None
        shape = self.fields.get(name)
        if shape is None:
            name = f"__{name}__"
            shape = self.fields.get(name)
        return None if shape is None else (self.names[name], shape)


def type_from_schema(schema: Schema, *, is_resource_root: bool = False, name: str = "selfType") -> CelType:
    """CEL type of a structural schema (JSON as in a CRD), DYN when it is not visible to expressions.

    Object types are called `name` and, below it, `name.<field>`, as types compare by name.
    """
    shape = build_shape(schema, is_resource_root=is_resource_root, name=name)
    return DYN if shape is None else shape.cel_type


def build_shape(schema: Schema, *, is_resource_root: bool = False, name: str = "selfType") -> Shape | None:
    """Shape of a structural schema, None when expressions cannot see it."""
    shape = _Builder().build(schema, is_resource_root, name)
    if shape is not None:
        shape.cel_type = _with_shape(shape)
    return shape


def with_type_and_metadata(schema: Schema) -> Schema:
    """The schema of a resource root with what is always visible there."""
    properties = schema.get("properties") or {}
    metadata = properties.get("metadata") or {}
    inner = metadata.get("properties") or {}
    if (
        (properties.get("kind") or {}).get("type") == "string"
        and (properties.get("apiVersion") or {}).get("type") == "string"
        and metadata.get("type") == "object"
        and (inner.get("name") or {}).get("type") == "string"
        and (inner.get("generateName") or {}).get("type") == "string"
    ):
        return schema
    text = {"type": "string"}
    meta = {"type": "object", "properties": {"name": text, "generateName": text}}
    return {**schema, "properties": {**properties, "kind": text, "apiVersion": text, "metadata": meta}}


def _with_shape(shape: Shape) -> CelType:
    t = shape.cel_type
    return CelType(t.kind, t.name, t.params, fields=t.fields, shape=shape)


class _Builder:
    def build(self, schema: Schema, is_root: bool, name: str) -> Shape | None:
        shape = self._build(schema, is_root, name)
        if shape is not None:
            shape.nullable = bool(schema.get("nullable"))
            shape.cel_type = _with_shape(shape)
        return shape

    def _build(self, schema: Schema, is_root: bool, name: str) -> Shape | None:
        if schema.get("x-kubernetes-int-or-string"):
            limit = schema.get("maxLength")
            return Shape(DYN, max_elements=_string_limit(limit, MAX_REQUEST_BYTES - 2), min_size=1)
        if is_root:
            schema = with_type_and_metadata(schema)
        kind = schema.get("type")
        if kind == "array":
            return self._list(schema, name)
        if kind == "object":
            values = schema.get("additionalProperties")
            if isinstance(values, Mapping):
                return self._map(schema, values, name)
            return self._object(schema, name)
        if kind == "string":
            return self._string(schema)
        if kind == "boolean":
            return Shape(BOOL, min_size=4)
        if kind == "number":
            shape = Shape(DOUBLE, min_size=1)
            shape.convert = _to_double
            return shape
        if kind == "integer":
            return Shape(INT, min_size=1)
        return None

    def _list(self, schema: Schema, name: str) -> Shape | None:
        items = schema.get("items")
        if not isinstance(items, Mapping):
            return None
        element = self.build(items, bool(items.get("x-kubernetes-embedded-resource")), f"{name}.@idx")
        if element is None:
            return None
        limit = schema.get("maxItems")
        most = (MAX_REQUEST_BYTES - 2) // (element.min_size + 1) if limit is None else max(limit, 0)
        shape = Shape(CelType("list", "list", (element.cel_type,)), max_elements=most, min_size=2)
        shape.element = element
        shape.list_type = schema.get("x-kubernetes-list-type") or ""
        if shape.list_type == "map":
            shape.list_keys = tuple(
                escape_name(key) or key for key in schema.get("x-kubernetes-list-map-keys") or ()
            )
        shape.convert = _list_convert(shape)
        return shape

    def _map(self, schema: Schema, values: Schema, name: str) -> Shape | None:
        element = self.build(values, bool(values.get("x-kubernetes-embedded-resource")), f"{name}.@elem")
        if element is None:
            return None
        limit = schema.get("maxProperties")
        most = (MAX_REQUEST_BYTES - 2) // (element.min_size + 6) if limit is None else max(limit, 0)
        shape = Shape(CelType("map", "map", (STRING, element.cel_type)), max_elements=most, min_size=2)
        shape.element = element
        shape.key = Shape(STRING, min_size=2)
        inner = element.convert
        if inner is not None or element.nullable:
            shape.convert = _map_convert(element)
        return shape

    def _object(self, schema: Schema, name: str) -> Shape:
        required = set(schema.get("required") or ())
        size = 2
        fields: dict[str, Shape] = {}
        names: dict[str, str] = {}
        for prop, child in (schema.get("properties") or {}).items():
            escaped = escape_name(prop)
            is_root = bool(child.get("x-kubernetes-embedded-resource"))
            shape = self.build(child, is_root, f"{name}.{escaped or prop}")
            if shape is None:
                continue
            if escaped is not None:
                fields[escaped] = shape
                names[escaped] = prop
            if prop in required and "default" not in child:
                size += len(prop.encode("utf-8", "surrogatepass")) + shape.min_size + 4
        cel_fields = {field: shape.cel_type for field, shape in fields.items()}
        result = Shape(CelType("struct", name, fields=cel_fields), min_size=size)
        result.fields = fields
        result.names = names
        result.convert = _object_convert(result)
        return result

    def _string(self, schema: Schema) -> Shape:
        form = schema.get("format")
        limit = schema.get("maxLength")
        if form == "byte":
            most = MAX_REQUEST_BYTES - 2 if limit is None else max(limit, 0)
            return _converted(Shape(BYTES, max_elements=most, min_size=2), _to_bytes)
        if form == "duration":
            return _converted(Shape(DURATION, max_elements=_DURATION_SIZE, min_size=3), _to_duration)
        if form == "date":
            return _converted(Shape(TIMESTAMP, max_elements=_DATE_SIZE, min_size=_DATE_SIZE), _to_date)
        if form == "date-time":
            return _converted(Shape(TIMESTAMP, max_elements=_DATE_TIME_SIZE, min_size=21), _to_date_time)
        if limit is None and schema.get("enum"):
            most = max(
                (len(v.encode("utf-8", "surrogatepass")) for v in schema["enum"] if isinstance(v, str)),
                default=0,
            )
        else:
            most = _string_limit(limit, MAX_REQUEST_BYTES - 2)
        return Shape(STRING, max_elements=most, min_size=2)


def _string_limit(max_length: int | None, otherwise: int) -> int:
    # maxLength counts characters, up to four bytes each.
    return otherwise if max_length is None else max(max_length, 0) * 4


def _converted(shape: Shape, convert: Convert) -> Shape:
    shape.convert = convert
    return shape


def _to_double(value: Any) -> Value:
    return float(value) if type(value) is int else value


def _to_bytes(value: Any) -> Value:
    if type(value) is not str:
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as problem:
        raise EvalError(f"Invalid byte formatted string {value}: {problem}") from problem


def _to_duration(value: Any) -> Value:
    if type(value) is not str:
        return value
    nanos = gotime.parse_wordy_duration(value)
    if nanos is None:
        raise EvalError(f"Invalid duration {value}: unable to parse {value} as duration")
    return Duration(nanos)


def _to_date(value: Any) -> Value:
    if type(value) is not str:
        return value
    nanos = gotime.parse_date(value)
    if nanos is None:
        raise EvalError(f"Invalid date formatted string {value}")
    return Timestamp(nanos)


def _to_date_time(value: Any) -> Value:
    if type(value) is not str:
        return value
    parsed = gotime.parse_date_time(value)
    if parsed is None:
        raise EvalError(f"Invalid date-time formatted string {value}")
    return Timestamp(*parsed)


def _list_convert(shape: Shape) -> Convert | None:
    assert shape.element is not None
    inner = shape.element.convert
    kind, keys = shape.list_type, shape.list_keys

    def items(value: Iterable[Any]) -> Iterable[Value]:
        return value if inner is None else [None if item is None else inner(item) for item in value]

    if kind == "set":
        return lambda value: SetList(items(value)) if isinstance(value, list) else value
    if kind == "map":
        return lambda value: MapList(items(value), keys) if isinstance(value, list) else value
    if inner is None:
        return None
    return lambda value: list(items(value)) if isinstance(value, list) else value


def _map_convert(element: Shape) -> Convert:
    inner = element.convert

    def convert(value: Any) -> Value:
        if not isinstance(value, dict) or inner is None:
            return value
        return {key: None if item is None else inner(item) for key, item in value.items()}

    return convert


def _object_convert(shape: Shape) -> Convert:
    """Visible fields only, under their escaped names; null is the same as absent."""

    def convert(value: Any) -> Value:
        if not isinstance(value, dict):
            return value
        result: dict[str, Value] = {}
        assert shape.fields is not None
        for field, child in shape.fields.items():
            item = value.get(shape.names[field])
            if item is not None:
                result[field] = item if child.convert is None else child.convert(item)
        return result

    return convert
