"""Text functions the way Go has them."""

from __future__ import annotations

from typing import Final

_ESCAPES: Final = {
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
# unicode.IsSpace; str.strip() would also take the information separators
SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000"
    "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
)


def quote(text: str) -> str:
    """strconv.Quote."""
    return '"' + "".join(_quoted(c) for c in text) + '"'


def _quoted(c: str) -> str:
    escape = _ESCAPES.get(c)
    if escape is not None:
        return escape
    code = ord(c)
    if c.isprintable() and c != "\u00a0":
        return c
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def trim_space(text: str) -> str:
    """strings.TrimSpace."""
    return text.strip(SPACE)
