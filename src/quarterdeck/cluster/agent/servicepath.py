"""How the pods of one runtime find Services: by which names, at which addresses, and who listens there."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from quarterdeck.api.k8s import EndpointSlice, Pod, Service
from quarterdeck.cluster.agent.hostport import host_ports
from quarterdeck.cluster.agent.hosts import namespace_names
from quarterdeck.cluster.agent.network.dial import Dialer
from quarterdeck.cluster.agent.network.dns import DnsServer, Zone
from quarterdeck.cluster.agent.network.fabric import Fabric
from quarterdeck.cluster.agent.proxy import (
    Backends,
    Place,
    ServiceProxy,
    backends,
    listen_here,
    listening,
)
from quarterdeck.cluster.agent.runtime import PodRuntime

__all__ = ["ServicePath"]

_SERVER: Final = ("default", "kubernetes")


class ServicePath:
    """Follows Services and endpoints for the pods of a runtime."""

    def __init__(
        self, runtime: PodRuntime, dialer: Dialer, fabric: Fabric | None = None, server: Place | None = None
    ) -> None:
        """``fabric`` is the network of pods that are not in the machine's; ``server`` is outside."""
        self._runtime: Final = runtime
        self._fabric: Final = fabric
        self._server: Final = server
        self._dns: Final = DnsServer() if fabric is not None else None
        self._is_answering = False
        self._proxy: Final = ServiceProxy(dialer, self._listen if fabric is not None else listen_here)
        self._services: dict[Place, Backends] = {}
        self._ports: dict[Place, Backends] = {}
        self.names: Sequence[tuple[str, str, str]] = ()
        """Address, name and namespace of what can be found by name."""

    async def follow(self, services: Sequence[Service], slices: Sequence[EndpointSlice]) -> None:
        """Names and addresses have changed."""
        addresses = self._addresses(services)
        self.names = namespace_names(services, slices, addresses)
        if self._fabric is not None and self._dns is not None:
            await self._fabric.serve_addresses(set(addresses.values()))
            self._dns.zone = Zone(services, slices)
            if not self._is_answering:
                self._is_answering = True
                await self._dns.start(self._fabric.socket, self._runtime.host)
        node = self._runtime.host if self._fabric is not None else ""
        self._services = backends(
            services, slices, self._runtime.service_address, server=self._server, node=node
        )
        await self._proxy.update({**self._ports, **self._services})

    async def follow_pods(self, pods: Iterable[tuple[Pod, str]]) -> None:
        """Host ports may have changed; the pods that run, with their addresses."""
        ports = host_ports(pods, self._runtime.host)
        if ports != self._ports:
            self._ports = ports
            await self._proxy.update({**self._ports, **self._services})

    async def close(self) -> None:
        """Listen to nobody any more."""
        await self._proxy.close()
        if self._dns is not None:
            self._dns.close()

    def visible(
        self, services: Iterable[Service], server: Service | None
    ) -> tuple[list[Service], Mapping[tuple[str, str], str]]:
        """What a pod has in its environment, and where that is reached.

        Beside the Services of its namespace that is the API server's.
        """
        seen = [each for each in services if (each.metadata.namespace, each.metadata.name) != _SERVER]
        if server is not None:
            direct = self._runtime.server
            if direct is not None:
                ports = tuple(each.evolve(port=direct[1]) for each in server.spec.ports)
                server = server.evolve(spec=server.spec.evolve(ports=ports))
            seen.append(server)
        return seen, self._addresses(seen)

    def _addresses(self, services: Iterable[Service]) -> dict[tuple[str, str], str]:
        made = {
            (each.metadata.namespace, each.metadata.name): self._runtime.service_address(each)
            for each in services
            if each.spec.type != "ExternalName" and self._runtime.service_address(each)
        }
        if _SERVER in made and self._runtime.server is not None:
            made[_SERVER] = self._runtime.server[0]
        return made

    async def _listen(self, place: Place) -> socket.socket:
        assert self._fabric is not None
        return listening(await self._fabric.socket(), place)
