"""Admission check PodTopologyLabels: a pod carries the zone and region of its node."""

from __future__ import annotations

from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.kind import section
from quarterdeck.apiserver.resource.strategy import ClusterState

_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def copy_labels(obj: Json, node_name: str, cluster: ClusterState) -> None:
    """Onto a pod or a Binding, overwriting what is there."""
    node = cluster.get("", "nodes", "", node_name)
    if node is None:
        return
    labels = node["metadata"].get("labels") or {}
    copied = {key: labels[key] for key in _LABELS if key in labels}
    if copied:
        section(section(obj, "metadata"), "labels").update(copied)
