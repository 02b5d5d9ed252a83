"""Values printed the way Go prints them.

Texts of Kubernetes show values through Go's formatting verbs. Everything that has to look like `%q`, `%v`,
`%#v`, `%T` or `json.Marshal` goes through this module; numbers are in `gonumber`, durations in
`quarterdeck.api`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from quarterdeck.api import to_dict

from .gonumber import float_text, json_float

ESCAPES: Final = {
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
_HTML: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
_INT64: Final = range(-(2**63), 2**63)
# unicode.IsSpace; str.strip() would also take the information separators
SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000"
    "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
)


def quote(text: str) -> str:
    """``strconv.Quote``, which is ``%q``."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_quoted(c) for c in text) + '"'


def _quoted(c: str) -> str:
    escape = ESCAPES.get(c)
    if escape is not None:
        return escape
    code = ord(c)
    if c.isprintable():
        return c
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def trim_space(text: str) -> str:
    """strings.TrimSpace."""
    return text.strip(SPACE)


def json_text(value: Any) -> str:
    """`value` as Go's `json.Marshal` writes it: keys of maps sorted, fields of typed objects as declared."""
    if _is_typed(value):
        return escaped(msgspec.json.encode(encodable(to_dict(value)))).decode()
    return escaped(msgspec.json.encode(encodable(value), order="sorted")).decode()


def _is_typed(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_is_typed, value))
    return isinstance(value, msgspec.Struct)


def escaped(text: bytes) -> bytes:
    """A JSON text with the escapes that Go adds for HTML."""
    return text.decode().translate(_HTML).encode()


def encodable(value: Any) -> Any:
    """A document whose numbers the encoder writes as Go's would: `2`, `1e+30`."""
    kind = type(value)
    if kind is dict:
        return {key: encodable(item) for key, item in value.items()}
    if kind is list:
        return [encodable(item) for item in value]
    if kind is float or (kind is int and value not in _INT64):
        return msgspec.Raw(json_float(_float64(value)).encode())
    return value


def _float64(value: int | float) -> float:
    """What Go reads that does not fit int64; beyond a float's range it is infinite."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


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
    if isinstance(value, int) and value in _INT64:
        return str(value)
    if isinstance(value, int | float):
        return float_text(_float64(value))
    return json_text(value)


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
    if isinstance(value, Mapping):
        return "map[" + " ".join(f"{key}:{plain(value[key])}" for key in sorted(value)) + "]"
    return "[" + " ".join(plain(item) for item in value) + "]"


def syntax(value: Any) -> str:
    """`%#v`: a Go literal."""
    if isinstance(value, str):
        return quote(value)
    if value is None:
        return "interface {}(nil)"
    if isinstance(value, dict):
        items = ", ".join(f"{quote(key)}:{syntax(value[key])}" for key in sorted(value))
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
