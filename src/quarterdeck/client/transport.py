"""Between verbs and bytes: what any transport must offer.

A transport carries one HTTP exchange: a method, a path, a query, headers and a body go in; a status,
headers and a body (or a stream of chunks) come out. The HTTP transport does it over sockets, the
embedded server implements the very same protocol directly, and a test can do it with a function. There
is nothing else to it: no kinds, no retries, no decoding.

Contract:

- ``path`` is percent-encoded and starts with ``/``; ``query`` is percent-encoded without ``?``.
- Header names are matched without regard to case; a header may occur more than once.
- ``request`` raises ``TransportError`` (never ``ApiError``): every answer is an answer, also a 500.
- ``stream`` returns as soon as status and headers are known. Its chunks may cut lines anywhere. Closing
  the stream frees whatever it holds; leaving the ``async with`` block closes it.
- Cancelling either call abandons the exchange and frees its resources.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from types import TracebackType
from typing import Final, Protocol, Self, TypeAlias

Headers: TypeAlias = Sequence[tuple[str, str]]
"""Header fields in order; names may repeat."""


class Response:
    """A complete answer."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, body: bytes = b"", headers: Headers = ()) -> None:
        self.status: Final = status
        self.body: Final = body
        self.headers: Final = headers

    def header(self, name: str) -> str:
        """The first header of that name, or the empty string."""
        return next(iter(self.header_values(name)), "")

    def header_values(self, name: str) -> list[str]:
        """All headers of that name."""
        wanted = name.lower()
        return [value for key, value in self.headers if key.lower() == wanted]

    def __repr__(self) -> str:
        return f"Response({self.status}, {len(self.body)} bytes)"


async def _no_close() -> None:
    return None


def _no_gather(pace: float) -> None:
    return None


class Stream:
    """An answer whose body arrives over time."""

    __slots__ = ("_chunks", "_close", "gather", "headers", "status")

    def __init__(
        self,
        status: int,
        chunks: AsyncIterator[bytes],
        headers: Headers = (),
        close: Callable[[], Awaitable[None]] = _no_close,
        gather: Callable[[float], None] = _no_gather,
    ) -> None:
        self.status: Final = status
        self.headers: Final = headers
        self.gather: Final = gather
        """Ask for small chunks no more often than every so many seconds; 0 means as they arrive.

        For somebody who reads a lot and is in no hurry: waking up for every few bytes costs more than
        the bytes do. A transport to which that does not apply takes no notice.
        """
        self._chunks = chunks
        self._close = close

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._chunks

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the exchange; harmless when it has ended already."""
        await self._close()
        if isinstance(self._chunks, AsyncGenerator):
            await self._chunks.aclose()

    async def read(self) -> bytes:
        """The rest of the body, for answers that turn out to be errors."""
        return b"".join([chunk async for chunk in self._chunks])


class Transport(Protocol):
    """Carries requests to one API server."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: str = "",
        headers: Headers = (),
        body: bytes = b"",
        timeout: float | None = None,
    ) -> Response:
        """One exchange; ``timeout`` in seconds covers all of it, ``None`` means the transport's default."""
        ...

    async def stream(
        self,
        method: str,
        path: str,
        *,
        query: str = "",
        headers: Headers = (),
        body: bytes = b"",
        timeout: float | None = None,
    ) -> Stream:
        """Open a streamed exchange; ``timeout`` covers the time until the headers are there."""
        ...

    async def aclose(self) -> None:
        """Release connections; running exchanges fail."""
        ...
