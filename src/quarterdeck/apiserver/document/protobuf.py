"""Request bodies in the Kubernetes protobuf encoding, decoded to the JSON shape everything else uses.

Go clients send built-in kinds as protobuf: four bytes ``k8s\\0``, then a message ``Unknown`` that names the
kind and carries the object. Field names and types come from `document.typetable`; what Go's JSON encoder
would leave out (zero values of omitempty fields) is left out here, and so are times that are not set, so
that a body means the same in both encodings. Answers are never encoded as protobuf: clients accept JSON.

Input is hostile until decoded: lengths are checked before use, nesting is bounded, and every defect is a
`ProtobufError`. Unknown field numbers are skipped, because newer clients send them.
"""

from __future__ import annotations

import base64
import datetime
import math
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final, TypeAlias

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.document import typetable
from quarterdeck.apiserver.document.typetable import Field, Type
from quarterdeck.errors import QuarterdeckError

MAGIC: Final = b"k8s\x00"
MAX_DEPTH: Final = 100

#: Reads the value in body[start:end]; `depth` is how deep it lies, `old` what the field held before.
_Reader: TypeAlias = Callable[[bytes, int, int, int, Any], Any]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class ProtobufError(QuarterdeckError, ValueError):
    """The body is not a well-formed object of a known kind."""


def decode(body: bytes) -> Json:
    """The object in a protobuf request body, with apiVersion and kind first.

    Raises ProtobufError with the reason if the body is cut off, malformed, nested too deeply, or of a kind
    that is not built in.
    """
    if not body.startswith(MAGIC):
        raise ProtobufError("the body does not start with the Kubernetes protobuf prefix")
    api_version = kind = ""
    start = end = len(body)
    for number, _, first, last in _known(body, len(MAGIC), end, _UNKNOWN):
        if number == 1:
            texts = {n: _text(body, a, b) for n, _, a, b in _known(body, first, last, _TYPE_META)}
            api_version, kind = texts.get(1, ""), texts.get(2, "")
        elif number == 2:
            start, end = first, last
        elif first != last:
            raise ProtobufError("a content encoding inside a protobuf body is not supported")
    if not (kind and api_version):
        raise ProtobufError("the protobuf body does not name its apiVersion and kind")
    group, _, version = api_version.rpartition("/")
    try:
        name = typetable.struct_for(group, version, kind).name
    except KeyError:
        raise ProtobufError(f'no kind "{kind}" is registered for version "{api_version}"') from None
    result: Json = {"apiVersion": api_version, "kind": kind}
    _read_struct(body, start, end, 1, _plan(name), result)
    return result


_UNKNOWN: Final = {1: _BYTES, 2: _BYTES, 3: _BYTES}
_TYPE_META: Final = {1: _BYTES, 2: _BYTES}


class _Step(msgspec.Struct, frozen=True):
    """What to do with one field number of a message."""

    name: str
    #: the wire type of a value, an item or a map value
    wire: int
    #: makes a value of a number on the wire; None: `read` makes it of bytes
    number: Callable[[int], Any] | None
    read: _Reader
    #: "" for a single value, else "list" or "map"
    plural: str
    #: zero values are left out
    drops_zero: bool


#: Field numbers to steps; a nested plan stands for a message whose fields belong to the outer object.
_Plan: TypeAlias = Mapping[int, "_Step | _Plan"]


@cache
def _plan(name: str) -> _Plan:
    return _steps(typetable.struct(name).proto)


def _steps(proto: typetable.Proto) -> _Plan:
    return {
        number: _step(entry) if isinstance(entry, Field) else _steps(entry) for number, entry in proto.items()
    }


def _step(field: Field) -> _Step:
    inner = field.type.elem or field.type
    number = _NUMBERS.get(inner.kind)
    # Without omitzero Go's encoder knows no zero value of a struct.
    has_zero = field.omitzero or (field.omitempty and field.type.kind in _ZERO_KINDS)
    return _Step(
        name=field.name,
        wire=_BYTES if number is None else _FIXED64 if inner.kind == "double" else _VARINT,
        number=number,
        read=_reader(inner),
        plural=field.type.kind if field.type.elem else "",
        drops_zero=has_zero and not field.pointer,
    )


def _read_struct(body: bytes, start: int, end: int, depth: int, plan: _Plan, into: Json) -> None:
    if depth > MAX_DEPTH:
        raise ProtobufError(f"the protobuf body is nested more than {MAX_DEPTH} levels deep")
    for number, wire, value, first, last in _scan(body, start, end):
        step = plan.get(number)
        if step is None:
            continue
        if not isinstance(step, _Step):
            _expect(wire, _BYTES, number)
            _read_struct(body, first, last, depth + 1, step, into)
            continue
        name = step.name
        if step.plural == "map":
            _expect(wire, _BYTES, number)
            key, item = _read_entry(body, first, last, depth, step)
            into.setdefault(name, {})[key] = item
            continue
        if wire != step.wire:
            if step.plural and wire == _BYTES:
                into.setdefault(name, []).extend(_packed(body, first, last, step))
                continue
            _expect(wire, step.wire, number)
        # A single message that comes twice is merged; of everything else the last one counts.
        old = None if step.plural else into.get(name)
        read = step.read(body, first, last, depth, old) if step.number is None else step.number(value)
        if step.plural:
            into.setdefault(name, []).append(read)
        elif read is None or (step.drops_zero and not read):
            into.pop(name, None)
        else:
            into[name] = read


