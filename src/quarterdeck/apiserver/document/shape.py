"""Built-in documents brought into the shape Go would give them.

Upstream decodes a request into Go structs and encodes those again; that drops unknown fields,
nulls and empty `omitempty` values, writes zero values where a field is always present and makes
times and quantities canonical. `normalize` does the same to a JSON document, guided by the type
table, and reports unknown fields in document order. What is well-shaped afterwards needs no
further type checks anywhere in the server.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.api.quantity import FORMAT_WRONG
from quarterdeck.apiserver.document import quantity
from quarterdeck.apiserver.document.decoding import HugeNumber
from quarterdeck.apiserver.document.typetable import Field, StructType, Type
from quarterdeck.apiserver.document.typetable import struct as struct_named
from quarterdeck.apiserver.document.unmarshal import go_kind
from quarterdeck.errors import QuarterdeckError

_Decode = Callable[[Any, str, list[str]], Any]
_ABSENT = object()
_INT_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_SECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)")


_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"


class ShapeError(QuarterdeckError, ValueError):
    """A value of the wrong type or form; the text is what Go's JSON decoder says.

    `converted` is what Go says where it does not decode a text but converts from unstructured values.
    """

    def __init__(self, text: str, converted: str = "") -> None:
        super().__init__(text)
        self.converted = converted or text


class _TypeMismatch(ShapeError):
    """Gives way to errors of form (quantities, times, base64), wherever in the document those are."""


def normalize(document: Any, struct: StructType) -> tuple[Json, list[str]]:
    """The document as Go would store it, and its unknown fields (`spec.containers[0].foo`)."""
    problems: list[str] = []
    decode = _struct(struct)
    try:
        result: Json = decode(document, "", problems)
    except _TypeMismatch:
        decode(document, "", _Continued())
        raise
    return result, [problem.translate(_UNMARKED) for problem in problems]


#: a map key inside a path stands between marks, because type errors leave it out
_KEY, _KEY_END = "\x01", "\x02"
_UNMARKED = str.maketrans("", "", _KEY + _KEY_END)
_KEYS_AND_INDEXES = re.compile(rf"\[\d+\]|{_KEY}[^{_KEY_END}]*{_KEY_END}")


class _Continued(list[str]):
    """Problems of a second reading, which passes over values of the wrong type."""


def _mismatch(value: Any, owner: str, path: str, go_type: str, problems: list[str], digits: str = "") -> Any:
    """Go notes a value of the wrong type and goes on; `digits` are shown if it is a number."""
    if type(problems) is _Continued:
        return _ABSENT
    where = _KEYS_AND_INDEXES.sub("", path)
    shown = go_kind(value)
    if shown == "number":
        shown += digits
    raise _TypeMismatch(
        f"json: cannot unmarshal {shown} into Go struct field {owner}.{where} of type {go_type}",
        conversion_problem(value, go_type),
    )


def conversion_problem(value: Any, go_type: str) -> str:
    """What Go says when it converts an unstructured value of the wrong type to `go_type`."""
    match value:
        case bool():
            given = "bool"
        case int() | float():
            given = type(value).__name__ + "64"
        case str():
            given = "string"
        case _:
            given = "slice" if isinstance(value, list) else "map"
    if go_type.startswith("[]"):
        return f"cannot restore slice from {given}"
    if go_type.startswith("map["):
        return f"cannot restore map from {given}"
    if "." in go_type:
        return f"cannot restore struct from: {given}"
    if (given == "int64" and go_type == "string") or (given == "float64" and go_type in _INT_RANGES):
        return f"cannot convert {given} to {go_type}"
    return f"unrecognized type: {go_type}"


@cache
def _struct(struct: StructType) -> _Decode:
    """The decoder of a struct; recursive types (JSONSchemaProps) resolve their fields on first use."""
    fields: dict[str, _Decode] = {}
    #: most fields hold text, most texts are not empty, and to those there is nothing to do
    texts = frozenset(field.name for field in struct.fields.values() if field.type.kind == "string")
    always: list[tuple[str, Callable[[], Any]]] = []
    known = struct.fields
    ready = False
    get = fields.get

    def decode(value: Any, path: str, problems: list[str]) -> Any:
        nonlocal ready
        if not ready:
            for field in known.values():
                fields[field.name] = _field(field, struct.go_name)
                if (zero := _zero(field)) is not None:
                    always.append((field.name, zero))
            ready = True
        if type(value) is not dict:
            if value is not None:
                raise _TypeMismatch(
                    f"json: cannot unmarshal {go_kind(value)} into Go value of type {struct.go_name}"
                )
            value = {}
        out: Json = {}
        for key, item in value.items():
            if item and type(item) is str and key in texts:
                out[key] = item
            elif (handler := get(key)) is None:
                problems.append(f"{path}{key}")
            else:
                item = handler(item, path, problems)
                if item is not _ABSENT:
                    out[key] = item
        for key, zero in always:
            if key not in out:
                out[key] = zero()
        return out

    return decode


def _zero(field: Field) -> Callable[[], Any] | None:
    """What Go writes for a field that was not given; None when it writes nothing."""
    if field.omitzero:
        return None
    kind = field.type.kind
    if field.pointer:
        return None if field.omitempty else lambda: None
    if kind == "struct":  # `omitempty` does nothing on a Go struct
        decoder = _struct(field.type.struct)
        return lambda: decoder({}, "", [])
    if kind in ("time", "microTime"):
        return lambda: None
    if field.omitempty:
        return {"quantity": lambda: "0", "intOrString": lambda: 0, "rawExtension": lambda: None}.get(kind)
    if kind in ("list", "map", "bytes", "rawExtension", "json", "strings", "fieldsV1"):
        return lambda: None
    simple: dict[str, Any] = {"string": "", "int32": 0, "int64": 0, "double": 0, "bool": False}
    value = simple.get(kind, {"quantity": "0", "intOrString": 0}.get(kind))
    return lambda: value


def _field(field: Field, owner: str) -> _Decode:
    drop_empty = field.omitempty and not field.pointer
    return _value(field.type, field.name, owner, field.go_type, drop_empty)


def _value(type_: Type, name: str, owner: str, go_type: str, drop_empty: bool) -> _Decode:
    kind = type_.kind
    if kind == "string":
        return _scalar(str, name, owner, go_type, drop_empty)
    if kind == "bool":
        return _scalar(bool, name, owner, go_type, drop_empty)
    if kind in _INT_RANGES:
        return _integer(kind, name, owner, go_type, drop_empty)
    if kind == "double":
        return _double(name, owner, go_type, drop_empty)
    if kind == "struct":
        return _nested(type_.struct, name, owner, go_type)
    if kind == "list":
        assert type_.elem is not None
        return _list(type_.elem, name, owner, go_type, drop_empty)
    if kind == "map":
        assert type_.elem is not None
        return _map(type_.elem, name, owner, go_type, drop_empty)
    if kind in ("time", "microTime"):
        return _time(kind, name)
    if kind == "quantity":
        return _quantity(name)
    if kind == "intOrString":
        return _int_or_string(name, owner, go_type)
    if kind == "bytes":
        return _bytes(name, owner, go_type, drop_empty)
    if kind == "strings":
        return _list(Type("string"), name, owner, go_type, drop_empty)
    if kind in ("schemaOrArray", "schemaOrBool", "schemaOrStrings"):
        return _schema_union(kind, name, owner)
    return _anything


def _anything(value: Any, path: str, problems: list[str]) -> Any:
    return _ABSENT if value is None else value


def _scalar(expected: type, name: str, owner: str, go_type: str, drop_empty: bool) -> _Decode:
    def decode(value: Any, path: str, problems: list[str]) -> Any:
        if type(value) is expected:
            return value if value or not drop_empty else _ABSENT
        if value is None:
            return _ABSENT
        return _mismatch(value, owner, path + name, go_type, problems)

    return decode


def _integer(kind: str, name: str, owner: str, go_type: str, drop_empty: bool) -> _Decode:
    low, high = _INT_RANGES[kind]

    def decode(value: Any, path: str, problems: list[str]) -> Any:
        if type(value) is int and low <= value <= high:
            return value if value or not drop_empty else _ABSENT
        if value is None:
            return _ABSENT
        return _mismatch(value, owner, path + name, go_type, problems, f" {value}")

    return decode


def _double(name: str, owner: str, go_type: str, drop_empty: bool) -> _Decode:
    def decode(value: Any, path: str, problems: list[str]) -> Any:
        if isinstance(value, HugeNumber):
            return _mismatch(value, owner, path + name, go_type, problems, f" {value}")
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value if value or not drop_empty else _ABSENT
        if value is None:
            return _ABSENT
        return _mismatch(value, owner, path + name, go_type, problems)

    return decode


def _nested(struct: StructType, name: str, owner: str, go_type: str) -> _Decode:
    decode_struct = _struct(struct)
    prefix = name + "."

    def decode(value: Any, path: str, problems: list[str]) -> Any:
        if type(value) is not dict:
            if value is None:
                return _ABSENT
            return _mismatch(value, owner, path + name, go_type, problems)
        return decode_struct(value, path + prefix, problems)

    return decode


def _list(elem: Type, name: str, owner: str, go_type: str, drop_empty: bool) -> _Decode:
    if elem.kind == "string":

        def decode_strings(value: Any, path: str, problems: list[str]) -> Any:
            if type(value) is not list:
                if value is None:
                    return _ABSENT
                return _mismatch(value, owner, path + name, go_type, problems)
            for item in value:
                if type(item) is not str:
                    if item is None:
                        return ["" if item is None else item for item in value]
                    return _mismatch(item, owner, path + name, "string", problems)
            return value if value or not drop_empty else _ABSENT

        return decode_strings

    if elem.kind == "struct":
        decode_struct = _struct(elem.struct)
        item_type = go_type.removeprefix("[]")

        def decode_structs(value: Any, path: str, problems: list[str]) -> Any:
            if type(value) is not list:
                if value is None:
                    return _ABSENT
                return _mismatch(value, owner, path + name, go_type, problems)
            if not value and drop_empty:
                return _ABSENT
            items = []
            for index, item in enumerate(value):
                if type(item) is not dict and item is not None:
                    return _mismatch(item, owner, path + name, item_type, problems)
                items.append(decode_struct(item, f"{path}{name}[{index}].", problems))
            return items

        return decode_structs

    decode_item = _value(elem, name, owner, go_type.removeprefix("[]"), False)

    def decode(value: Any, path: str, problems: list[str]) -> Any:
        if type(value) is not list:
            if value is None:
                return _ABSENT
            return _mismatch(value, owner, path + name, go_type, problems)
        if not value and drop_empty:
            return _ABSENT
        items = [decode_item(item, path, problems) for item in value]
        return [None if item is _ABSENT else item for item in items]

    return decode


def _map(elem: Type, name: str, owner: str, go_type: str, drop_empty: bool) -> _Decode:
    if elem.kind == "string":

        def decode_strings(value: Any, path: str, problems: list[str]) -> Any:
            if type(value) is not dict:
                if value is None:
                    return _ABSENT
                return _mismatch(value, owner, path + name, go_type, problems)
            for item in value.values():
                if type(item) is not str:
                    if item is None:
                        return {key: "" if item is None else item for key, item in value.items()}
                    return _mismatch(item, owner, path + name, "string", problems)
            return value if value or not drop_empty else _ABSENT

        return decode_strings

    if elem.kind == "struct":
        decode_struct = _struct(elem.struct)
        item_type = go_type.removeprefix("map[string]")

        def decode_structs(value: Any, path: str, problems: list[str]) -> Any:
            if type(value) is not dict:
                if value is None:
                    return _ABSENT
                return _mismatch(value, owner, path + name, go_type, problems)
            if not value and drop_empty:
                return _ABSENT
            out = {}
            for key, item in value.items():
                if type(item) is not dict and item is not None:
                    return _mismatch(item, owner, path + name, item_type, problems)
                out[key] = decode_struct(item, f"{path}{name}{_KEY}.{key}{_KEY_END}.", problems)
            return out

        return decode_structs

    decode_item = _value(elem, name, owner, go_type.removeprefix("map[string]"), False)
    nothing = "" if elem.kind == "bytes" else None

    def decode(value: Any, path: str, problems: list[str]) -> Any:
        if type(value) is not dict:
            if value is None:
                return _ABSENT
            return _mismatch(value, owner, path + name, go_type, problems)
        if not value and drop_empty:
            return _ABSENT
        out = {}
        for key, item in value.items():
            item = decode_item(item, path, problems)
            out[key] = nothing if item is _ABSENT else item
        return out

    return decode


def _time(kind: str, name: str) -> _Decode:
    micro = kind == "microTime"

    def decode(value: Any, path: str, problems: list[str]) -> Any:
        if value is None:
            return _ABSENT
        if type(value) is not str:
            raise ShapeError(f"json: cannot unmarshal {go_kind(value)} into Go value of type string")
        if micro or len(value) != 20 or not _SECONDS.fullmatch(value):
            value = parse_time(value, micro=micro)
        return None if value in _ZERO_TIMES else value

    return decode


#: Go's zero time, which is the same as none at all
_ZERO_TIMES: Final = ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z")


def parse_time(value: str, *, micro: bool = False) -> str:
    """A time in the form it is stored in; raises ShapeError in Go's words."""
    layout = "2006-01-02T15:04:05.000000Z07:00" if micro else "2006-01-02T15:04:05Z07:00"
    found = _RFC3339.fullmatch(value)
    if found is None:
        raise ShapeError(f'parsing time "{value}" as "{layout}": cannot parse "{value}" as "2006"')
    if micro and len(found[3] or "") != 7:  # exactly six digits
        rest = (found[3] or "") + found[4]
        raise ShapeError(f'parsing time "{value}" as "{layout}": cannot parse "{rest}" as ".000000"')
    try:
        fraction = (found[3] or ".0")[:7].ljust(7, "0")
        zone = "+00:00" if found[4] == "Z" else found[4]
        moment = datetime.fromisoformat(f"{found[1]}T{found[2]}{fraction}{zone}").astimezone(UTC)
    except ValueError as error:
        raise ShapeError(f'parsing time "{value}": {error}') from None
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds" if micro else "seconds") + "Z"


