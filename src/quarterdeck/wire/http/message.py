"""HTTP messages and routes: what a handler gets and gives.

Handlers answer with bytes that are ready to send, with a ``Stream`` that pushes chunks for as long as it
likes (watches), or with a ``takeover`` that speaks another protocol on the connection (101). The same
messages serve requests that never touch a socket.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias
from urllib.parse import parse_qsl, unquote

import msgspec

from .limit import MIB
from .upgrade import Takeover

_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


class Request:
    """One request. Header names are lower-case; the path is decoded, the query parsed on first use."""

    __slots__ = (
        "_query",
        "body",
        "caller",
        "headers",
        "is_too_large",
        "method",
        "path",
        "peer",
        "raw_path",
        "raw_query",
        "repeated",
    )

    def __init__(
        self,
        method: str,
        raw_path: str,
        raw_query: str = "",
        headers: Mapping[str, str] = _NO_HEADERS,
        body: bytes = b"",
        *,
        peer: object = None,
        repeated: Sequence[tuple[str, str]] = (),
        is_too_large: bool = False,
    ) -> None:
        self.method = method
        self.raw_path = raw_path
        self.path = unquote(raw_path) if "%" in raw_path else raw_path
        self.raw_query = raw_query
        self.headers = headers
        self.body = body
        #: who is at the other end, as the transport knows it
        self.peer = peer
        #: each value of the headers that were given more than once, in order
        self.repeated = repeated
        #: the body exceeded the route's limit and was thrown away
        self.is_too_large = is_too_large
        #: what ``Find`` learned about the sender before the body was read, for the handler
        self.caller: object = None
        self._query: dict[str, list[str]] | None = None

    @property
    def query(self) -> dict[str, list[str]]:
        if self._query is None:
            self._query = parse_query(self.raw_query)
        return self._query

    def header(self, name: str) -> str:
        """The header of a (lower-case) name, or the empty string; repeated ones are joined by commas."""
        return self.headers.get(name, "")

    def header_items(self) -> list[tuple[str, str]]:
        """Names and values with repeated headers one by one; ``headers`` joins those with commas."""
        joined = {name for name, _ in self.repeated}
        return [item for item in self.headers.items() if item[0] not in joined] + list(self.repeated)

    def param(self, name: str, default: str = "") -> str:
        """The first value of a query parameter."""
        if not self.raw_query:
            return default
        values = self.query.get(name)
        return values[0] if values else default

    def set_param(self, name: str, value: str) -> None:
        """Put a query parameter in place of what the client gave."""
        self.query[name] = [value]
        self.raw_query = self.raw_query or f"{name}="


def parse_query(query: str) -> dict[str, list[str]]:
    """The values of each parameter, in order."""
    parsed: dict[str, list[str]] = {}
    if query:
        for key, value in parse_qsl(query, keep_blank_values=True):
            parsed.setdefault(key, []).append(value)
    return parsed


class ChunkWriter(Protocol):
    """Where a stream writes."""

    def write(self, data: bytes) -> None: ...

    def write_framed(self, chunk: bytes) -> None:
        """Write what ``frame`` made: many streams share one framed chunk."""
        ...

    def buffered(self) -> int:
        """Bytes written that the reader has not taken yet."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether the reader should take something before more is written."""
        ...

    async def drain(self) -> None:
        """Wait until it is not full, or the reader is gone."""
        ...

    def finish(self) -> None:
        """End the body cleanly; the connection stays usable."""
        ...

    def abort(self) -> None:
        """Cut the connection."""
        ...


class Stream(Protocol):
    """A body that is pushed. ``start`` is called once the head is on its way."""

    def start(self, writer: ChunkWriter) -> None: ...

    def closed(self) -> None:
        """The reader went away or the stream finished; called once."""
        ...


class Response:
    """An answer.

    ``parts`` stand in place of ``body`` and are sent one after the other, as many together as is quick;
    ``stream`` is a body that is pushed. ``takeover`` goes with status 101: it gets the connection once the
    head is on its way.
    """

    __slots__ = ("body", "content_type", "headers", "parts", "status", "stream", "takeover")

    def __init__(
        self,
        status: int,
        body: bytes = b"",
        content_type: str = "application/json",
        headers: Iterable[tuple[str, str]] = (),
        *,
        parts: Sequence[bytes] = (),
        stream: Stream | None = None,
        takeover: Takeover | None = None,
    ) -> None:
        self.status = status
        self.body = body
        self.content_type = content_type
        self.headers = headers
        self.parts = parts
        self.stream = stream
        self.takeover = takeover

    def body_bytes(self) -> bytes:
        """The whole body in one piece; not that of a stream."""
        return b"".join(self.parts) if self.parts else self.body


def text(status: int, body: str) -> Response:
    """An answer in plain text."""
    return Response(
        status, body.encode(), "text/plain; charset=utf-8", (("X-Content-Type-Options", "nosniff"),)
    )


Handler: TypeAlias = Callable[[Request], Response | Awaitable[Response]]


class Route(msgspec.Struct, frozen=True):
    """What serves a request."""

    handler: Handler
    body_limit: int = MIB
    """Bytes; larger bodies are not kept and ``Request.is_too_large`` is set."""


Find: TypeAlias = Callable[[Request], Route | Response]
"""Decides by the head of a request, before its body is read: who serves it, or a refusal."""
