"""The network of a node's pods: a bridge in a namespace of the agent's own. For root alone.

The namespace is the machine as pods see it: the bridge's address is the node's, and Services have their
cluster addresses there. Pods that want the machine's network are given this one.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

from quarterdeck.cluster.agent.network import netlink
from quarterdeck.cluster.agent.network.holder import (
    Holder,
    end_holder,
    find_holder,
    in_namespace,
    start_holder,
)
from quarterdeck.cluster.agent.shim.linux import set_namespace

NETWORK: Final = ipaddress.IPv4Network("10.244.0.0/16")
"""Addresses of pods; no other network of the machine can be reached from there, so none is in the way."""
GATEWAY: Final = "10.244.0.1"
_BRIDGE: Final = "pods"
_FILE: Final = "network.json"
_POD_FILE: Final = "network.json"


class Fabric:
    """Makes the network of a node, and the ends of its pods."""

    def __init__(self, directory: Path) -> None:
        self._file: Final = directory / _FILE
        self._holder: Holder | None = None
        self._inside: ThreadPoolExecutor | None = None
        self._services: Final[set[str]] = set()

    def start(self) -> None:
        """Make the bridge, or find the one that an earlier agent made. Blocking."""
        holder = find_holder(self._file)
        if holder is None:
            holder = start_holder(self._file, "net")
            in_namespace(holder, _make_bridge)
        self._holder = holder
        self._inside = ThreadPoolExecutor(
            1, thread_name_prefix="fabric", initializer=_stay_in, initargs=(holder,)
        )

    async def socket(self, kind: int = socket.SOCK_STREAM) -> socket.socket:
        """A socket that is in the network of the pods; it does not block."""
        assert self._inside is not None

        def make() -> socket.socket:
            made = socket.socket(socket.AF_INET, kind)
            made.setblocking(False)
            return made

        return await asyncio.get_running_loop().run_in_executor(self._inside, make)

    async def serve_addresses(self, addresses: set[str]) -> None:
        """Take these addresses for the node's own, and no others beside the bridge's."""
        assert self._inside is not None

        def change() -> None:
            for address in self._services - addresses:
                with suppress(OSError):
                    netlink.remove_local_address(address)
            for address in addresses - self._services:
                with suppress(FileExistsError):  # an earlier agent's
                    netlink.add_local_address(address)
            self._services.clear()
            self._services.update(addresses)

        if addresses != self._services:
            await asyncio.get_running_loop().run_in_executor(self._inside, change)

    def join(self, folder: Path, address: str) -> Holder:
        """The namespaces of a pod, with its end of the network; made once. Blocking."""
        assert self._holder is not None
        file = folder / _POD_FILE
        holder = find_holder(file)
        if holder is not None:
            return holder
        holder = start_holder(file, "net", "ipc")
        name = _link_name(address)
        descriptor = os.open(holder.namespace("net"), os.O_RDONLY | os.O_CLOEXEC)

        def connect() -> None:
            with suppress(OSError):
                netlink.remove_link(name)
            netlink.add_pair(name, _BRIDGE, "eth0", descriptor)

        def configure() -> None:
            netlink.set_up("lo")
            netlink.add_address("eth0", address, NETWORK.prefixlen)
            netlink.set_up("eth0")
            netlink.add_default_route(GATEWAY)

        try:
            in_namespace(self._holder, connect)
            in_namespace(holder, configure)
        except OSError:
            end_holder(file)
            raise
        finally:
            os.close(descriptor)
        return holder

    def machine(self) -> Holder:
        """The namespace that stands for the machine's own network."""
        assert self._holder is not None
        return self._holder

    def leave(self, folder: Path, address: str) -> None:
        """Take a pod's end away, if it has one; the rest of it goes with the holder. Blocking."""
        if not (folder / _POD_FILE).exists():
            return
        if address and self._holder is not None and self._holder.is_alive:
            with suppress(OSError):
                in_namespace(self._holder, lambda: netlink.remove_link(_link_name(address)))
        end_holder(folder / _POD_FILE)

    def close(self) -> None:
        """Let go of the network; it stays for the next agent. Blocking."""
        if self._inside is not None:
            self._inside.shutdown()
            self._inside = None

    def end(self) -> None:
        """Take the network away. Blocking."""
        self.close()
        end_holder(self._file)


def _make_bridge() -> None:
    netlink.set_up("lo")
    netlink.add_bridge(_BRIDGE)
    netlink.add_address(_BRIDGE, GATEWAY, NETWORK.prefixlen)
    netlink.set_up(_BRIDGE)


def _stay_in(holder: Holder) -> None:
    descriptor = os.open(holder.namespace("net"), os.O_RDONLY | os.O_CLOEXEC)
    try:
        set_namespace(descriptor, "net")
    finally:
        os.close(descriptor)


def _link_name(address: str) -> str:
    """A link's name has at most 15 letters; that of a pod's is made from its address."""
    return f"pod{int(ipaddress.IPv4Address(address)):08x}"
