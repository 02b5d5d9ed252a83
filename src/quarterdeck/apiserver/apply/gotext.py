"""JSON values as Go's `%v` and `%#v` print them.

Errors about an apply configuration show Go values raw. Only texts that reach the wire are built here.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from quarterdeck.apiserver import gostyle

__all__ = ["float_text", "plain", "syntax", "type_name"]


def plain(value: Any) -> str:
    """`%v`: strings bare, maps `map[a:1 b:2]` by key, lists `[1 x]`."""
    if isinstance(value, str):
        return value
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{plain(value[key])}" for key in sorted(value)) + "]"
    return "[" + " ".join(plain(item) for item in value) + "]"


def syntax(value: Any) -> str:
    """`%#v`: a Go literal."""
    if isinstance(value, str):
        return gostyle.quote(value)
    if value is None:
        return "interface {}(nil)"
    if isinstance(value, dict):
        items = ", ".join(f"{gostyle.quote(key)}:{syntax(value[key])}" for key in sorted(value))
        return "map[string]interface {}{" + items + "}"
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(syntax(item) for item in value) + "}"
    return plain(value)


def type_name(value: Any) -> str:
    """`%T`."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int):
        return "int64"
    if isinstance(value, float):
        return "float64"
    return "map[string]interface {}" if isinstance(value, dict) else "[]interface {}"


def float_text(value: float) -> str:
    """A float64 under `%v`: shortest digits, with an exponent below 1e-4 and from 1e6 on."""
    if value == 0:
        return "0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    if not isinstance(exponent, int):  # an infinity; JSON has none
        return repr(value)
    scientific = len(digits) - 1 + exponent
    if -4 <= scientific < 6:
        return format(Decimal(repr(value)), "f").removesuffix(".0")
    text = "".join(map(str, digits))
    mantissa = text[0] + ("." + text[1:] if len(text) > 1 else "")
    return f"{'-' if sign else ''}{mantissa}e{'-' if scientific < 0 else '+'}{abs(scientific):02d}"
