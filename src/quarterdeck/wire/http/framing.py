"""The bytes of an answer: status line, headers, chunks."""

import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, TypeAlias

from .message import Response

Stamp: TypeAlias = Callable[[Response], bytes]
"""Header lines that a server puts into every answer, each with its line end."""

# What Go calls these; what Python does depends on its version.
_REASONS: Final = {status.value: status.phrase for status in HTTPStatus} | {
    413: "Request Entity Too Large",
    414: "Request URI Too Long",
    416: "Requested Range Not Satisfiable",
    418: "I'm a teapot",
    422: "Unprocessable Entity",
}
_STATUS_LINES: Final = {code: f"HTTP/1.1 {code} {reason}\r\n".encode() for code, reason in _REASONS.items()}
_BODILESS: Final = frozenset({101, 204, 304})


class _DateHeader:
    """``Date:`` changes once a second; formatting it for each response would not pay."""

    def __init__(self) -> None:
        self._second = 0
        self._line = b""

    def line(self) -> bytes:
        now = int(time.time())
        if now != self._second:
            self._second = now
            self._line = time.strftime("Date: %a, %d %b %Y %H:%M:%S GMT\r\n", time.gmtime(now)).encode()
        return self._line


_date: Final = _DateHeader()


def has_body(status: int) -> bool:
    """Whether answers of this status have a body, or at least its length."""
    return status not in _BODILESS


def render_head(
    response: Response,
    length: int | None,
    *,
    stamp: Stamp | None = None,
    close: bool = False,
    is_old: bool = False,
) -> bytes:
    """Status line and headers; ``length`` ``None`` means chunks, or for HTTP/1.0 (``is_old``) the rest."""
    status = response.status
    parts = [_STATUS_LINES.get(status) or f"HTTP/1.1 {status} Status\r\n".encode()]
    if is_old:
        parts[0] = b"HTTP/1.0" + parts[0][8:]
        if not close:
            parts.append(b"Connection: keep-alive\r\n")
    if stamp is not None:
        parts.append(stamp(response))
    if response.headers:
        lines = "".join([f"{name}: {value}\r\n" for name, value in response.headers])
        parts.append(lines.encode("utf-8", "replace"))
    parts.append(_date.line())
    if close and not is_old:
        parts.append(b"Connection: close\r\n")
    if status in _BODILESS:
        parts.append(b"\r\n")
        return b"".join(parts)
    parts.append(b"Content-Type: %b\r\n" % response.content_type.encode())
    if length is not None:
        parts.append(b"Content-Length: %d\r\n\r\n" % length)
    else:
        parts.append(b"\r\n" if is_old else b"Transfer-Encoding: chunked\r\n\r\n")
    return b"".join(parts)


def render_refusal(status: int, why: str = "", body: str = "") -> bytes:
    """A whole answer to what is no request, in the words of Go's server; the connection ends with it."""
    line = f"{status} {_REASONS[status]}{': ' if why else ''}{why}"
    head = f"HTTP/1.1 {line}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    return (head + (body or line)).encode("latin-1", "replace")


def frame(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def unframe(chunk: bytes) -> bytes:
    """What is in a chunk made by ``frame``."""
    return chunk[chunk.index(b"\r\n") + 2 : -2]
