"""Names of Services and pods for resolvers, in the network of the pods: as much of DNS as they ask for.

A, SRV, CNAME and PTR records below ``cluster.local``, by UDP and TCP. Other names do not exist: nothing is
asked elsewhere. ``Zone`` and ``answer`` are pure.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import struct
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from quarterdeck.api.k8s import EndpointSlice, Service
from quarterdeck.cluster.agent.network.hosts import DOMAIN
from quarterdeck.runtime.log.field import get_logger

A, CNAME, PTR, AAAA, SRV, ANY = 1, 5, 12, 28, 33, 255
_IN: Final = 1
_TTL: Final = 5
_NO_SUCH_NAME: Final = 3
_BAD_QUERY: Final = 1
_RESPONSE, _AUTHORITATIVE, _TRUNCATED, _RECURSION, _RECURSES = 0x8000, 0x0400, 0x0200, 0x0100, 0x0080
_UDP_LIMIT: Final = 1232
_PORT: Final = 53
_log: Final = get_logger(__name__)


class Record(NamedTuple):
    """What a name stands for: an address, another name, or a port at one."""

    kind: int
    value: str
    port: int = 0


class Zone:
    """The names of a cluster."""

    def __init__(self, services: Iterable[Service] = (), slices: Iterable[EndpointSlice] = ()) -> None:
        self._records: Final[dict[str, list[Record]]] = {}
        by_service: dict[tuple[str, str], list[EndpointSlice]] = {}
        for each in slices:
            key = (each.metadata.namespace, each.metadata.labels.get("kubernetes.io/service-name", ""))
            by_service.setdefault(key, []).append(each)
        for service in services:
            key = (service.metadata.namespace, service.metadata.name)
            self._add_service(service, by_service.get(key, ()))

    def find(self, name: str) -> Sequence[Record] | None:
        """The records of a name, which is in lower case; None if there is no such name."""
        found = self._records.get(name)
        if found is not None:
            return found
        address, dot, rest = name.partition(".")
        if dot and rest.endswith(f".pod.{DOMAIN}") and rest.count(".") == 3:
            with suppress(ValueError):
                return [Record(A, str(ipaddress.IPv4Address(address.replace("-", "."))))]
        if any(each.endswith(f".{name}") for each in self._records):
            return ()  # there is something below it
        return None

    def _add(self, name: str, record: Record) -> None:
        known = self._records.setdefault(name.lower(), [])
        if record not in known:
            known.append(record)

    def _add_service(self, service: Service, slices: Iterable[EndpointSlice]) -> None:
        whole = f"{service.metadata.name}.{service.metadata.namespace}.svc.{DOMAIN}"
        if service.spec.type == "ExternalName":
            self._add(whole, Record(CNAME, service.spec.external_name.rstrip(".")))
            return
        address = service.spec.cluster_ip
        if address and address != "None":
            self._add(whole, Record(A, address))
            self._add(_reverse(address), Record(PTR, whole))
            for port in service.spec.ports:
                if port.name and isinstance(port.port, int):
                    protocol = (port.protocol or "TCP").lower()
                    self._add(f"_{port.name}._{protocol}.{whole}", Record(SRV, whole, port.port))
            return
        shows_all = service.spec.publish_not_ready_addresses is True
        for each in slices:
            for endpoint in each.endpoints:
                if not endpoint.addresses or (endpoint.conditions.ready is False and not shows_all):
                    continue
                self._add_endpoint(whole, endpoint.addresses[0], str(endpoint.hostname or ""), each)

    def _add_endpoint(self, whole: str, address: str, hostname: str, slice: EndpointSlice) -> None:
        own = f"{hostname or address.replace('.', '-')}.{whole}"
        self._add(whole, Record(A, address))
        self._add(own, Record(A, address))
        if hostname:
            self._add(_reverse(address), Record(PTR, own))
        for port in slice.ports:
            if port.name and isinstance(port.port, int):
                protocol = (port.protocol or "TCP").lower()
                self._add(f"_{port.name}._{protocol}.{whole}", Record(SRV, own, port.port))


def _reverse(address: str) -> str:
    return f"{'.'.join(reversed(address.split('.')))}.in-addr.arpa"


def answer(query: bytes, zone: Zone, limit: int = 65535) -> bytes:
    """The answer to a question; empty for what is none. Pure."""
    if len(query) < 12:
        return b""
    number, flags, questions = struct.unpack_from(">HHH", query)
    if flags & _RESPONSE:
        return b""
    head = _RESPONSE | _AUTHORITATIVE | _RECURSES | (flags & _RECURSION)  # there is nobody else to ask
    parsed = _question(query) if questions == 1 else None
    if parsed is None:
        return struct.pack(">HHHHHH", number, head | _BAD_QUERY, 0, 0, 0, 0)
    name, kind, end = parsed
    records = _follow(zone, name, kind)
    asked = query[12:end]
    if records is None:
        return struct.pack(">HHHHHH", number, head | _NO_SUCH_NAME, 1, 0, 0, 0) + asked
    body = b"".join(_encoded(owner, record) for owner, record in records)
    if 12 + len(asked) + len(body) > limit:
        return struct.pack(">HHHHHH", number, head | _TRUNCATED, 1, 0, 0, 0) + asked
    return struct.pack(">HHHHHH", number, head, 1, len(records), 0, 0) + asked + body


def _follow(zone: Zone, name: str, kind: int) -> list[tuple[str, Record]] | None:
    """The records that answer a question; those that another name stands for behind it."""
    found = zone.find(name.lower())
    if found is None:
        return None
    made: list[tuple[str, Record]] = []
    for record in found:
        if kind in (record.kind, ANY):
            made.append((name, record))
        elif record.kind == CNAME:
            made.append((name, record))
            made += [
                (record.value, each) for each in zone.find(record.value.lower()) or () if each.kind == kind
            ]
    return made


def _question(query: bytes) -> tuple[str, int, int] | None:
    """Name, kind, and where the question ends."""
    labels, place = [], 12
    while place < len(query) and query[place]:
        size = query[place]
        if size > 63 or place + 1 + size > len(query):
            return None
        labels.append(query[place + 1 : place + 1 + size].decode("ascii", "replace"))
        place += 1 + size
    if place + 5 > len(query):
        return None
    kind, family = struct.unpack_from(">HH", query, place + 1)
    return (".".join(labels), kind, place + 5) if family in (_IN, ANY) else None


def _name(text: str) -> bytes:
    labels = [each.encode("ascii", "replace")[:63] for each in text.split(".") if each]
    return b"".join(bytes([len(each)]) + each for each in labels) + b"\0"


def _encoded(owner: str, record: Record) -> bytes:
    if record.kind == A:
        data = socket.inet_aton(record.value)
    elif record.kind == SRV:
        data = struct.pack(">HHH", 0, 100, record.port) + _name(record.value)
    else:
        data = _name(record.value)
    return _name(owner) + struct.pack(">HHIH", record.kind, _IN, _TTL, len(data)) + data


class DnsServer(asyncio.DatagramProtocol):
    """Answers at the sockets it is given; ``zone`` is what it knows."""

    def __init__(self) -> None:
        self.zone = Zone()
        self._transport: asyncio.DatagramTransport | None = None
        self._server: asyncio.Server | None = None

    async def start(self, make: Callable[[int], Awaitable[socket.socket]], address: str) -> None:
        """Listen; ``make`` gives sockets of the network to listen in."""
        loop = asyncio.get_running_loop()
        datagrams, streams = await make(socket.SOCK_DGRAM), await make(socket.SOCK_STREAM)
        try:
            streams.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            for each in (datagrams, streams):
                each.bind((address, _PORT))
            streams.listen()
        except OSError as error:
            for each in (datagrams, streams):
                each.close()
            _log.warning("no names for pods: nothing can listen for questions", error=error)
            return
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, sock=datagrams)
        self._server = await asyncio.start_server(self._serve, sock=streams)

    def close(self) -> None:
        """Answer nobody any more."""
        if self._transport is not None:
            self._transport.close()
        if self._server is not None:
            self._server.close()

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        said = answer(data, self.zone, _UDP_LIMIT)
        if said and self._transport is not None:
            self._transport.sendto(said, addr)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
            async with asyncio.timeout(10.0):
                while True:
                    size = int.from_bytes(await reader.readexactly(2), "big")
                    said = answer(await reader.readexactly(size), self.zone)
                    writer.write(len(said).to_bytes(2, "big") + said)
                    await writer.drain()
        writer.close()