def _read_entry(body: bytes, start: int, end: int, depth: int, step: _Step) -> tuple[str, Any]:
    """One entry of a map; the maps of the API all have string keys and no number values."""
    key, value_start, value_end = "", end, end
    for number, _, first, last in _known(body, start, end, _ENTRY):
        if number == 1:
            key = _text(body, first, last)
        else:
            value_start, value_end = first, last
    return key, step.read(body, value_start, value_end, depth, None)


_ENTRY: Final = {1: _BYTES, 2: _BYTES}


def _packed(body: bytes, start: int, end: int, step: _Step) -> Iterator[Any]:
    """Repeated numbers in one piece; Go writes them one by one, other encoders need not."""
    if step.number is None or step.wire != _VARINT:
        raise ProtobufError(f"field {step.name} in the protobuf body has the wrong wire type")
    while start < end:
        value, start = _varint(body, start, end)
        yield step.number(value)


def _reader(type_: Type) -> _Reader:
    if type_.kind != "struct":
        return _LEAVES.get(type_.kind, _never)
    name = type_.name

    def read(body: bytes, start: int, end: int, depth: int, old: Any) -> Json:
        result: Json = {} if old is None else old
        # The plan is looked up here and not when it is made, because types contain themselves.
        _read_struct(body, start, end, depth + 1, _plan(name), result)
        return result

    return read


def _never(body: bytes, start: int, end: int, depth: int, old: Any) -> Any:
    raise AssertionError("a number is not read from bytes")


