"""Which EndpointSlices mirror Endpoints that somebody else has made: pure.

One slice for each set of ports and family of addresses; more than a thousand addresses are not mirrored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import Final, NamedTuple

from quarterdeck.api import ObjectMeta, owner_reference
from quarterdeck.api.k8s import Endpoint, Endpoints, EndpointSlice
from quarterdeck.api.k8s.discovery import EndpointConditions, EndpointPort
from quarterdeck.api.k8s.service import EndpointAddress, EndpointSubset
from quarterdeck.cluster.endpoints import names
from quarterdeck.cluster.endpoints.plan import (
    Ports,
    SliceChanges,
    endpoint_identity,
    is_same_endpoint,
    port_order,
)
from quarterdeck.cluster.endpoints.subset import packed

MOST_MIRRORED: Final = 1000
"""Addresses of one subset that are mirrored."""
_NOT_MIRRORED: Final = frozenset({names.TRIGGER_TIME, names.LAST_APPLIED})
_LONGEST_NAME: Final = 253

Group = tuple[str, Ports]
"""Family of addresses, and ports."""


class Mirror(NamedTuple):
    """What Endpoints look like as slices."""

    groups: Mapping[Group, Sequence[Endpoint]]
    invalid: int
    """Addresses that are none."""
    skipped: int
    """Addresses that are left out, invalid ones included."""


def should_mirror(labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
    """Whether Endpoints are mirrored at all."""
    return labels.get(names.SKIP_MIRROR) != "true" and names.LEADER not in annotations


def mirror_of(endpoints: Endpoints) -> Mirror:
    """The endpoints, by family and ports."""
    groups: dict[Group, list[Endpoint]] = {}
    invalid = skipped = 0
    for subset in packed(endpoints.subsets):
        ports = _ports(subset)
        for family in ("IPv4", "IPv6"):
            groups.setdefault((family, ports), [])
        added = 0
        addresses = [(each, True) for each in subset.addresses]
        addresses += [(each, False) for each in subset.not_ready_addresses]
        for address, is_ready in addresses:
            if added >= MOST_MIRRORED:
                break
            found = _endpoint(address, is_ready)
            if found is None:
                invalid += 1
                continue
            family, endpoint = found
            groups[family, ports].append(endpoint)
            added += 1
        skipped += len(addresses) - added
    return Mirror(groups, invalid, skipped)


def _ports(subset: EndpointSubset) -> Ports:
    ports = (
        EndpointPort(name=each.name, port=each.port, protocol=each.protocol, app_protocol=each.app_protocol)
        for each in subset.ports
    )
    return tuple(sorted(ports, key=port_order))


def _endpoint(address: EndpointAddress, is_ready: bool) -> tuple[str, Endpoint] | None:
    try:
        ip = ip_address(address.ip)
    except ValueError:
        return None
    endpoint = Endpoint(
        addresses=(str(ip),),
        conditions=EndpointConditions(ready=is_ready),
        target_ref=address.target_ref,
        node_name=address.node_name,
    )
    if address.hostname:
        endpoint = endpoint.evolve(hostname=address.hostname)
    return f"IPv{ip.version}", endpoint


def plan_mirror(endpoints: Endpoints, mirror: Mirror, existing: Iterable[EndpointSlice]) -> SliceChanges:
    """What to write so that the slices are the mirror of Endpoints."""
    changes = SliceChanges()
    known: dict[Group, list[EndpointSlice]] = {}
    for each in existing:
        known.setdefault((each.address_type, tuple(each.ports)), []).append(each)
    for group, wanted in mirror.groups.items():
        there = known.pop(group, [])
        if not wanted:
            changes.delete += there
            continue
        changes.delete += there[1:]
        slice_ = _slice(endpoints, group, wanted)
        if not there:
            changes.create.append(slice_)
        elif not _is_right(endpoints, there[0], slice_):
            changes.update.append(_in_place_of(there[0], slice_))
    for left in known.values():
        changes.delete += left
    _reuse(changes)
    return changes


def _slice(endpoints: Endpoints, group: Group, wanted: Sequence[Endpoint]) -> EndpointSlice:
    name = endpoints.metadata.name
    marks = {names.SERVICE_NAME: name, names.SLICE_MANAGED_BY: names.MIRROR_MANAGER}
    return EndpointSlice(
        metadata=ObjectMeta(
            generate_name=f"{name}-" if len(name) < _LONGEST_NAME else name,
            namespace=endpoints.metadata.namespace,
            labels={**endpoints.metadata.labels, **marks},
            annotations={
                key: value
                for key, value in endpoints.metadata.annotations.items()
                if key not in _NOT_MIRRORED
            },
            owner_references=(owner_reference(endpoints, controller=True),),
        ),
        address_type=group[0],
        ports=group[1],
        endpoints=tuple(wanted[:MOST_MIRRORED]),
    )


def _is_right(endpoints: Endpoints, known: EndpointSlice, wanted: EndpointSlice) -> bool:
    owners = known.metadata.owner_references
    is_other = any(
        (each.kind, each.name) == ("Endpoints", endpoints.metadata.name)
        and each.uid != endpoints.metadata.uid
        for each in owners
    )
    by_identity = {endpoint_identity(each): each for each in wanted.endpoints}
    pairs = [(by_identity.get(endpoint_identity(each)), each) for each in known.endpoints]
    return (
        not is_other
        and dict(known.metadata.labels) == dict(wanted.metadata.labels)
        and dict(known.metadata.annotations) == dict(wanted.metadata.annotations)
        and len(by_identity) == len(pairs)
        and all(new is not None and is_same_endpoint(new, old) for new, old in pairs)
    )


def _in_place_of(known: EndpointSlice, wanted: EndpointSlice) -> EndpointSlice:
    metadata = known.metadata.evolve(
        labels=wanted.metadata.labels,
        annotations=wanted.metadata.annotations,
        owner_references=wanted.metadata.owner_references,
    )
    return known.evolve(metadata=metadata, endpoints=wanted.endpoints, ports=wanted.ports)


def _reuse(changes: SliceChanges) -> None:
    """Write a new slice in the place of one that would be deleted."""
    for doomed in list(changes.delete):
        same = [each for each in changes.create if each.address_type == doomed.address_type]
        if same:
            changes.create.remove(same[0])
            changes.delete.remove(doomed)
            changes.update.append(_in_place_of(doomed, same[0]))
