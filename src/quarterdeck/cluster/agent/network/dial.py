"""Connections from the agent to pods, wherever these are."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import Final

from quarterdeck.cluster.agent.network.fabric import NETWORK, Fabric

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Dialer:
    """Opens connections; addresses of the pods' own network are reached from inside of it."""

    def __init__(self, fabric: Fabric | None = None) -> None:
        self._fabric: Final = fabric

    async def open(self, host: str, port: int) -> Stream:
        """A connection. Raises ``OSError``."""
        if self._is_here(host):
            return await asyncio.open_connection(host, port)
        return await asyncio.open_connection(sock=await self.connected(host, port))

    async def connected(self, host: str, port: int, kind: int = socket.SOCK_STREAM) -> socket.socket:
        """The same as a socket of some kind."""
        loop = asyncio.get_running_loop()
        if self._fabric is None or self._is_here(host):
            family, kind, _, _, place = (await loop.getaddrinfo(host, port, type=kind))[0]
            made = socket.socket(family, kind)
            made.setblocking(False)
        else:
            made, place = await self._fabric.socket(kind), (host, port)
        try:
            await loop.sock_connect(made, place)
        except BaseException:
            made.close()
            raise
        return made

    def _is_here(self, host: str) -> bool:
        return self._fabric is None or not _is_inside(host)


def _is_inside(host: str) -> bool:
    try:
        return ipaddress.ip_address(host) in NETWORK
    except ValueError:
        return False
