"""Datagrams (UDP) for Services and host ports, passed on to pods and back.

There are no connections to carry on: whoever sends something has a session, with an endpoint of its own. It
ends when nothing has been sent either way for a while, or when the endpoint is none any more.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import Final, cast

from quarterdeck.cluster.agent.network.dial import Dialer
from quarterdeck.cluster.agent.network.proxy import Backends, Listen, Place, Rotation, bound
from quarterdeck.runtime.log.field import get_logger

_IDLE_SECONDS: Final = 120.0
"""As long as the kernel remembers a stream of datagrams that it translates the addresses of."""
_MOST_SESSIONS: Final = 1024
"""Of one place; beyond that the one that has been idle longest ends."""
_MOST_WAITING: Final = 64
"""Datagrams that are kept while a session begins."""
_log: Final = get_logger(__name__)


async def take_here(place: Place) -> socket.socket:
    """A socket that takes datagrams in the machine's own network. Raises ``OSError``."""
    return bound(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), place)


class DatagramProxy:
    """Takes datagrams at places and passes them on; ``update`` says at which."""

    def __init__(
        self, dialer: Dialer, listen: Listen = take_here, *, idle_seconds: float = _IDLE_SECONDS
    ) -> None:
        self._dialer: Final = dialer
        self._listen: Final = listen
        self._idle_seconds: Final = idle_seconds
        self._listeners: Final[dict[Place, _Listener]] = {}
        self._refused: Final[set[Place]] = set()
        self._rotation: Final = Rotation()
        self._updating: Final = asyncio.Lock()

    @property
    def sessions(self) -> int:
        """How many there are."""
        return sum(each.sessions for each in self._listeners.values())

    async def update(self, wanted: Mapping[Place, Backends]) -> None:
        """Take datagrams at these places, and no others."""
        async with self._updating:
            for place in [each for each in self._listeners if each not in wanted]:
                self._listeners.pop(place).close()
            self._rotation.forget_others(wanted)
            self._refused.intersection_update(wanted)
            for place, found in wanted.items():
                listener = self._listeners.get(place)
                if listener is not None:
                    listener.change(found)
                elif place not in self._refused:
                    await self._open(place, found)

    async def _open(self, place: Place, found: Backends) -> None:
        listener = _Listener(self._dialer, self._rotation, place, found, self._idle_seconds)
        try:
            taking = await self._listen(place)
            await asyncio.get_running_loop().create_datagram_endpoint(lambda: listener, sock=taking)
        except OSError as error:
            self._refused.add(place)
            _log.info("no proxy for datagrams", address=f"{place[0]}:{place[1]}", error=str(error))
        else:
            self._listeners[place] = listener

    async def close(self) -> None:
        """Take nothing any more."""
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()


class _Listener(asyncio.DatagramProtocol):
    """One place, and the sessions of those who send to it."""

    def __init__(
        self, dialer: Dialer, rotation: Rotation, place: Place, found: Backends, idle_seconds: float
    ) -> None:
        self._dialer: Final = dialer
        self._rotation: Final = rotation
        self._place: Final = place
        self._found = found
        self._idle_seconds: Final = idle_seconds
        self._sweeping: asyncio.TimerHandle | None = None
        self._transport: asyncio.DatagramTransport | None = None
        self._sessions: Final[dict[Place, _Session]] = {}
        """By client, the one with the latest datagram last."""
        self._opening: Final[set[asyncio.Task[None]]] = set()

    @property
    def sessions(self) -> int:
        return len(self._sessions)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, client: Place) -> None:
        session = self._sessions.pop(client, None)
        if session is None:
            session = self._begin(client)
        self._sessions[client] = session
        session.send(data)

    def _begin(self, client: Place) -> _Session:
        if len(self._sessions) >= _MOST_SESSIONS:
            self.end(next(iter(self._sessions)))
        target = self._rotation.order(self._place, client[0], self._found)[0]
        self._rotation.note(self._place, client[0], self._found, target)
        session = _Session(self, client, target)
        loop = asyncio.get_running_loop()
        if self._sweeping is None:
            self._sweeping = loop.call_later(self._idle_seconds, self._sweep)
        task = loop.create_task(session.open(self._dialer))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        return session

    def _sweep(self) -> None:
        """End sessions that are idle."""
        loop = asyncio.get_running_loop()
        before = loop.time() - self._idle_seconds
        for client in [each for each, session in self._sessions.items() if session.heard <= before]:
            self.end(client)
        again = loop.call_later(self._idle_seconds, self._sweep) if self._sessions else None
        self._sweeping = again

    def answer(self, data: bytes, client: Place) -> None:
        """Send something back to a client."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(data, client)

    def end(self, client: Place) -> None:
        """End the session of a client, if it has one."""
        session = self._sessions.pop(client, None)
        if session is not None:
            session.close()

    def change(self, found: Backends) -> None:
        """The endpoints have changed; sessions with those that are left go on."""
        self._found = found
        for client in [each for each, one in self._sessions.items() if one.target not in found.places]:
            self.end(client)

    def close(self) -> None:
        for client in list(self._sessions):
            self.end(client)
        for task in tuple(self._opening):
            task.cancel()
        if self._sweeping is not None:
            self._sweeping.cancel()
        if self._transport is not None:
            self._transport.close()


class _Session(asyncio.DatagramProtocol):
    """What one client sends to one endpoint, and what comes back."""

    def __init__(self, listener: _Listener, client: Place, target: Place) -> None:
        self.target: Final = target
        self._door: Final = listener
        self._client: Final = client
        self._loop: Final = asyncio.get_running_loop()
        self._transport: asyncio.DatagramTransport | None = None
        self._waiting: list[bytes] = []
        self._is_closed = False
        self.heard = self._loop.time()

    async def open(self, dialer: Dialer) -> None:
        try:
            made = await dialer.connected(*self.target, socket.SOCK_DGRAM)
            await asyncio.get_running_loop().create_datagram_endpoint(lambda: self, sock=made)
        except OSError:
            self._door.end(self._client)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)
        if self._is_closed:
            self._transport.close()
            return
        for data in self._waiting:
            self._transport.sendto(data)
        self._waiting = []

    def send(self, data: bytes) -> None:
        """Pass something on; at the beginning it waits, as far as there is room for it."""
        self.heard = self._loop.time()
        if self._transport is not None:
            self._transport.sendto(data)
        elif len(self._waiting) < _MOST_WAITING:
            self._waiting.append(data)

    def datagram_received(self, data: bytes, _sender: Place) -> None:
        self.heard = self._loop.time()
        self._door.answer(data, self._client)

    def error_received(self, _error: Exception) -> None:
        """Nobody is there: the next datagram finds another."""
        self._door.end(self._client)

    def close(self) -> None:
        self._is_closed = True
        if self._transport is not None:
            self._transport.close()
