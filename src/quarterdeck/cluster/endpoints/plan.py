"""Which EndpointSlices a Service needs, given those it has: pure.

Few writes matter more than full slices: endpoints that stay keep their place, new ones fill slices that are
written anyway, then the one that has just enough room, then new slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from quarterdeck.api import ObjectMeta, owner_reference
from quarterdeck.api.k8s import Endpoint, EndpointSlice, ObjectReference, Service
from quarterdeck.api.k8s.discovery import EndpointConditions, EndpointHints, EndpointPort, ForNode, ForZone
from quarterdeck.cluster.endpoints import names
from quarterdeck.cluster.endpoints.podaddress import PodAddress, is_headless
from quarterdeck.cluster.podset.templatehash import fnv128a

MOST_ENDPOINTS: Final = 100
"""Endpoints of one slice."""
_RESERVED: Final = frozenset({names.SERVICE_NAME, names.SLICE_MANAGED_BY, names.HEADLESS})
_CLOSE: Final = frozenset({"PreferClose", "PreferSameZone", "PreferSameNode"})
_LONGEST_NAME: Final = 253

Ports = tuple[EndpointPort, ...]
Identity = tuple[object, ...]


class SliceChanges(msgspec.Struct):
    """What to write."""

    create: list[EndpointSlice] = []
    update: list[EndpointSlice] = []
    delete: list[EndpointSlice] = []


def address_types(service: Service) -> list[str]:
    """The families of addresses that a Service has slices for."""
    if service.spec.ip_families:
        return list(dict.fromkeys(service.spec.ip_families))
    if not is_headless(service):
        return ["IPv6" if ":" in service.spec.cluster_ip else "IPv4"]
    return ["IPv4", "IPv6"]


def endpoint_of(pod: PodAddress, service: Service, address_type: str, zone: str) -> Endpoint | None:
    """A pod as an endpoint of a Service; ``None`` without an address of the type."""
    addresses = pod.addresses(is_ipv6=address_type == "IPv6")
    if not addresses:
        return None
    takes_all = service.spec.publish_not_ready_addresses is True
    entry = pod.entry
    endpoint = Endpoint(
        addresses=tuple(addresses),
        conditions=EndpointConditions(
            ready=takes_all or (pod.is_ready and not pod.is_deleting),
            serving=pod.is_ready,
            terminating=pod.is_deleting,
        ),
        target_ref=ObjectReference(kind="Pod", namespace=entry.namespace, name=entry.name, uid=entry.uid),
    )
    more: dict[str, str] = {}
    if pod.node_name:
        more["node_name"] = pod.node_name
    if zone:
        more["zone"] = zone
    if pod.hostname_for(service):
        more["hostname"] = pod.hostname
    return endpoint.evolve(**more)


def ports_of(service: Service, pod: PodAddress) -> Ports:
    """The ports that a Service has on a pod."""
    found = ((port, pod.port_of(port)) for port in service.spec.ports)
    ports = (
        EndpointPort(name=port.name, port=number, protocol=port.protocol, app_protocol=port.app_protocol)
        for port, number in found
        if number is not None
    )
    return tuple(sorted(ports, key=port_order))


def port_order(port: EndpointPort) -> int:
    """The order of ports in a slice: by the hash of how Go dumps them."""
    text = (
        f"(v1.EndpointPort){{Name:(*string){port.name} Protocol:(*v1.Protocol){port.protocol} "
        f"Port:(*int32){port.port} AppProtocol:(*string){port.app_protocol or '<nil>'}}}"
    )
    return fnv128a(text.encode())


def plan_slices(
    service: Service,
    address_type: str,
    existing: Sequence[EndpointSlice],
    endpoints: Mapping[Ports, Sequence[Endpoint]],
) -> SliceChanges:
    """What to write so that the slices of one family have the endpoints, by their ports."""
    changes = SliceChanges()
    by_ports: dict[Ports, list[EndpointSlice]] = {}
    for each in existing:
        if any(owner.uid == service.metadata.uid for owner in each.metadata.owner_references):
            by_ports.setdefault(tuple(each.ports), []).append(each)
        else:
            changes.delete.append(each)
    for ports, wanted in endpoints.items():
        _fill(changes, service, address_type, ports, by_ports.pop(ports, []), wanted)
    for left in by_ports.values():
        changes.delete += left
    if len(existing) == len(changes.delete) and not changes.create:
        _keep_one(changes, service, address_type)
    _set_hints(changes, service, existing)
    _reuse(changes, service)
    return changes


def _fill(
    changes: SliceChanges,
    service: Service,
    address_type: str,
    ports: Ports,
    existing: Sequence[EndpointSlice],
    wanted: Sequence[Endpoint],
) -> None:
    left = {endpoint_identity(each): each for each in wanted}
    labels = slice_labels(service)
    touched: list[EndpointSlice] = []
    untouched: list[EndpointSlice] = []
    for each in existing:
        kept = [left.pop(key) for key in map(endpoint_identity, each.endpoints) if key in left]
        are_equal = len(kept) == len(each.endpoints) and all(map(is_same_endpoint, kept, each.endpoints))
        if are_equal and dict(each.metadata.labels) == labels:
            untouched.append(each)
        elif kept or are_equal:
            metadata = each.metadata.evolve(labels=labels)
            stays = each.endpoints if are_equal else tuple(kept)
            touched.append(each.evolve(metadata=metadata, endpoints=stays))
        else:
            changes.delete.append(each)
    new = list(left.values())
    touched.sort(key=lambda each: len(each.endpoints), reverse=True)
    touched = [_filled(each, new) for each in touched]
    while new:
        slot = _best_fit(untouched, len(new)) if len(new) < MOST_ENDPOINTS else None
        if slot is not None:
            untouched.remove(slot)
            touched.append(_filled(slot, new))
        else:
            changes.create.append(_filled(_new_slice(service, address_type, ports), new))
    changes.update += touched


def endpoint_identity(endpoint: Endpoint) -> Identity:
    """What makes two endpoints the same one."""
    target = endpoint.target_ref
    who = (target.namespace, target.name) if target else ()
    return (tuple(sorted(endpoint.addresses)), endpoint.hostname or "", *who)


def is_same_endpoint(new: Endpoint, old: Endpoint) -> bool:
    """Whether nothing about an endpoint has changed; hints are set later."""
    return new == old.evolve(hints=new.hints)


def _filled(each: EndpointSlice, new: list[Endpoint]) -> EndpointSlice:
    room = MOST_ENDPOINTS - len(each.endpoints)
    if room <= 0 or not new:
        return each
    taken, new[:] = new[:room], new[room:]
    return each.evolve(endpoints=(*each.endpoints, *taken))


def _best_fit(slices: Sequence[EndpointSlice], number: int) -> EndpointSlice | None:
    fitting = [each for each in slices if len(each.endpoints) + number <= MOST_ENDPOINTS]
    return max(fitting, key=lambda each: len(each.endpoints), default=None)


def _new_slice(service: Service, address_type: str, ports: Ports) -> EndpointSlice:
    name = service.metadata.name
    return EndpointSlice(
        metadata=ObjectMeta(
            generate_name=f"{name}-" if len(name) < _LONGEST_NAME else name,
            namespace=service.metadata.namespace,
            labels=slice_labels(service),
            owner_references=(owner_reference(service, controller=True),),
        ),
        address_type=address_type,
        ports=ports,
    )


def slice_labels(service: Service) -> dict[str, str]:
    """The labels of the slices of a Service."""
    labels = {key: value for key, value in service.metadata.labels.items() if key not in _RESERVED}
    if is_headless(service):
        labels[names.HEADLESS] = ""
    return {
        **labels,
        names.SERVICE_NAME: service.metadata.name,
        names.SLICE_MANAGED_BY: names.SLICE_MANAGER,
    }


def _keep_one(changes: SliceChanges, service: Service, address_type: str) -> None:
    """A Service without endpoints has an empty slice, so that one sees that it was looked after."""
    empty = _new_slice(service, address_type, ())
    if len(changes.delete) == 1:
        [last] = changes.delete
        there = (last.address_type, tuple(last.ports), tuple(last.endpoints), dict(last.metadata.labels))
        if there == (address_type, (), (), dict(empty.metadata.labels)):
            changes.delete = []
            return
    changes.create.append(empty)


def _set_hints(changes: SliceChanges, service: Service, existing: Iterable[EndpointSlice]) -> None:
    """Say which endpoints are near whom, if the Service prefers those."""
    prefers = service.spec.traffic_distribution
    way = str(prefers) if isinstance(prefers, str) and prefers in _CLOSE else ""
    written = {each.metadata.name for each in (*changes.update, *changes.delete)}
    for each in existing:
        if each.metadata.name not in written and _hinted(each, way) != each:
            changes.update.append(each)
    changes.create = [_hinted(each, way) for each in changes.create]
    changes.update = [_hinted(each, way) for each in changes.update]


def _hinted(each: EndpointSlice, way: str) -> EndpointSlice:
    return each.evolve(endpoints=tuple(_hint(endpoint, way) for endpoint in each.endpoints))


def _hint(endpoint: Endpoint, way: str) -> Endpoint:
    if way and endpoint.conditions.ready is not True:
        return endpoint
    zones = (ForZone(name=endpoint.zone),) if way and endpoint.zone else ()
    by_node = way == "PreferSameNode" and endpoint.node_name
    nodes = (ForNode(name=endpoint.node_name),) if by_node and endpoint.node_name else ()
    if not zones and not nodes:
        return endpoint.evolve(hints=msgspec.UNSET) if endpoint.hints else endpoint
    return endpoint.evolve(hints=EndpointHints(for_zones=zones, for_nodes=nodes))


def _reuse(changes: SliceChanges, service: Service) -> None:
    """Write a new slice in the place of one that would be deleted."""
    doomed = []
    for each in changes.delete:
        is_mine = any(owner.uid == service.metadata.uid for owner in each.metadata.owner_references)
        if changes.create and is_mine and each.address_type == changes.create[-1].address_type:
            new = changes.create.pop()
            metadata = each.metadata.evolve(labels=new.metadata.labels)
            changes.update.append(each.evolve(metadata=metadata, endpoints=new.endpoints, ports=new.ports))
        else:
            doomed.append(each)
    changes.delete = doomed