def _quantity(name: str) -> _Decode:
    def decode(value: Any, path: str, problems: list[str]) -> Any:
        if value is None:
            return _ABSENT
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ShapeError(FORMAT_WRONG)
        try:
            return quantity.parse(value).text
        except ValueError as error:
            raise ShapeError(str(error)) from None

    return decode


def _schema_union(kind: str, name: str, owner: str) -> _Decode:
    """A schema, or a list of schemas, a boolean or a list of names in its place."""
    schema = _struct(struct_named(_SCHEMA))
    prefix = name + "."

    def decode(value: Any, path: str, problems: list[str]) -> Any:
        if type(value) is dict:
            # unknown fields are dropped here without a warning
            return schema(value, path + prefix, type(problems)())
        if kind == "schemaOrBool":
            if value is None:
                return _ABSENT
            if type(value) is not bool:
                raise ShapeError("boolean or JSON schema expected")
            return value
        if type(value) is not list:
            return _ABSENT
        return decode_list(value, path, problems)

    if kind == "schemaOrStrings":
        decode_list = _list(Type("string"), name, owner, "[]string", False)
    else:
        decode_list = _list(Type("struct", _SCHEMA), name, owner, "[]v1.JSONSchemaProps", False)
    return decode


def _int_or_string(name: str, owner: str, go_type: str) -> _Decode:
    def decode(value: Any, path: str, problems: list[str]) -> Any:
        if value is None:
            return _ABSENT
        if type(value) is str or (type(value) is int and -(2**31) <= value < 2**31):
            return value
        raise ShapeError(f"json: cannot unmarshal {go_kind(value)} into Go value of type int32")

    return decode


def _bytes(name: str, owner: str, go_type: str, drop_empty: bool) -> _Decode:
    def decode(value: Any, path: str, problems: list[str]) -> Any:
        if value is None:
            return _ABSENT
        if type(value) is not str:
            return _mismatch(value, owner, path + name, go_type, problems)
        if not value:
            return _ABSENT if drop_empty else value
        text = value.replace("\n", "").replace("\r", "")
        try:
            binascii.a2b_base64(text, strict_mode=True)
        except (binascii.Error, ValueError):
            problem = f"illegal base64 data at input byte {_bad_base64(text)}"
            raise ShapeError(problem, f"error decoding from json: {problem}") from None
        return text

    return decode


def _bad_base64(text: str) -> int:
    """The offset Go reports: the first byte that is no base64, else the end of the last full group."""
    found = re.search(r"[^A-Za-z0-9+/]", text.rstrip("="))
    return found.start() if found else len(text) // 4 * 4
