"""The lines of a watch stream, taken apart with as little work as possible.

A line is ``{"type":"ADDED","object":{…}}``. Servers write it in exactly this form, so the type is read off
the beginning and the object is the rest: no decoding. A line in any other form is decoded properly; the
result is the same.
"""

from typing import Any, Final

import msgspec

from quarterdeck.api.codec import UNREADABLE
from quarterdeck.errors import ApiError, ProtocolError

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"

_PREFIXES: Final = tuple(
    (kind, f'{{"type":"{kind}","object":'.encode())
    for kind in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")
)
_BY_LETTER: Final = {prefix[9:10]: (kind, prefix, len(prefix)) for kind, prefix in _PREFIXES}
"""The first letter of the type is at position 9 and differs between all of them."""


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _BookmarkMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class _Bookmark(msgspec.Struct):
    metadata: _BookmarkMeta


_event: Final = msgspec.json.Decoder(_Event)
_bookmark: Final = msgspec.json.Decoder(_Bookmark)


def split_line(line: bytes) -> tuple[str, bytes]:
    """Type of a line, and its object as JSON; raises ``ProtocolError`` if it is no event.

    The object is not checked here: whoever decodes it finds out whether it is JSON.
    """
    known = _BY_LETTER.get(line[9:10])
    if known is not None and line.startswith(known[1]) and line.endswith(b"}"):
        return known[0], line[known[2] : -1]
    try:
        event = _event.decode(line)
    except UNREADABLE as error:
        raise ProtocolError(f"not a watch event: {error}") from error
    return event.type, bytes(event.object)


def bookmark_of(raw: bytes) -> tuple[str, bool]:
    """Version of a bookmark, and whether it ends the initial events."""
    try:
        metadata = _bookmark.decode(raw).metadata
    except UNREADABLE as error:
        raise ProtocolError(f"not a bookmark: {error}") from error
    return metadata.resource_version, metadata.annotations.get(INITIAL_EVENTS_END) == "true"


def error_of(raw: bytes, path: str) -> ApiError:
    """The exception that an ``ERROR`` event stands for."""
    try:
        status: Any = msgspec.json.decode(raw)
    except UNREADABLE as error:
        raise ProtocolError(f"not a status: {error}") from error
    return ApiError.from_status(status if isinstance(status, dict) else {}, verb="watch", path=path)
