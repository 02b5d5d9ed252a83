"""What holds between nodes and pods in every cluster."""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Iterator
from typing import Final, TypeAlias

from quarterdeck.api import Quantity, Resource, value_or
from quarterdeck.api.instant import MicroTime
from quarterdeck.api.invariant import Invariant, Objects
from quarterdeck.api.k8s import Lease, Node, Pod
from quarterdeck.api.quota.pod import pod_requests

Found: TypeAlias = Iterator[tuple[Resource, str, str]]
_ENDED: Final = ("Succeeded", "Failed")
_SKEW: Final = 60.0
"""Seconds by which the clocks of those may differ who renew Leases."""
_NODE_LEASES: Final = "kube-node-lease"


def _bound(objects: Objects) -> dict[str, list[Pod]]:
    """Pods that have not ended, by node."""
    found: dict[str, list[Pod]] = defaultdict(list)
    for pod in objects.of(Pod):
        if pod.spec.node_name and pod.status.phase not in _ENDED:
            found[pod.spec.node_name].append(pod)
    return found


def _room(objects: Objects) -> Found:
    bound = _bound(objects)
    for node in objects.of(Node):
        used: dict[str, Quantity] = {}
        for pod in bound[node.metadata.name]:
            for resource, amount in pod_requests(pod.to_dict()).items():
                used[resource] = used.get(resource, Quantity(0)) + amount
        for resource, amount in sorted(used.items()):
            room = node.status.allocatable.get(resource)
            if room is not None and amount > room:
                problem = f"its pods request {amount} {resource}, and it has {room}"
                yield node, problem, "delete one of its pods; two schedulers may share the node"


def _places(objects: Objects) -> Found:
    nodes = {node.metadata.name for node in objects.every(Node)}
    for name, pods in _bound(objects).items():
        for pod in pods if name not in nodes else ():
            yield pod, f"is bound to node {name}, which is gone", "delete it; its controller makes another"


def _ranges(objects: Objects) -> Found:
    found = []
    for node in objects.of(Node):
        for text in node.spec.pod_cidrs:
            network = ipaddress.ip_network(text, strict=False)
            found.append((network.version, int(network[0]), int(network[-1]), text, node))
    before = None
    for each in sorted(found, key=lambda each: each[:3]):
        if before is not None and before[0] == each[0] and each[1] <= before[2]:
            problem = f"its pod range {each[3]} overlaps {before[3]} of node {before[4].metadata.name}"
            yield (
                each[4],
                problem,
                "drain one of the two and register it anew: a node keeps its range for life",
            )
        if before is None or before[0] != each[0] or each[2] > before[2]:
            before = each


def _leases(objects: Objects) -> Found:
    """The time is that of the latest renewal of all: nobody's clock is asked."""
    leases = [
        (lease, lease.spec.renew_time.timestamp())
        for lease in objects.of(Lease)
        if lease.spec and isinstance(lease.spec.renew_time, MicroTime)
    ]
    now = max((renewed for _, renewed in leases), default=0.0)
    for lease, renewed in leases:
        if lease.metadata.namespace == _NODE_LEASES or not lease.spec.holder_identity:
            continue
        late = now - renewed - value_or(lease.spec.lease_duration_seconds, 0)
        if late > _SKEW:
            problem = f"{lease.spec.holder_identity} leads, and has not renewed it for {late:.0f} s too long"
            yield lease, problem, "is the program running? if it is gone for good, delete the Lease"


INVARIANTS: Final = (
    Invariant("cluster/room", "Pods request no more than their node has.", (Node, Pod), _room, at_rest=True),
    Invariant("cluster/places", "A pod is on a node that exists.", (Node, Pod), _places, at_rest=True),
    Invariant("cluster/leaders", "Who leads by a Lease renews it in time.", (Lease,), _leases, at_rest=True),
    Invariant("cluster/pod-ranges", "No two nodes share addresses of pods.", (Node,), _ranges),
)
