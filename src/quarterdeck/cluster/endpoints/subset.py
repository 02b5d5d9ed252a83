"""What the Endpoints of a Service should be: pure.

Addresses with the same ports stand in one subset; subsets, addresses and ports have a fixed order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil
from typing import Final

from quarterdeck.api import ObjectMeta, to_dict
from quarterdeck.api.k8s import Endpoints, ObjectReference, Service, ServicePort
from quarterdeck.api.k8s.service import EndpointAddress, EndpointPort, EndpointSubset
from quarterdeck.cluster.endpoints import names
from quarterdeck.cluster.endpoints.podaddress import PodAddress, is_headless
from quarterdeck.cluster.podset.godump import dump
from quarterdeck.cluster.podset.templatehash import fnv128a

MOST_ADDRESSES: Final = 1000
"""Addresses of one Endpoints object; EndpointSlices have them all."""
_NO_PORT: Final = EndpointPort(port=-1)

Ready = dict[tuple[str, str], tuple[EndpointAddress, bool]]
"""Addresses by IP and UID of the pod, and whether each is ready."""


def subsets_of(service: Service, pods: Iterable[PodAddress]) -> list[EndpointSubset]:
    """The subsets for the pods that a Service selects."""
    by_port: dict[EndpointPort, Ready] = {}
    takes_all = service.spec.publish_not_ready_addresses is True
    for pod in pods:
        if not pod.has_address or (pod.is_deleting and not takes_all):
            continue
        address = _address(service, pod)
        if address is None:
            continue
        is_ready = takes_all or pod.is_ready
        for port in _ports(service, pod):
            _put(by_port.setdefault(port, {}), address, is_ready)
    return _grouped(by_port)


def packed(subsets: Sequence[EndpointSubset]) -> list[EndpointSubset]:
    """The same addresses in as few subsets as possible, in order."""
    by_port: dict[EndpointPort, Ready] = {}
    for subset in subsets:
        for port in subset.ports or (_NO_PORT,):
            ready = by_port.setdefault(port, {})
            for address in subset.addresses:
                _put(ready, address, True)
            for address in subset.not_ready_addresses:
                _put(ready, address, False)
    return _grouped(by_port)


def _put(ready: Ready, address: EndpointAddress, is_ready: bool) -> None:
    target = address.target_ref
    key = address.ip, target.uid if target else ""
    known = ready.get(key)
    ready[key] = address, is_ready and (known is None or known[1])


def _grouped(by_port: dict[EndpointPort, Ready]) -> list[EndpointSubset]:
    """One subset for all ports that the same addresses have."""
    groups: dict[object, tuple[Ready, list[EndpointPort]]] = {}
    for port, ready in by_port.items():
        key = tuple(sorted((key, is_ready) for key, (_, is_ready) in ready.items()))
        _, ports = groups.setdefault(key, (ready, []))
        if port != _NO_PORT:
            ports.append(port)
    subsets = []
    for ready, ports in groups.values():
        members = [ready[key] for key in sorted(ready)]
        subsets.append(
            EndpointSubset(
                addresses=tuple(address for address, is_ready in members if is_ready),
                not_ready_addresses=tuple(address for address, is_ready in members if not is_ready),
                ports=tuple(sorted(ports, key=lambda each: _hash("v1.EndpointPort", each))),
            )
        )
    return sorted(subsets, key=lambda each: _hash("v1.EndpointSubset", each)) if len(subsets) > 1 else subsets


def _hash(kind: str, value: EndpointPort | EndpointSubset) -> int:
    return fnv128a(dump(kind, to_dict(value)).encode())


def _ports(service: Service, pod: PodAddress) -> Iterable[EndpointPort]:
    if not service.spec.ports:
        return (_NO_PORT,) if service.spec.cluster_ip == "None" else ()
    found = ((port, pod.port_of(port)) for port in service.spec.ports)
    return [_port(port, number) for port, number in found if number is not None]


def _port(port: ServicePort, number: int) -> EndpointPort:
    return EndpointPort(name=port.name, port=number, protocol=port.protocol, app_protocol=port.app_protocol)


def _address(service: Service, pod: PodAddress) -> EndpointAddress | None:
    spec = service.spec
    if spec.ip_families:
        is_ipv6 = spec.ip_families[0] == "IPv6"
    elif not is_headless(service):
        is_ipv6 = ":" in spec.cluster_ip
    else:
        is_ipv6 = bool(pod.ips) and ":" in pod.ips[0]
    found = pod.addresses(is_ipv6=is_ipv6)
    if not found:
        return None
    entry = pod.entry
    return EndpointAddress(
        ip=found[0],
        hostname=pod.hostname_for(service),
        node_name=pod.node_name,
        target_ref=ObjectReference(kind="Pod", namespace=entry.namespace, name=entry.name, uid=entry.uid),
    )


def truncated(subsets: Sequence[EndpointSubset]) -> list[EndpointSubset] | None:
    """The subsets with a thousand addresses, ready ones first; ``None`` if they have no more than that."""
    ready = sum(len(each.addresses) for each in subsets)
    others = sum(len(each.not_ready_addresses) for each in subsets)
    if ready + others <= MOST_ADDRESSES:
        return None
    cuts_ready = ready > MOST_ADDRESSES
    most, total = (MOST_ADDRESSES, ready) if cuts_ready else (MOST_ADDRESSES - ready, others)
    left = most
    cut = []
    for each in subsets:
        there = each.addresses if cuts_ready else each.not_ready_addresses
        kept = there[: min(ceil(len(there) / total * most), left)]
        left -= len(kept)
        if cuts_ready:
            cut.append(each.evolve(addresses=kept, not_ready_addresses=()))
        else:
            cut.append(each.evolve(not_ready_addresses=kept))
    return cut


def endpoints_labels(service: Service) -> dict[str, str]:
    """The labels of the Endpoints of a Service."""
    labels = {key: value for key, value in service.metadata.labels.items() if key != names.HEADLESS}
    if is_headless(service):
        labels[names.HEADLESS] = ""
    return {**labels, names.ENDPOINTS_MANAGED_BY: names.ENDPOINTS_MANAGER}


def new_endpoints(service: Service) -> Endpoints:
    """Endpoints without addresses."""
    return Endpoints(metadata=ObjectMeta(name=service.metadata.name, namespace=service.metadata.namespace))
