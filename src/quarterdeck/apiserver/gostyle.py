"""Values printed the way Go prints them.

Kubernetes error texts show values through Go's formatting verbs. Everything that has to look
like `%q`, `%v` or `json.Marshal` on the wire goes through this module.
"""

from __future__ import annotations

from typing import Any

import msgspec

from quarterdeck.api.gotext import quote

__all__ = ["escaped", "float_text", "json_text", "quote", "scalar"]

_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def json_text(value: Any) -> str:
    """`value` as Go's `json.Marshal` writes it: map keys sorted, `<`, `>` and `&` escaped."""
    return escaped(msgspec.json.encode(_go_numbers(value), order="sorted")).decode()


def escaped(text: bytes) -> bytes:
    """A JSON text with the escapes that Go adds for HTML."""
    return text.decode().translate(_HTML).encode()


def _go_numbers(value: Any) -> Any:
    """Floats as Go's encoder writes them: `2`, `1e+30`."""
    if isinstance(value, float):
        if value.is_integer() and abs(value) < 1e21:
            return int(value)
        mantissa, mark, exponent = repr(value).partition("e")
        if mark and exponent[0] not in "+-":
            exponent = "+" + exponent
        return msgspec.Raw(f"{mantissa}{mark}{exponent}".encode())
    if isinstance(value, dict):
        return {key: _go_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_go_numbers(item) for item in value]
    return value


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
    """A float64 as Go's `%v` prints it: shortest digits, an exponent below 1e-4 and from 1e6 on."""
    if value != value:  # NaN
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        return repr(value).removesuffix(".0")
    digits, _, exponent = f"{value:.16e}".partition("e")
    for precision in range(17):  # the fewest digits that read back as the same number
        text = f"{value:.{precision}e}"
        if float(text) == value:
            digits, _, exponent = text.partition("e")
            break
    return f"{digits}e{exponent[0]}{exponent[1:].zfill(2)}"
