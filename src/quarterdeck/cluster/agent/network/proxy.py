"""Services by their addresses: connections are passed on to the endpoints.

Where pods share the machine's network, cluster addresses lead nowhere, so each Service has a loopback address
made from its own. Pods with a network of their own find Services at their cluster addresses, and those with
node ports at the node's. Connections go to the ready endpoints in turn.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from quarterdeck.api.k8s import EndpointSlice, Service
from quarterdeck.cluster.agent.network.dial import Dialer, Stream
from quarterdeck.runtime.log.field import get_logger

_CHUNK: Final = 64 * 1024
_CONNECT_SECONDS: Final = 5.0
_BACKLOG: Final = 100
_log: Final = get_logger(__name__)

Place = tuple[str, int]
Listen = Callable[[Place], Awaitable[socket.socket]]


class Backends(NamedTuple):
    """Where connections are passed on to."""

    places: tuple[Place, ...]
    is_sticky: bool = False
    """Whether a client keeps the endpoint it had."""


def loopback_address(service: Service) -> str:
    """The loopback address for a Service; empty for those without a cluster address of version 4."""
    text = service.spec.cluster_ip
    if text in ("", "None") or service.spec.type == "ExternalName":
        return ""
    try:
        _, second, third, fourth = ipaddress.IPv4Address(text).packed
    except ValueError:
        return ""
    return f"127.{128 | (second & 127)}.{third}.{fourth}"


def backends(
    services: Iterable[Service],
    slices: Iterable[EndpointSlice],
    address_of: Callable[[Service], str] = loopback_address,
    *,
    protocol: str = "TCP",
    server: Place | None = None,
    node: str = "",
) -> dict[Place, Backends]:
    """Where to listen, and where to pass on to, for the ports of one protocol. Pure.

    ``server`` is where the API server is, if pods reach it through here; ``node`` the address for node ports,
    if there are any.
    """
    by_service: dict[tuple[str, str], list[EndpointSlice]] = {}
    for each in slices:
        key = (each.metadata.namespace, each.metadata.labels.get("kubernetes.io/service-name", ""))
        by_service.setdefault(key, []).append(each)
    made: dict[Place, Backends] = {}
    for service in services:
        address, key = address_of(service), (service.metadata.namespace, service.metadata.name)
        is_server = key == ("default", "kubernetes")
        if not address or (is_server and server is None):
            continue
        for port in service.spec.ports:
            if not isinstance(port.port, int) or (port.protocol or "TCP") != protocol:
                continue
            places = (
                [server]
                if is_server and server is not None
                else _endpoints(by_service.get(key, ()), port.name, protocol)
            )
            if not places:
                continue  # refused at once is better than taken and dropped
            found = Backends(tuple(sorted(set(places))), service.spec.session_affinity == "ClientIP")
            made[(address, port.port)] = found
            if node and isinstance(port.node_port, int) and port.node_port:
                made[(node, port.node_port)] = found
    return made


def _endpoints(slices: Iterable[EndpointSlice], name: str, protocol: str) -> list[Place]:
    places: list[Place] = []
    wanted = (name, protocol)
    for each in slices:
        named = (port.port for port in each.ports if (port.name or "", port.protocol or "TCP") == wanted)
        number = next(named, None)
        if isinstance(number, int):
            ready = (end for end in each.endpoints if end.conditions.ready is not False and end.addresses)
            places += [(end.addresses[0], number) for end in ready]
    return places


async def listen_here(place: Place) -> socket.socket:
    """A socket that listens in the machine's own network. Raises ``OSError``."""
    return listening(socket.socket(socket.AF_INET, socket.SOCK_STREAM), place)


def bound(made: socket.socket, place: Place) -> socket.socket:
    """Let a socket take what is sent to a place. Raises ``OSError``; the socket is closed then."""
    try:
        made.setblocking(False)
        made.bind(place)
    except OSError:
        made.close()
        raise
    return made


