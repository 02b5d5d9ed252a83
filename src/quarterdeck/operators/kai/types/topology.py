"""Topology: how nodes are near each other."""

from __future__ import annotations

from typing import Annotated, Final

from quarterdeck.api import Model, Resource, Seq
from quarterdeck.api.marker import Atomic, Cel, Len, Pattern
from quarterdeck.operators.kai import names

_LABEL_KEY: Final = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
_HOSTNAME: Final = "kubernetes.io/hostname"


class TopologyLevel(Model):
    """One level: the nodes with the same value of a label, and of those above, are a domain."""

    node_label: Annotated[str, Len(min=1, max=316), Pattern(_LABEL_KEY)]
    """The label."""


class TopologySpec(Model):
    """The levels, the widest first."""

    levels: Annotated[
        Seq[TopologyLevel],
        Len(min=1, max=16),
        Atomic(),
        Cel("self == oldSelf", message="field is immutable"),
        Cel("self.all(a, self.exists_one(b, a.nodeLabel == b.nodeLabel))", message="must be unique"),
        Cel(
            f"self.all(a, a.nodeLabel != '{_HOSTNAME}')"
            f" || (self[self.size() - 1].nodeLabel == '{_HOSTNAME}'"
            f" && self.exists_one(a, a.nodeLabel == '{_HOSTNAME}'))",
            message="the kubernetes.io/hostname label can only be used at the lowest level of topology",
        ),
    ]


class Topology(Resource, group=names.TOPOLOGY_GROUP, version="v1alpha1", scope="Cluster"):
    """Zones, racks, hosts: how near nodes are to each other."""

    spec: TopologySpec
