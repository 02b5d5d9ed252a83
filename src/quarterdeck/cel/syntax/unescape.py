"""Contents of string and bytes literals."""

from __future__ import annotations

import re
from typing import Final

from quarterdeck.errors import QuarterdeckError

_SIMPLE: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "`": "`",
    "?": "?",
}
_ESCAPE: Final = re.compile(
    r"\\(?:([xX])([0-9a-fA-F]{2})|(u)([0-9a-fA-F]{4})|(U)([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL
)


class UnescapeError(QuarterdeckError, ValueError):
    """A literal with an impossible escape."""


def unescape(text: str, *, is_bytes: bool) -> str | bytes:
    """Value of a literal token, prefix and quotes included."""
    body = text[1:] if is_bytes else text
    raw = body[0] in "rR"
    if raw:
        body = body[1:]
    quote = 3 if body[:3] in ('"""', "'''") and len(body) >= 6 else 1
    body = body[quote:-quote].replace("\r\n", "\n").replace("\r", "\n")
    if is_bytes:
        return body.encode("utf-8", "surrogatepass") if raw else _unescape_bytes(body)
    if raw or "\\" not in body:
        return body
    return _ESCAPE.sub(_character, body)


def _character(match: re.Match[str]) -> str:
    simple = match.group(8)
    if simple is not None:
        return _SIMPLE[simple]
    octal = match.group(7)
    digits = match.group(2) or match.group(4) or match.group(6)
    code = int(octal, 8) if octal is not None else int(digits, 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise UnescapeError("invalid unicode code point")
    return chr(code)


def _unescape_bytes(body: str) -> bytes:
    result = bytearray()
    at = 0
    for match in _ESCAPE.finditer(body):
        result += body[at : match.start()].encode("utf-8", "surrogatepass")
        at = match.end()
        if match.group(3) or match.group(5):
            raise UnescapeError("unable to unescape string")
        if match.group(8) is not None:
            result += _SIMPLE[match.group(8)].encode("utf-8", "surrogatepass")
        else:
            octal = match.group(7)
            result.append(int(octal, 8) if octal is not None else int(match.group(2), 16))
    result += body[at:].encode("utf-8", "surrogatepass")
    return bytes(result)