def listening(made: socket.socket, place: Place) -> socket.socket:
    """Let a socket listen. Raises ``OSError``; the socket is closed then."""
    try:
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(place)
        made.listen(_BACKLOG)
    except OSError:
        made.close()
        raise
    return made


class Rotation:
    """Whose turn it is to be passed on to."""

    def __init__(self) -> None:
        self._turn: Final[dict[Place, int]] = {}
        self._kept: Final[dict[tuple[Place, str], Place]] = {}

    def order(self, place: Place, client: str, found: Backends) -> list[Place]:
        """The endpoints for a client, the next in turn first; where it sticks, the one it had."""
        first = self._turn.get(place, 0)
        self._turn[place] = first + 1
        known = found.places
        order = [known[(first + step) % len(known)] for step in range(len(known))]
        kept = self._kept.get((place, client))
        if found.is_sticky and kept in order:
            order = [kept, *(each for each in order if each != kept)]
        return order

    def note(self, place: Place, client: str, found: Backends, target: Place) -> None:
        """A client was passed on to this one."""
        if found.is_sticky:
            self._kept[place, client] = target

    def forget_others(self, wanted: Mapping[Place, Backends]) -> None:
        """Only these places are left."""
        for key in [each for each in self._kept if each[0] not in wanted]:
            del self._kept[key]
        for place in [each for each in self._turn if each not in wanted]:
            del self._turn[place]


class ServiceProxy:
    """Listens for Services and passes connections on; ``update`` says for which."""

    def __init__(self, dialer: Dialer, listen: Listen = listen_here) -> None:
        self._dialer: Final = dialer
        self._listen: Final = listen
        self._listening: Final[dict[Place, asyncio.Server]] = {}
        self._backends: Mapping[Place, Backends] = {}
        self._rotation: Final = Rotation()
        self._refused: Final[set[Place]] = set()
        self._updating: Final = asyncio.Lock()
        """Held while listening begins: Services and pods change at once, and the last word counts."""
        self._connections: Final[set[asyncio.Task[None]]] = set()

    async def update(self, wanted: Mapping[Place, Backends]) -> None:
        """Listen at these places, and no others."""
        async with self._updating:
            await self._update(wanted)

    async def _update(self, wanted: Mapping[Place, Backends]) -> None:
        self._backends = wanted
        for place in [each for each in self._listening if each not in wanted]:
            self._listening.pop(place).close()
        self._rotation.forget_others(wanted)
        self._refused.intersection_update(wanted)
        for place in wanted:
            if place in self._listening or place in self._refused:
                continue
            try:
                made = await self._listen(place)
                self._listening[place] = await asyncio.start_server(partial(self._serve, place), sock=made)
            except OSError as error:
                self._refused.add(place)
                _log.info("no proxy for a service", address=f"{place[0]}:{place[1]}", error=str(error))

    async def close(self) -> None:
        """Listen to nobody any more."""
        for server in self._listening.values():
            server.close()
        self._listening.clear()
        for task in tuple(self._connections):
            task.cancel()

    async def _serve(self, place: Place, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            onward = await self._connect(place, writer.get_extra_info("peername")[0])
            if onward is not None:
                await _join(reader, writer, *onward)
        finally:
            self._connections.discard(task)
            writer.close()

    async def _connect(self, place: Place, client: str) -> Stream | None:
        """A connection to one of the endpoints, the next in turn first; None if none answers."""
        found = self._backends.get(place)
        if found is None:
            return None
        for target in self._rotation.order(place, client, found):
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CONNECT_SECONDS):
                    opened = await self._dialer.open(*target)
                self._rotation.note(place, client, found, target)
                return opened
        return None


async def _join(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    other_reader: asyncio.StreamReader,
    other_writer: asyncio.StreamWriter,
) -> None:
    """Carry bytes both ways until both sides have ended."""
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_carry(reader, other_writer))
            group.create_task(_carry(other_reader, writer))
    finally:
        other_writer.close()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        if not writer.is_closing() and writer.can_write_eof():  # the other side may be gone altogether
            writer.write_eof()
