"""Values printed the way Go prints them.

Kubernetes error texts show values through Go's formatting verbs. Everything that has to look
like `%q`, `%v` or `json.Marshal` on the wire goes through this module.
"""

from __future__ import annotations

from typing import Any

import msgspec

_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}
_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def quote(text: str) -> str:
    """`text` as Go's `%q` prints it."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_quote_char(char) for char in text) + '"'


def _quote_char(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def json_text(value: Any) -> str:
    """`value` as Go's `json.Marshal` writes it: map keys sorted, `<`, `>` and `&` escaped."""
    return msgspec.json.encode(value, order="sorted").decode().translate(_HTML)


def scalar(value: Any) -> str:
    """A value inside an error text: strings quoted, scalars plain, nil `null`, the rest as JSON."""
    if isinstance(value, str):
        return quote(value)
    if value is True:
        return "true"
    if value is False:
        return "false"
    if value is None:
        return "null"
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, int):
        return str(value)
    return json_text(value)


def float_text(value: float) -> str:
    """A float64 as Go's `%v` prints it: shortest form, exponent below 1e-4 and from 1e21 on."""
    if value != value:  # NaN
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    magnitude = abs(value)
    if value == 0 or 1e-4 <= magnitude < 1e21:
        text = repr(value)
        if "e" in text:
            text = f"{value:f}"
        return text[:-2] if text.endswith(".0") else text
    mantissa, _, exponent = repr(value).partition("e")
    if not exponent:
        mantissa, _, exponent = f"{value:.17g}".partition("e")
    mantissa = mantissa.removesuffix(".0")
    sign = "-" if exponent.startswith("-") else "+"
    return f"{mantissa}e{sign}{exponent.lstrip('+-').zfill(2)}"
