"""A pod as Services see it, and which Services a change of a pod concerns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from ipaddress import ip_address
from typing import Any, Final

import msgspec

from quarterdeck.api import Key, Time
from quarterdeck.api.k8s import Service, ServicePort
from quarterdeck.cluster.endpoints.selection import services_of
from quarterdeck.runtime.cache import Entry
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.handler import MapContext

_TERMINAL: Final = ("Succeeded", "Failed")


class _Port(msgspec.Struct, rename="camel", gc=False, frozen=True):
    name: str = ""
    container_port: int = 0
    protocol: str = ""


class _Container(msgspec.Struct, rename="camel", gc=False, frozen=True):
    ports: tuple[_Port, ...] = ()
    restart_policy: str = ""


class _Spec(msgspec.Struct, rename="camel", gc=False, frozen=True):
    node_name: str = ""
    hostname: str = ""
    subdomain: str = ""
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()


class _Condition(msgspec.Struct, rename="camel", gc=False, frozen=True):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class _IP(msgspec.Struct, gc=False, frozen=True):
    ip: str = ""


class _Status(msgspec.Struct, gc=False, frozen=True):
    phase: str = ""
    conditions: tuple[_Condition, ...] = ()
    ip: str = msgspec.field(name="podIP", default="")
    ips: tuple[_IP, ...] = msgspec.field(name="podIPs", default=())


class _Document(msgspec.Struct, gc=False, frozen=True):
    spec: _Spec = _Spec()
    status: _Status = _Status()


_decode: Final = msgspec.json.Decoder(_Document).decode


class PodAddress:
    """Where one state of a pod can be reached."""

    def __init__(self, entry: Entry) -> None:
        document = _decode(entry.raw)
        self.entry: Final = entry
        self._spec: Final = document.spec
        self.node_name: Final = document.spec.node_name
        self.hostname: Final = document.spec.hostname
        self.subdomain: Final = document.spec.subdomain
        self.ips: Final = tuple(each.ip for each in document.status.ips)
        self.has_address: Final = document.status.phase not in _TERMINAL and bool(
            document.status.ip or self.ips
        )
        ready = next((each for each in document.status.conditions if each.type == "Ready"), None)
        self.is_ready: Final = ready is not None and ready.status == "True"
        self.trigger_time: Final = ready.last_transition_time if ready is not None else None

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def is_deleting(self) -> bool:
        return self.entry.is_deleting

    def addresses(self, *, is_ipv6: bool) -> Sequence[str]:
        """Its addresses of one family, as they are usually written."""
        return self._by_version.get(6 if is_ipv6 else 4, ())

    @cached_property
    def _by_version(self) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        for each in map(ip_address, self.ips):
            found.setdefault(each.version, []).append(str(each))
        return found

    def port_of(self, port: ServicePort) -> int | None:
        """The number of the port that a Service means; ``None`` if the pod has no port of that name."""
        wanted = port.target_port
        if isinstance(wanted, int):
            return wanted
        sidecars = (each for each in self._spec.init_containers if each.restart_policy == "Always")
        for container in (*self._spec.containers, *sidecars):
            for each in container.ports:
                if each.name == wanted and each.protocol == port.protocol:
                    return each.container_port
        return None

    def hostname_for(self, service: Service) -> str:
        """The name it has below the Service; none unless it asks for one there."""
        return self.hostname if self.subdomain == service.metadata.name else ""

    def differs(self, other: PodAddress) -> bool:
        """Whether Services care about the difference between two states of a pod."""
        mine, theirs = self.entry, other.entry
        return (
            (self.is_ready, self.ips, self.hostname, self.subdomain)
            != (other.is_ready, other.ips, other.hostname, other.subdomain)
            or mine.is_deleting != theirs.is_deleting
            or mine.labels != theirs.labels
            or self.has_address != other.has_address
        )

    @property
    def trigger_seconds(self) -> float:
        """When its readiness changed, seconds since 1970."""
        return Time(self.trigger_time).timestamp() if self.trigger_time else 0.0


def is_headless(service: Service) -> bool:
    """Whether a Service has no address of its own."""
    return service.spec.cluster_ip in ("", "None")


class ServicesOfPods:
    """The Services that select a pod, or did before it changed."""

    def keys(self, event: ObjectEvent[Any], context: MapContext) -> Iterable[Key]:
        """The keys of the Services; nothing if the change does not matter to any."""
        old, new = event.old, event.new
        states = [event.entry.labels]
        if old is not None and old.labels is not event.entry.labels:
            states.append(old.labels)
        found = list(services_of(context.cache, event.entry.namespace, states))
        if not found or new is None or old is new:
            return found
        after = PodAddress(new)
        matters = after.differs(PodAddress(old)) if old is not None else after.has_address
        return found if matters else ()
