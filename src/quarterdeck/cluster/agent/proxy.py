"""Services by name: an address on this machine for each, and connections passed on to its endpoints.

The cluster addresses of Services are none that a machine routes, so each Service has a loopback address made
from it, at which the agent listens. Connections go to the ready endpoints in turn.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from quarterdeck.api.k8s import EndpointSlice, Service
from quarterdeck.runtime.log.field import get_logger

__all__ = ["ServiceProxy", "backends", "service_address"]

_CHUNK: Final = 64 * 1024
_CONNECT_SECONDS: Final = 5.0
_log: Final = get_logger(__name__)

Place = tuple[str, int]


def service_address(service: Service) -> str:
    """The loopback address for a Service; empty for those without a cluster address of version 4."""
    text = service.spec.cluster_ip
    if text in ("", "None") or service.spec.type == "ExternalName":
        return ""
    try:
        _, second, third, fourth = ipaddress.IPv4Address(text).packed
    except ValueError:
        return ""
    return f"127.{128 | (second & 127)}.{third}.{fourth}"


def backends(services: Iterable[Service], slices: Iterable[EndpointSlice]) -> dict[Place, list[Place]]:
    """Where to listen, and where to pass on to. Pure."""
    by_service: dict[tuple[str, str], list[EndpointSlice]] = {}
    for each in slices:
        key = (each.metadata.namespace, each.metadata.labels.get("kubernetes.io/service-name", ""))
        by_service.setdefault(key, []).append(each)
    made: dict[Place, list[Place]] = {}
    for service in services:
        address = service_address(service)
        if not address or (service.metadata.name == "kubernetes" and service.metadata.namespace == "default"):
            continue
        for port in service.spec.ports:
            if not isinstance(port.port, int) or (port.protocol or "TCP") != "TCP":
                continue
            places: list[Place] = []
            for each in by_service.get((service.metadata.namespace, service.metadata.name), ()):
                number = next((p.port for p in each.ports if (p.name or "") == port.name), None)
                if not isinstance(number, int):
                    continue
                ready = (end for end in each.endpoints if end.conditions.ready is not False and end.addresses)
                places += [(end.addresses[0], number) for end in ready]
            made[(address, port.port)] = sorted(set(places))
    return made


class ServiceProxy:
    """Listens for Services and passes connections on; ``update`` says for which."""

    def __init__(self) -> None:
        self._listening: Final[dict[Place, asyncio.Server]] = {}
        self._backends: Mapping[Place, list[Place]] = {}
        self._turn: Final[dict[Place, int]] = {}
        self._refused: Final[set[Place]] = set()
        self._connections: Final[set[asyncio.Task[None]]] = set()

    async def update(self, wanted: Mapping[Place, list[Place]]) -> None:
        """Serve these Services, and no others."""
        self._backends = wanted
        for place in [each for each in self._listening if each not in wanted]:
            self._listening.pop(place).close()
        self._refused.intersection_update(wanted)
        for place in wanted:
            if place in self._listening or place in self._refused:
                continue
            try:
                self._listening[place] = await asyncio.start_server(partial(self._serve, place), *place)
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
            onward = await self._connect(place)
            if onward is not None:
                await _join(reader, writer, *onward)
        finally:
            self._connections.discard(task)
            writer.close()

    async def _connect(self, place: Place) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """A connection to one of the endpoints, the next in turn first; None if none answers."""
        known = self._backends.get(place, [])
        first = self._turn.get(place, 0)
        self._turn[place] = first + 1
        for step in range(len(known)):
            host, port = known[(first + step) % len(known)]
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return await asyncio.open_connection(host, port)
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
        if writer.can_write_eof():
            writer.write_eof()
