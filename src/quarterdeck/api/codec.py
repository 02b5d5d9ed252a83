"""Bytes to objects and back, with unknown fields kept.

Decoding is two-tiered. The first tier is msgspec in C against classes that forbid unknown fields. If it
refuses, the second tier decodes the document to plain containers, walks it along a plan compiled from
the class, moves unknown keys (and nulls the class does not allow) under ``UNKNOWN_KEY`` of their object,
and decodes the result. Wrong types are refused by both tiers, with the path of the field.

Encoding is the mirror: msgspec writes the bytes; only if they contain ``UNKNOWN_KEY`` is the document
taken apart once more to lift the kept fields into their objects. A typed field wins over a kept one of
the same name, which happens when a kept ``null`` was given a value.
"""

from collections.abc import Callable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UnsetType

from quarterdeck.api.model import UNKNOWN_KEY, from_wire, to_wire_value
from quarterdeck.errors import SchemaError

T = TypeVar("T")

_MARK: Final = f'"{UNKNOWN_KEY}":'.encode()
_encoder: Final = msgspec.json.Encoder(enc_hook=to_wire_value)
_plain: Final = msgspec.json.Decoder()
_decoders: dict[Any, Callable[[bytes | bytearray | memoryview | msgspec.Raw], Any]] = {}

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes that are no JSON, no UTF-8, or nested too deeply."""

Plan = Callable[[Any], None]
"""Rewrites one decoded value in place so that its class accepts it."""


def decode(raw: bytes | bytearray | memoryview | msgspec.Raw, kind: type[T]) -> T:
    """Decode JSON bytes as ``kind`` (a ``Model``, or any type built of models).

    Raises ``SchemaError`` with the field path when the document does not fit.
    """
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind, dec_hook=from_wire).decode
    try:
        made: T = decoder(raw)
        return made
    except msgspec.ValidationError:
        return _decode_tolerant(decode_json(raw), kind, decoder)
    except UNREADABLE as error:
        raise _unreadable(error) from error


def decode_json(raw: bytes | bytearray | memoryview | msgspec.Raw | str) -> Any:
    """Decode JSON to plain dictionaries, lists and scalars; raises ``SchemaError`` when it is none."""
    try:
        return _plain.decode(raw)
    except UNREADABLE as error:
        raise _unreadable(error) from error


def _unreadable(error: Exception) -> SchemaError:
    why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
    return SchemaError(f"not JSON: {why}")


def encode(value: Any) -> bytes:
    """The JSON of a model, a dynamic object or plain containers of them."""
    out = _encoder.encode(value)
    if _MARK in out:
        doc = _plain.decode(out)
        _lift(doc)
        out = _encoder.encode(doc)
    return out


def from_dict(doc: Mapping[str, Any], kind: type[T]) -> T:
    """Build ``kind`` from a plain document; the result shares nothing with ``doc``."""
    return decode(_encoder.encode(doc), kind)


def to_dict(value: Any) -> Any:
    """A private plain document (dictionaries, lists, scalars) of ``value``."""
    return _plain.decode(encode(value))


def _decode_tolerant(doc: Any, kind: type[T], decoder: Callable[[bytes], Any]) -> T:
    plan = plan_for(cast("Any", kind))
    try:
        if plan is not None:
            plan(doc)
        # Through bytes again: fields that stay raw JSON exist only there.
        return cast("T", decoder(_encoder.encode(doc)))
    except RecursionError as error:
        raise _unreadable(error) from error
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        raise SchemaError(message, path.rstrip("`").lstrip(".")) from error


def _lift(doc: Any) -> None:
    if type(doc) is dict:
        kept = doc.pop(UNKNOWN_KEY, None)
        for value in doc.values():
            _lift(value)
        if kept:
            for key, value in kept.items():
                doc.setdefault(key, value)
    elif type(doc) is list:
        for item in doc:
            _lift(item)


@cache
def plan_for(kind: Any) -> Plan | None:
    """How to make a value of ``kind`` acceptable; ``None`` when it has no struct anywhere inside."""
    origin = get_origin(kind)
    if origin is Annotated:
        return plan_for(get_args(kind)[0])
    if origin in (Union, UnionType):
        plans = [p for a in get_args(kind) if a not in (NoneType, UnsetType) and (p := plan_for(a))]
        return plans[0] if plans else None
    if origin in (tuple, list):
        return _each(plan_for(get_args(kind)[0]))
    if isinstance(kind, type):
        if issubclass(kind, msgspec.Struct):
            return _StructPlan(kind)
        values = getattr(kind, "value_type", None)
        if values is not None:
            return _values(plan_for(values))
    return None


def _each(plan: Plan | None) -> Plan | None:
    if plan is None:
        return None

    def apply(value: Any) -> None:
        if type(value) is list:
            for item in value:
                plan(item)

    return apply


def _values(plan: Plan | None) -> Plan | None:
    if plan is None:
        return None

    def apply(value: Any) -> None:
        if type(value) is dict:
            for item in value.values():
                plan(item)

    return apply


class _StructPlan:
    """Splits one JSON object into the fields a struct knows and the rest."""

    def __init__(self, kind: type[msgspec.Struct]) -> None:
        self._kind = kind
        self._fields: dict[str, tuple[bool, Plan | None]] | None = None

    def _compile(self) -> dict[str, tuple[bool, Plan | None]]:
        # Late, because recursive types refer to themselves.
        hints = get_type_hints(self._kind, include_extras=True)
        self._fields = {
            info.encode_name: (_allows_null(hints[info.name]), plan_for(hints[info.name]))
            for info in msgspec.structs.fields(self._kind)
        }
        return self._fields

    def __call__(self, doc: Any) -> None:
        if type(doc) is not dict:
            return
        fields = self._fields or self._compile()
        kept: dict[str, Any] = {}
        for key, value in doc.items():
            known = fields.get(key)
            if known is None:
                kept[key] = value
                continue
            nullable, plan = known
            if value is None and not nullable:
                kept[key] = value
            elif plan is not None:
                plan(value)
        if not kept:
            return
        for key in kept:
            del doc[key]
        if self._kind.__struct_config__.forbid_unknown_fields:
            doc[UNKNOWN_KEY] = {**kept, **(doc.get(UNKNOWN_KEY) or {})}


def _allows_null(kind: Any) -> bool:
    origin = get_origin(kind)
    if origin is Annotated:
        return _allows_null(get_args(kind)[0])
    if origin in (Union, UnionType):
        return any(_allows_null(a) for a in get_args(kind))
    # Free-form fields take a null as they take anything.
    return kind in (NoneType, Any) or getattr(kind, "__name__", "") == "_JsonField"
