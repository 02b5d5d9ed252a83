"""How the pods of one runtime find Services: by which names, at which addresses, and who listens there."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from quarterdeck.api.k8s import EndpointSlice, Pod, Service
from quarterdeck.cluster.agent.container.runtime import PodRuntime
from quarterdeck.cluster.agent.network.datagram import DatagramProxy, take_here
from quarterdeck.cluster.agent.network.dial import Dialer
from quarterdeck.cluster.agent.network.dns import DnsServer, Zone
from quarterdeck.cluster.agent.network.fabric import Fabric
from quarterdeck.cluster.agent.network.hostport import host_ports
from quarterdeck.cluster.agent.network.hosts import namespace_names
from quarterdeck.cluster.agent.network.proxy import (
    Backends,
    Place,
    ServiceProxy,
    backends,
    bound,
    listen_here,
    listening,
)

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
        here = fabric is None
        self._proxies: Final[dict[str, ServiceProxy | DatagramProxy]] = {
            "TCP": ServiceProxy(dialer, listen_here if here else self._listen),
            "UDP": DatagramProxy(dialer, take_here if here else self._take),
        }
        """By protocol, as are the following."""
        self._services: dict[str, dict[Place, Backends]] = {}
        self._ports: dict[str, dict[Place, Backends]] = {}
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
        self._services = {
            protocol: backends(
                services,
                slices,
                self._runtime.service_address,
                protocol=protocol,
                server=self._server if protocol == "TCP" else None,
                node=node,
            )
            for protocol in self._proxies
        }
        await self._update()

    async def follow_pods(self, pods: Iterable[tuple[Pod, str]]) -> None:
        """Host ports may have changed; the pods that run, with their addresses."""
        running = list(pods)
        ports = {each: host_ports(running, self._runtime.host, each) for each in self._proxies}
        if ports != self._ports:
            self._ports = ports
            await self._update()

    async def _update(self) -> None:
        for protocol, proxy in self._proxies.items():
            await proxy.update({**self._ports.get(protocol, {}), **self._services.get(protocol, {})})

    async def close(self) -> None:
        """Listen to nobody any more."""
        for proxy in self._proxies.values():
            await proxy.close()
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

    async def _take(self, place: Place) -> socket.socket:
        assert self._fabric is not None
        return bound(await self._fabric.socket(socket.SOCK_DGRAM), place)
