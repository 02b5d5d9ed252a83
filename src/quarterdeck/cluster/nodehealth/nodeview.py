"""What the node lifecycle reads of a node and of its lease: once for each state, because it looks often."""

from __future__ import annotations

from typing import Final

import msgspec

from quarterdeck.api import ObjectMeta, Time
from quarterdeck.api.frozen import FrozenMap
from quarterdeck.api.instant import MicroTime
from quarterdeck.api.k8s import Node
from quarterdeck.cluster.nodetaint import NodeTaint
from quarterdeck.runtime.cache import Entry

_REGION: Final = "topology.kubernetes.io/region"
_ZONE: Final = "topology.kubernetes.io/zone"
_EXCLUDED: Final = "node.kubernetes.io/exclude-disruption"


class Condition(msgspec.Struct, rename="camel", gc=False, frozen=True):
    """What a kubelet says about its node."""

    type: str = ""
    status: str = ""
    last_heartbeat_time: str | None = None


class _Status(msgspec.Struct, gc=False, frozen=True):
    conditions: tuple[Condition, ...] = ()


class _Spec(msgspec.Struct, gc=False, frozen=True):
    taints: tuple[NodeTaint, ...] = ()
    unschedulable: bool = False


class _Meta(msgspec.Struct, rename="camel", gc=False, frozen=True):
    creation_timestamp: str | None = None


class _Node(msgspec.Struct, gc=False, frozen=True):
    metadata: _Meta
    spec: _Spec = _Spec()
    status: _Status = _Status()


_decode_node: Final = msgspec.json.Decoder(_Node).decode


class NodeView:
    """One state of a node."""

    def __init__(self, entry: Entry) -> None:
        document = _decode_node(entry.raw)
        self.entry: Final = entry
        self.name: Final = entry.name
        self.uid: Final = entry.uid
        self.taints: Final = document.spec.taints
        self.is_unschedulable: Final = document.spec.unschedulable
        self.conditions: Final = document.status.conditions
        self.ready: Final = next((each for each in self.conditions if each.type == "Ready"), None)
        created = document.metadata.creation_timestamp
        self.created: Final = Time(created).timestamp() if created else 0.0
        labels: FrozenMap[str, str] = entry.labels
        self.zone: Final = (labels.get(_REGION, ""), labels.get(_ZONE, ""))
        self.counts: Final = _EXCLUDED not in labels
        """Whether it counts when a zone is judged."""

    def has_taint(self, key: str, effect: str) -> bool:
        return any(each.key == key and each.effect == effect for each in self.taints)

    @property
    def reference(self) -> Node:
        """Enough of the object to speak of it."""
        return Node(metadata=ObjectMeta(name=self.name, uid=self.uid))


class _LeaseSpec(msgspec.Struct, rename="camel", gc=False, frozen=True):
    renew_time: str | None = None
    lease_duration_seconds: int | None = None


class _Lease(msgspec.Struct, gc=False, frozen=True):
    spec: _LeaseSpec = _LeaseSpec()


_decode_lease: Final = msgspec.json.Decoder(_Lease).decode


class LeaseView:
    """One state of the lease by which a node says that it is alive."""

    def __init__(self, entry: Entry) -> None:
        spec = _decode_lease(entry.raw).spec
        self.entry: Final = entry
        self.renewed: Final = MicroTime(spec.renew_time).timestamp() if spec.renew_time else 0.0
        self.duration: Final = float(spec.lease_duration_seconds or 0)
