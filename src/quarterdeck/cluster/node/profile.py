"""Which simulated nodes a cluster has: some that are alike, and pools of others from a profile.

A profile is a list of pools::

    nodes:
    - name: gpu               # gpu-0, gpu-1 and so on
      count: 16
      capacity: {cpu: "64", memory: 512Gi, nvidia.com/gpu: "8"}
      labels: {accelerator: h100}
      taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
      region: west
      zones: [west-a, west-b] # the nodes are dealt out to the zones in equal blocks
      racks: 2                # in each zone: west-a-rack-0, west-a-rack-1 and so on
      rackLabel: quarterdeck.dev/rack
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from quarterdeck.api import Quantity
from quarterdeck.api.frozen import FrozenMap
from quarterdeck.api.model import EMPTY_MAP
from quarterdeck.cluster.node import names
from quarterdeck.cluster.nodetaint import NodeTaint
from quarterdeck.errors import ConfigError, reason_of

USUAL_CAPACITY: Final = FrozenMap({"cpu": "32", "memory": "256Gi", "pods": "110"})
_REGION: Final = "topology.kubernetes.io/region"
_ZONE: Final = "topology.kubernetes.io/zone"


class NodePool(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Nodes that are alike but for their place."""

    name: str
    """Nodes are called ``<name>-<number>``, from 0."""
    count: int
    capacity: Mapping[str, str | int] = EMPTY_MAP
    """Added to what every node has."""
    labels: Mapping[str, str] = EMPTY_MAP
    taints: tuple[NodeTaint, ...] = ()
    region: str = ""
    zones: tuple[str, ...] = ()
    racks: int = 0
    rack_label: str = names.RACK

    def place(self, number: int) -> dict[str, str]:
        """The labels that say where a node is."""
        found = {_REGION: self.region} if self.region else {}
        zone, first, size = "", 0, self.count
        if self.zones:
            block = -(-self.count // len(self.zones))
            first = number // block * block
            size = min(block, self.count - first)
            zone = found[_ZONE] = self.zones[number // block]
        if self.racks:
            rack = (number - first) // -(-size // self.racks)
            found[self.rack_label] = f"{zone or self.name}-rack-{rack}"
        return found


class PlannedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that should be there."""

    name: str
    number: int
    """Among all nodes of the cluster; no other node has it."""
    capacity: Mapping[str, str]
    labels: Mapping[str, str] = EMPTY_MAP
    taints: tuple[NodeTaint, ...] = ()


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which nodes there are."""

    count: int = 0
    prefix: str = "node-"
    """Nodes are called ``<prefix><number>``, from 0."""
    capacity: Mapping[str, str] = USUAL_CAPACITY
    """Resources of each node, all of them allocatable."""
    labels: Mapping[str, str] = EMPTY_MAP
    """Labels beyond those of a kubelet."""
    pools: tuple[NodePool, ...] = ()
    """More nodes, after those."""

    @property
    def total(self) -> int:
        """How many nodes there are in all."""
        return self.count + sum(pool.count for pool in self.pools)

    def planned(self) -> Iterator[PlannedNode]:
        """All nodes."""
        for number in range(self.count):
            yield PlannedNode(
                name=f"{self.prefix}{number}", number=number, capacity=self.capacity, labels=self.labels
            )
        number = self.count
        for pool in self.pools:
            more = {name: str(amount) for name, amount in pool.capacity.items()}
            for place in range(pool.count):
                yield PlannedNode(
                    name=f"{pool.name}-{place}",
                    number=number,
                    capacity={**self.capacity, **more},
                    labels={**self.labels, **pool.labels, **pool.place(place)},
                    taints=pool.taints,
                )
                number += 1


class _Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    nodes: tuple[NodePool, ...]


def read_profile(document: Any) -> tuple[NodePool, ...]:
    """The pools of a profile; raises ``ConfigError`` that names the field where it makes no sense."""
    try:
        pools = msgspec.convert(document, _Profile).nodes
    except msgspec.ValidationError as error:
        raise ConfigError(f"node profile: {reason_of(error)}") from error
    seen: set[str] = set()
    for i, pool in enumerate(pools):
        where = f"node profile: nodes[{i}]"
        if pool.name in seen:
            raise ConfigError(f"{where}.name: {pool.name} is there twice")
        seen.add(pool.name)
        if pool.count < 0 or pool.racks < 0:
            raise ConfigError(f"{where}: count and racks must not be negative")
        for name, amount in pool.capacity.items():
            if not Quantity(str(amount)).is_valid():
                raise ConfigError(f"{where}.capacity.{name}: {amount!r} is no quantity")
    return pools
