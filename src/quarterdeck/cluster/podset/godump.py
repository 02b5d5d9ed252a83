"""The text in which a Go program dumps a decoded value: what Kubernetes hashes.

Types, fields in the order of their declaration, absent ones included. ``gotypes.json`` has what that takes;
``tools/kube/typetable`` makes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from quarterdeck.api import Quantity, Time

_ZERO_TIME: Final = "{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}"
_UNIX_TO_YEAR_ONE: Final = 62135596800
_SUFFIXES: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_QUANTITY: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(.*)")
_DIGITS: Final = 18
"""Decimal digits that surely fit 64 bits."""

Types = Mapping[str, Any]


def dump(kind: str, value: Any) -> str:
    """A value of a Go type, given as a JSON document: ``dump("v1.PodTemplateSpec", {...})``."""
    return _typed(kind, value, _types())


@cache
def _types() -> Types:
    loaded: Types = json.loads(files(__package__).joinpath("gotypes.json").read_text())
    return loaded


def _typed(name: str, value: Any, types: Types) -> str:
    return f"({name}){_plain(name, value, types)}"


def _plain(name: str, value: Any, types: Types) -> str:
    """A value without its type; ``None`` is what is absent."""
    if name[0] == "*":
        return "<nil>" if value is None else _plain(name[1:], value, types)
    if name[:2] == "[]":
        if not value:
            return "<nil>"
        return "[" + " ".join(_plain(name[2:], each, types) for each in value) + "]"
    if name[:4] == "map[":
        return _map(name, value, types)
    opaque = _OPAQUE.get(name)
    if opaque is not None:
        return opaque(value)
    made_of = types.get(name, name)
    if isinstance(made_of, list):
        return _struct(made_of, value or {}, types)
    if made_of[:4] == "map[":
        return _map(made_of, value, types)
    return _scalar(made_of, value)


def _struct(fields: list[list[str]], value: Mapping[str, Any], types: Types) -> str:
    parts = (
        f"{name}:{_typed(kind, value.get(wire) if wire else value, types)}" for name, wire, kind in fields
    )
    return "{" + " ".join(parts) + "}"


def _map(name: str, value: Mapping[str, Any] | None, types: Types) -> str:
    if not value:
        return "<nil>"
    kind = name[name.index("]") + 1 :]
    return "map[" + " ".join(f"{key}:{_plain(kind, value[key], types)}" for key in sorted(value)) + "]"


def _scalar(kind: str, value: Any) -> str:
    if kind == "string":
        return value or ""
    if kind == "bool":
        return "true" if value else "false"
    return str(value or 0)


def _int_or_string(value: int | str | None) -> str:
    number, text = (0, value) if isinstance(value, str) else (value or 0, "")
    kind = 1 if isinstance(value, str) else 0
    return f"{{Type:(intstr.Type){kind} IntVal:(int32){number} StrVal:(string){text}}}"


def _time(value: str | None) -> str:
    if value is None:
        return _ZERO_TIME
    seconds = int(Time(value).timestamp()) + _UNIX_TO_YEAR_ONE
    return f"{{Time:(time.Time){{wall:(uint64)0 ext:(int64){seconds} loc:(*time.Location)<nil>}}}}"


def _quantity(value: str | float | None) -> str:
    if value is None:
        return _amount(0, 0, "", "")
    text = Quantity(value).canonical()
    if text == "0":
        return _amount(0, 0, text, "DecimalSI")
    match = _QUANTITY.fullmatch(text)
    assert match is not None
    sign, whole, fraction, suffix = match.group(1), match.group(2), match.group(3) or "", match.group(4)
    digits = whole + fraction
    number = int(digits)
    factor = -1 if sign == "-" else 1
    power = _BINARY.get(suffix)
    if power is not None:
        precision = 15 - len(whole) - int(power * 3 / 10) - 1
        if precision < 0 or fraction or number << power >= 1 << 63:
            return _large(Quantity(text).nano, "BinarySI")
        return _amount(factor * (number << power), 0, text if number & 7 else "", "BinarySI")
    is_exponent = suffix not in _SUFFIXES
    scale = (int(suffix[1:]) if is_exponent else _SUFFIXES[suffix]) - len(fraction)
    form = "DecimalExponent" if is_exponent else "DecimalSI"
    if len(digits) > _DIGITS or scale < -9:
        return _large(Quantity(text).nano, form)
    is_canonical = scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
    return _amount(factor * number, scale, text if is_canonical else "", form)


def _amount(value: int, scale: int, text: str, form: str) -> str:
    return (
        f"{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} "
        f"d:(resource.infDecAmount){{Dec:(*inf.Dec)<nil>}} s:(string){text} Format:(resource.Format){form}}}"
    )


def _large(nano: int, form: str) -> str:
    """An amount of 10⁻⁹ that does not fit 64 bits."""
    words, rest = [], abs(nano)
    while rest:
        words.append(str(rest & ((1 << 64) - 1)))
        rest >>= 64
    return (
        "{i:(resource.int64Amount){value:(int64)0 scale:(resource.Scale)0} d:(resource.infDecAmount){Dec:"
        f"(*inf.Dec){{unscaled:(big.Int){{neg:(bool){_scalar('bool', nano < 0)} "
        f"abs:(big.nat)[{' '.join(words)}]}} scale:(inf.Scale)9}}}} s:(string) "
        f"Format:(resource.Format){form}}}"
    )


_OPAQUE: Final[Mapping[str, Callable[[Any], str]]] = {
    "intstr.IntOrString": _int_or_string,
    "resource.Quantity": _quantity,
    "v1.Time": _time,
    "v1.FieldsV1": lambda _: "{Raw:([]uint8)<nil>}",
}
