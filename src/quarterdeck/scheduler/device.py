"""Devices of dynamic resource allocation, and the claims for them, as a snapshot has them.

Which devices a request means is decided by who takes the snapshot: it evaluates the selectors of classes and
claims once, and gives every distinct demand a name. Nothing here knows how selectors are written.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from quarterdeck.api import Key
from quarterdeck.api.k8s import NodeSelector

MOST_CONSUMERS = 256
"""Pods that may use one claim."""


class DeviceId(msgspec.Struct, frozen=True, order=True, array_like=True):
    """What tells devices apart."""

    driver: str
    pool: str
    name: str


class DeviceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A device."""

    id: DeviceId
    node: str = ""
    """The only node that reaches it; empty if several do."""
    nodes: NodeSelector | None = None
    """The nodes that reach it if it is not on one alone; all of them if absent."""
    attributes: tuple[tuple[str, str], ...] = ()
    """By full name, with values as texts that are equal where the values are."""


class DeviceRequestInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A number of devices of one sort."""

    name: str
    """As results call it: the request, or the request and one of its alternatives."""
    sort: str
    """The name of a set of ``Devices.sorts``."""
    count: int = 1
    is_all: bool = False
    """Every device of the sort that the node reaches, whatever the count."""
    is_admin: bool = False
    """Looks at devices that may be in use, and takes none."""


class DeviceConstraintInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What the devices of some requests must have in common, or must not."""

    attribute: str
    requests: tuple[str, ...] = ()
    """Of the claim; all of them if empty."""
    is_distinct: bool = False


class AllocatedDevice(msgspec.Struct, frozen=True):
    """A device that a claim has."""

    request: str
    device: DeviceId
    is_admin: bool = False


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
    """The devices of a claim, and where they can be used."""

    devices: tuple[AllocatedDevice, ...] = ()
    node: str = ""
    """The only node; empty if several will do."""
    nodes: NodeSelector | None = None
    """The nodes that will do; all of them if absent."""


class ClaimInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A claim."""

    namespace: str
    name: str
    requests: tuple[tuple[DeviceRequestInfo, ...], ...] = ()
    """Each with its alternatives, the best first."""
    constraints: tuple[DeviceConstraintInfo, ...] = ()
    allocation: Allocation | None = None
    consumers: tuple[str, ...] = ()
    """UIDs of the pods it is reserved for."""

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)


class PodClaim(msgspec.Struct, frozen=True):
    """A claim that a pod uses: what the pod calls it, and its name."""

    reference: str
    claim: str


class Devices(msgspec.Struct, frozen=True, kw_only=True):
    """All devices of a cluster, and which of them are of each sort that claims ask for."""

    devices: tuple[DeviceInfo, ...] = ()
    sorts: Mapping[str, tuple[DeviceId, ...]] = {}
