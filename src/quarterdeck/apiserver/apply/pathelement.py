"""Path elements: one step of a field path, written as its key in fieldsV1.

    f:name          a field of a struct or an entry of a map
    k:{"name":"x"}  an item of a keyed list, by its key fields
    v:"x"           an item of a set, by its value
    i:3             an item of a list, by its position (read for old data, never written)

The key text is the identity: two elements are the same if and only if their texts are, so everything
that makes one goes through this module. Key fields are sorted and values are written as
structured-merge-diff writes them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec

from quarterdeck.wire import gostyle
from quarterdeck.wire.gonumber import float_text

# What json.Marshal escapes inside a string.
_escaped: Final = re.compile('["\\\\<>&\x00-\x1f\u2028\u2029]').search
_decode: Final = msgspec.json.Decoder().decode
_LINES: Final = str.maketrans({"\u2028": "\\u2028", "\u2029": "\\u2029"})


def field(name: str) -> str:
    """The element of a struct field or map entry."""
    return "f:" + name


def value(item: Any) -> str:
    """The element of a set item."""
    return "v:" + scalar(item)


def key(fields: Sequence[tuple[str, Any]]) -> str:
    """The element of a keyed list item; `fields` are (name, value) pairs."""
    parts = [f"{scalar(name)}:{scalar(item)}" for name, item in sorted(fields, key=_first)]
    return "k:{" + ",".join(parts) + "}"


def scalar(item: Any) -> str:
    """A value inside an element, as JSON."""
    if item.__class__ is str:
        return f'"{item}"' if _escaped(item) is None else gostyle.json_text(item).translate(_LINES)
    if item is True:
        return "true"
    if item is False:
        return "false"
    if item.__class__ is int:
        return str(item)
    if item is None:
        return "null"
    if item.__class__ is float:
        return _float_json(item)
    return gostyle.json_text(item).translate(_LINES)


def canonical(text: str) -> str | None:
    """An element as a client wrote it in the one way we write it.

    None for a kind of element from the future, which readers skip. ValueError if it cannot be read.
    """
    if len(text) < 2:
        raise ValueError("key must be 2 characters long:")
    if text[1] != ":":
        raise ValueError(f"missing colon: {text}")
    kind = text[0]
    if kind == "f":
        return text
    try:
        if kind == "v":
            return value(_decode(text[2:]))
        if kind == "k":
            return key(list(_key_fields(text).items()))
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error
    return f"i:{int(text[2:])}" if kind == "i" else None


def render(text: str) -> str:
    """An element in a path that people read: `.a`, `[name="x",port=80]`, `[="v"]`, `[3]`."""
    kind = text[0]
    if kind == "f":
        return "." + text[2:]
    if kind == "k":
        return "[" + ",".join(f"{name}={_show(item)}" for name, item in _key_fields(text).items()) + "]"
    if kind == "v":
        return f"[={_show(_decode(text[2:]))}]"
    return f"[{text[2:]}]"


def sort_key(text: str) -> tuple[int, Any]:
    """The order of elements: fields by name, then keys, values, positions."""
    kind = text[0]
    if kind == "f":
        return 0, text
    if kind == "k":
        return 1, [(name, _rank(item)) for name, item in _key_fields(text).items()]
    if kind == "v":
        return 2, _rank(_decode(text[2:]))
    return 3, int(text[2:])


def _first(pair: tuple[str, Any]) -> str:
    return pair[0]


def _key_fields(text: str) -> dict[str, Any]:
    fields = _decode(text[2:])
    if not isinstance(fields, dict):
        raise ValueError(f"expected an object in {text}")
    return fields


def _show(item: Any) -> str:
    # Numbers come out of fieldsV1 as float64, so a million reads 1e+06.
    if isinstance(item, int | float) and not isinstance(item, bool):
        return float_text(float(item))
    return gostyle.scalar(item)


def _rank(item: Any) -> tuple[int, Any]:
    """A place in the total order over scalars: numbers, strings, booleans, the rest."""
    if isinstance(item, bool):
        return 2, item
    if isinstance(item, int | float):
        return 0, item
    if isinstance(item, str):
        return 1, item
    return 3, gostyle.json_text(item)


def _float_json(number: float) -> str:
    if number == 0:
        return "0"
    if 1e-6 <= abs(number) < 1e21:
        return format(Decimal(repr(number)), "f").removesuffix(".0")
    return repr(number)
