"""Cluster addresses and node ports of Services.

A caller that keeps an allocator across writes passes it as `service_allocator` of its write
context and tells it about stored Services (`hold`, `release`); without one, `from_services`
derives the state from what is stored. The choice of an address depends only on the Service's name
and on what is taken, so both ways agree.
"""

from __future__ import annotations

import ipaddress
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

NETWORK: Final = ipaddress.IPv4Network("10.0.0.0/16")
#: low addresses are left to Services that ask for one
_STATIC: Final = 256
_FIRST_PORT: Final = 30000
_LAST_PORT: Final = 32767
#: low ports are left to Services that ask for one
_STATIC_PORTS: Final = 86


class ServiceAllocator(Protocol):
    """Hands out addresses and ports; `owner` is `namespace/name` of the Service."""

    def next_address(self, owner: str) -> str:
        """A free address; raises LookupError when none is left."""
        ...

    def take_address(self, address: str, owner: str) -> str:
        """Takes a certain address; what is wrong with it, or ""."""
        ...

    def next_port(self, owner: str) -> int:
        """A free node port; raises LookupError when none is left."""
        ...

    def take_port(self, port: int, owner: str) -> str:
        """Takes a certain node port; what is wrong with it, or ""."""
        ...

    def hold(self, service: Mapping[str, Any]) -> None:
        """Make the allocator agree with a stored Service."""
        ...

    def release(self, owner: str) -> None:
        """Free everything a Service holds."""
        ...


class AddressPool:
    """The allocator of the embedded server, in memory."""

    def __init__(self) -> None:
        self._addresses: dict[str, str] = {}
        self._ports: dict[int, str] = {}
        #: what each Service holds, so that releasing one does not search all
        self._held: dict[str, tuple[set[str], set[int]]] = {}

    @classmethod
    def from_services(cls, services: Iterable[Mapping[str, Any]]) -> AddressPool:
        pool = cls()
        for service in services:
            pool.hold(service)
        return pool

    def hold(self, service: Mapping[str, Any]) -> None:
        """Makes the pool agree with a stored Service."""
        meta = service["metadata"]
        owner = f"{meta.get('namespace') or ''}/{meta.get('name') or ''}"
        self.release(owner)
        spec: Mapping[str, Any] = service.get("spec") or {}
        for address in spec.get("clusterIPs") or ():
            if address and address != "None":
                self._hold_address(address, owner)
        for port in spec.get("ports") or ():
            if port.get("nodePort"):
                self._hold_port(port["nodePort"], owner)
        if spec.get("healthCheckNodePort"):
            self._hold_port(spec["healthCheckNodePort"], owner)

    def _hold_address(self, address: str, owner: str) -> None:
        self._addresses[address] = owner
        self._held.setdefault(owner, (set(), set()))[0].add(address)

    def _hold_port(self, port: int, owner: str) -> None:
        self._ports[port] = owner
        self._held.setdefault(owner, (set(), set()))[1].add(port)

    def release(self, owner: str) -> None:
        """Frees everything a Service holds: it was deleted, or its write failed."""
        addresses, ports = self._held.pop(owner, ((), ()))
        for address in addresses:
            del self._addresses[address]
        for port in ports:
            del self._ports[port]

    def next_address(self, owner: str) -> str:
        size = NETWORK.num_addresses - _STATIC - 1
        start = zlib.crc32(owner.encode()) % size
        base = int(NETWORK.network_address) + _STATIC
        for offset in range(size):
            address = str(ipaddress.IPv4Address(base + (start + offset) % size))
            if self._addresses.get(address, owner) == owner:
                self._hold_address(address, owner)
                return address
        raise LookupError("range is full")

    def take_address(self, address: str, owner: str) -> str:
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return "provided IP is not in the valid range"
        edges = (NETWORK.network_address, NETWORK.broadcast_address)
        if parsed not in NETWORK or parsed in edges:
            return (
                f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {NETWORK}"
            )
        if self._addresses.get(address, owner) != owner:
            return "provided IP is already allocated"
        self._hold_address(address, owner)
        return ""

    def next_port(self, owner: str) -> int:
        first = _FIRST_PORT + _STATIC_PORTS
        size = _LAST_PORT - first + 1
        start = zlib.crc32(owner.encode()) % size
        for offset in range(size):
            port = first + (start + offset) % size
            if port not in self._ports:
                self._hold_port(port, owner)
                return port
        raise LookupError("range is full")

    def take_port(self, port: int, owner: str) -> str:
        if not _FIRST_PORT <= port <= _LAST_PORT:
            return (
                "provided port is not in the valid range. "
                f"The range of valid ports is {_FIRST_PORT}-{_LAST_PORT}"
            )
        if self._ports.get(port, owner) != owner:
            return "provided port is already allocated"
        self._hold_port(port, owner)
        return ""
