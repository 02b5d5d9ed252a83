"""A connection between two processes of one cluster that carries many exchanges at once.

HTTP/1.1 takes a connection for each request that is under way, and for each of them both sides are woken,
read and write. Here requests and answers are numbered messages on one connection, in any order: what is
written in one turn of the loop goes out at once, and arrives at once. A message is its length in four bytes,
then MessagePack. Both ends are ours and of one version, so there is nothing to negotiate.
"""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Generic, TypeVar, cast

import msgspec

__all__ = ["Answer", "Ask", "Link", "link_path"]

_LENGTH: Final = 4
_encode: Final = msgspec.msgpack.Encoder().encode

M = TypeVar("M")


def link_path(socket: Path) -> Path:
    """Where a server accepts links that listens for HTTP at that path."""
    return socket.with_suffix(".link")


class Ask(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A request."""

    number: int
    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Answer(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What became of the request of that number."""

    number: int
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Link(asyncio.Protocol, Generic[M]):
    """One end: hands on the messages that arrive, gathers those that leave."""

    def __init__(
        self, received: type[M], on_message: Callable[[M], None], on_lost: Callable[[], None]
    ) -> None:
        """``received`` is the type of what the other end sends."""
        self._decode: Final = msgspec.msgpack.Decoder(received).decode
        self._on_message: Final = on_message
        self._on_lost: Final = on_lost
        self._loop: Final = asyncio.get_running_loop()
        self._transport: asyncio.WriteTransport | None = None
        self._arrived = bytearray()
        self._leaving: list[bytes] = []

    @property
    def is_open(self) -> bool:
        """Whether messages reach the other end."""
        return self._transport is not None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)  # uvloop's own class

    def data_received(self, data: bytes) -> None:
        self._arrived += data
        for message in list(self._complete()):
            self._on_message(self._decode(message))

    def _complete(self) -> Iterator[memoryview]:
        """The messages that are here as a whole; they are taken out of what has arrived."""
        arrived, begin = bytes(self._arrived), 0
        while len(arrived) - begin >= _LENGTH:
            end = begin + _LENGTH + int.from_bytes(arrived[begin : begin + _LENGTH], "big")
            if end > len(arrived):
                break
            yield memoryview(arrived)[begin + _LENGTH : end]
            begin = end
        del self._arrived[:begin]

    def send(self, message: Ask | Answer) -> None:
        """Send a message with all others of this turn of the loop."""
        if not self._leaving:
            self._loop.call_soon(self._flush)
        encoded = _encode(message)
        self._leaving += (len(encoded).to_bytes(_LENGTH, "big"), encoded)

    def _flush(self) -> None:
        if self._transport is not None and self.is_open:
            self._transport.write(b"".join(self._leaving))
        self._leaving.clear()

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._on_lost()
