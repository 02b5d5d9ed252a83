"""Cluster addresses and node ports of Services.

A write takes what it needs in a lease that ends with it, however it ends; what was stored is held because it
is stored (`hold`, `release`). So nothing has to be given back by hand, and a write that is stored never loses
what it took: the pool is told of it before the lease ends.

A caller that keeps a pool across writes passes it as `service_allocator` of its write context; without one,
`from_services` derives the state from what is stored. The choice of an address depends only on the Service's
name and on what is taken, so both ways agree.
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
PORT_IN_USE: Final = "provided port is already allocated"
#: an address or a node port
Item = str | int


class ServiceAllocator(Protocol):
    """Hands out addresses and ports; an owner is `namespace/name` of a Service."""

    def lease(self, owner: str) -> Lease:
        """What one write takes for a Service; it must be ended."""
        ...


class Lease:
    """What one write of a Service has taken from a pool until it is over."""

    def __init__(self, pool: AddressPool, owner: str) -> None:
        self._pool = pool
        self.owner = owner
        self.items: set[Item] = set()

    def next_address(self) -> str:
        """A free address; raises LookupError when none is left."""
        size = NETWORK.num_addresses - _STATIC - 1
        start = zlib.crc32(self.owner.encode()) % size
        base = int(NETWORK.network_address) + _STATIC
        for offset in range(size):
            address = str(ipaddress.IPv4Address(base + (start + offset) % size))
            if self._pool.take(address, self):
                return address
        raise LookupError("range is full")

    def take_address(self, address: str) -> str:
        """Take a certain address; what is wrong with it, or ""."""
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return "provided IP is not in the valid range"
        edges = (NETWORK.network_address, NETWORK.broadcast_address)
        if parsed not in NETWORK or parsed in edges:
            return (
                f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {NETWORK}"
            )
        return "" if self._pool.take(address, self) else "provided IP is already allocated"

    def next_port(self) -> int:
        """A node port that nobody has, this Service included; raises LookupError when none is left."""
        first = _FIRST_PORT + _STATIC_PORTS
        size = _LAST_PORT - first + 1
        start = zlib.crc32(self.owner.encode()) % size
        for offset in range(size):
            port = first + (start + offset) % size
            if not self._pool.is_held(port):
                self._pool.take(port, self)
                return port
        raise LookupError("range is full")

    def take_port(self, port: int) -> str:
        """Take a certain node port; what is wrong with it, or ""."""
        if not _FIRST_PORT <= port <= _LAST_PORT:
            return (
                "provided port is not in the valid range. "
                f"The range of valid ports is {_FIRST_PORT}-{_LAST_PORT}"
            )
        return "" if self._pool.take(port, self) else PORT_IN_USE

    def end(self) -> None:
        """The write is over; what it took stays held only where it was stored."""
        self._pool.leave(self)


class AddressPool:
    """The allocator of the embedded server, in memory."""

    def __init__(self) -> None:
        #: everybody who has an address or a port: the stored Service, and writes of it under way
        self._holders: dict[Item, list[Lease]] = {}
        #: what each stored Service has
        self._stored: dict[str, Lease] = {}

    @classmethod
    def from_services(cls, services: Iterable[Mapping[str, Any]]) -> AddressPool:
        pool = cls()
        for service in services:
            pool.hold(service)
        return pool

    def lease(self, owner: str) -> Lease:
        return Lease(self, owner)

    def is_held(self, item: Item) -> bool:
        return item in self._holders

    def take(self, item: Item, lease: Lease) -> bool:
        """Add an item to a lease, unless it is another Service's."""
        holders = self._holders.get(item, [])
        if any(holder.owner != lease.owner for holder in holders):
            return False
        self._add(item, lease)
        return True

    def _add(self, item: Item, lease: Lease) -> None:
        if item not in lease.items:
            lease.items.add(item)
            self._holders.setdefault(item, []).append(lease)

    def leave(self, lease: Lease) -> None:
        for item in lease.items:
            holders = self._holders[item]
            holders.remove(lease)
            if not holders:
                del self._holders[item]
        lease.items.clear()

    def hold(self, service: Mapping[str, Any]) -> None:
        """Make the pool agree with a stored Service."""
        meta = service["metadata"]
        owner = f"{meta.get('namespace') or ''}/{meta.get('name') or ''}"
        self.release(owner)
        stored = self._stored[owner] = Lease(self, owner)
        spec: Mapping[str, Any] = service.get("spec") or {}
        for address in spec.get("clusterIPs") or ():
            if address and address != "None":
                self._add(address, stored)
        for port in spec.get("ports") or ():
            if port.get("nodePort"):
                self._add(port["nodePort"], stored)
        if spec.get("healthCheckNodePort"):
            self._add(spec["healthCheckNodePort"], stored)

    def release(self, owner: str) -> None:
        """Free everything a stored Service has: it was deleted."""
        stored = self._stored.pop(owner, None)
        if stored is not None:
            self.leave(stored)