def _int32(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def _int64(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _double(value: int) -> float | int:
    number: float = struct.unpack("<d", value.to_bytes(8, "little"))[0]
    if not math.isfinite(number):
        raise ProtobufError("a number in the protobuf body is not finite")
    # Go prints whole numbers without a fraction.
    return int(number) if number.is_integer() else number


_NUMBERS: Final[dict[str, Callable[[int], Any]]] = {
    "int32": _int32,
    "int64": _int64,
    "bool": bool,
    "double": _double,
}
_ZERO_KINDS: Final = frozenset(["string", "bytes", "strings", *_NUMBERS])


def _text(body: bytes, start: int, end: int) -> str:
    # Go's JSON encoder replaces what is not UTF-8, too.
    return body[start:end].decode(errors="replace")


def _read_string(body: bytes, start: int, end: int, depth: int, old: Any) -> str:
    return body[start:end].decode(errors="replace")


def _read_bytes(body: bytes, start: int, end: int, depth: int, old: Any) -> str:
    return base64.b64encode(body[start:end]).decode()


def _read_time(body: bytes, start: int, end: int, depth: int, old: Any) -> str | None:
    return _timestamp(body, start, end, "seconds")


def _read_micro_time(body: bytes, start: int, end: int, depth: int, old: Any) -> str | None:
    return _timestamp(body, start, end, "microseconds")


def _timestamp(body: bytes, start: int, end: int, precision: str) -> str | None:
    seconds = nanos = 0
    for number, value, _, _ in _known(body, start, end, _TIMESTAMP):
        if number == 1:
            seconds = _int64(value)
        else:
            nanos = _int32(value)
    # The empty message is a time that is not set; so is Go's zero time.
    if start == end or seconds == _GO_ZERO_TIME:
        return None
    try:
        moment = _EPOCH + datetime.timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        raise ProtobufError("a time in the protobuf body is out of range") from None
    return moment.isoformat(timespec=precision) + "Z"


_TIMESTAMP: Final = {1: _VARINT, 2: _VARINT}
_EPOCH: Final = datetime.datetime(1970, 1, 1)  # UTC; aware times would print an offset
_GO_ZERO_TIME: Final = -62135596800


def _read_quantity(body: bytes, start: int, end: int, depth: int, old: Any) -> str:
    return _wrapped(body, start, end).decode(errors="replace") or "0"


def _wrapped(body: bytes, start: int, end: int) -> bytes:
    """The content of a message that wraps one byte string."""
    content = b""
    for _, _, first, last in _known(body, start, end, _WRAPPER):
        content = body[first:last]
    return content


_WRAPPER: Final = {1: _BYTES}


def _read_int_or_string(body: bytes, start: int, end: int, depth: int, old: Any) -> int | str:
    is_text, number_value, text = False, 0, ""
    for number, value, first, last in _known(body, start, end, _INT_OR_STRING):
        if number == 1:
            is_text = value != 0
        elif number == 2:
            number_value = _int32(value)
        else:
            text = _text(body, first, last)
    return text if is_text else number_value


_INT_OR_STRING: Final = {1: _VARINT, 2: _VARINT, 3: _BYTES}


def _read_json(body: bytes, start: int, end: int, depth: int, old: Any) -> Any:
    content = _wrapped(body, start, end)
    if not content:
        return None
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ProtobufError(f"the JSON inside the protobuf body is malformed: {error}") from None


def _read_strings(body: bytes, start: int, end: int, depth: int, old: Any) -> list[str]:
    return [_text(body, first, last) for _, _, first, last in _known(body, start, end, _WRAPPER)]


def _read_schema(body: bytes, start: int, end: int, depth: int) -> Json:
    result: Json = {}
    _read_struct(body, start, end, depth + 1, _plan(_SCHEMA), result)
    return result


_SCHEMA: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_SCHEMA_OR_MORE: Final = {1: _BYTES, 2: _BYTES}
_BOOL_OR_SCHEMA: Final = {1: _VARINT, 2: _BYTES}


def _read_schema_or_array(
    body: bytes, start: int, end: int, depth: int, old: Any
) -> Json | list[Json] | None:
    schema: Json | None = None
    schemas: list[Json] = []
    for number, _, first, last in _known(body, start, end, _SCHEMA_OR_MORE):
        if number == 1:
            schema = _read_schema(body, first, last, depth)
        else:
            schemas.append(_read_schema(body, first, last, depth))
    return schemas or schema


def _read_schema_or_bool(body: bytes, start: int, end: int, depth: int, old: Any) -> Json | bool:
    schema: Json | None = None
    is_allowed = False
    for number, value, first, last in _known(body, start, end, _BOOL_OR_SCHEMA):
        if number == 1:
            is_allowed = value != 0
        else:
            schema = _read_schema(body, first, last, depth)
    return is_allowed if schema is None else schema


def _read_schema_or_strings(
    body: bytes, start: int, end: int, depth: int, old: Any
) -> Json | list[str] | None:
    schema: Json | None = None
    names: list[str] = []
    for number, _, first, last in _known(body, start, end, _SCHEMA_OR_MORE):
        if number == 1:
            schema = _read_schema(body, first, last, depth)
        else:
            names.append(_text(body, first, last))
    return names or schema


_LEAVES: Final[dict[str, _Reader]] = {
    "string": _read_string,
    "bytes": _read_bytes,
    "time": _read_time,
    "microTime": _read_micro_time,
    "quantity": _read_quantity,
    "intOrString": _read_int_or_string,
    "rawExtension": _read_json,
    "fieldsV1": _read_json,
    "json": _read_json,
    "strings": _read_strings,
    "schemaOrArray": _read_schema_or_array,
    "schemaOrBool": _read_schema_or_bool,
    "schemaOrStrings": _read_schema_or_strings,
}


def _known(
    body: bytes, start: int, end: int, wires: Mapping[int, int]
) -> Iterator[tuple[int, int, int, int]]:
    """The fields of a small message that have a number in `wires`: number, value, start, end."""
    for number, wire, value, first, last in _scan(body, start, end):
        if number in wires:
            _expect(wire, wires[number], number)
            yield number, value, first, last


def _scan(body: bytes, position: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """The fields in body[position:end]: number, wire type, value of a number, start and end of bytes."""
    while position < end:
        # Numbers of one byte, which nearly all are, are read in place: this loop is the hot one.
        key = body[position]
        position += 1
        if key > 0x7F:
            key, position = _varint(body, position - 1, end)
        number, wire = key >> 3, key & 7
        if not 0 < number < 1 << 29:
            raise ProtobufError(f"the protobuf body has the illegal field number {number}")
        if wire == _BYTES:
            if position < end and body[position] <= 0x7F:
                last = position + 1 + body[position]
                position += 1
            else:
                length, position = _varint(body, position, end)
                last = position + length
            if last > end:
                raise ProtobufError("the protobuf body ends in the middle of a field")
            yield number, wire, 0, position, last
            position = last
        elif wire == _VARINT:
            value, position = _varint(body, position, end)
            yield number, wire, value, position, position
        elif wire in (_FIXED64, _FIXED32):
            last = position + (8 if wire == _FIXED64 else 4)
            if last > end:
                raise ProtobufError("the protobuf body ends in the middle of a number")
            yield number, wire, int.from_bytes(body[position:last], "little"), position, last
            position = last
        else:
            raise ProtobufError(f"the protobuf body has the unsupported wire type {wire} in field {number}")


def _varint(body: bytes, position: int, end: int) -> tuple[int, int]:
    """The number at a position and the position after it."""
    value = shift = 0
    while position < end:
        byte = body[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, position
        shift += 7
        if shift >= 70:
            raise ProtobufError("a number in the protobuf body is too long")
    raise ProtobufError("the protobuf body ends in the middle of a number")


def _expect(wire: int, wanted: int, number: int) -> None:
    if wire != wanted:
        raise ProtobufError(f"field {number} in the protobuf body has wire type {wire} instead of {wanted}")
