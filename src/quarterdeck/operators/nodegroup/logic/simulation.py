"""Which simulated nodes a group should have.

An embedded cluster has no cloud: CloudEphemeral groups get Node objects instead of machines, between
``minPerZone`` and ``maxPerZone`` in every zone. Inside that range nothing is created or removed, so that
somebody else (an autoscaler, a test) may scale. Static and CloudStatic groups own the nodes that carry
their label; those with a label selector also take in nodes that it selects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from quarterdeck.api import LabelSelector, Selector, from_dict
from quarterdeck.api.k8s import KUBERNETES_VERSION
from quarterdeck.errors import SchemaError
from quarterdeck.operators.nodegroup import names

Document = dict[str, Any]


class SimulatedNode(msgspec.Struct, frozen=True, order=True):
    """A node of a group and its zone (empty where there are no zones)."""

    zone: str
    name: str


class NodePlan(msgspec.Struct, frozen=True):
    """What to change."""

    create: Sequence[SimulatedNode] = ()
    remove: Sequence[SimulatedNode] = ()


def plan_nodes(
    group: Mapping[str, Any], present: Sequence[SimulatedNode], provider_zones: Sequence[str]
) -> NodePlan:
    """Nodes to create and to remove; only for CloudEphemeral groups, everybody else keeps what there is."""
    spec = group.get("spec") or {}
    if spec.get("nodeType") != names.CLOUD_EPHEMERAL:
        return NodePlan()
    instances = spec.get("cloudInstances") or {}
    zones = list(dict.fromkeys(instances.get("zones") or provider_zones)) or [""]
    low, high = instances.get("minPerZone") or 0, instances.get("maxPerZone") or 0
    create: list[SimulatedNode] = []
    remove = [node for node in present if node.zone not in zones]
    for zone in zones:
        here = sorted(node for node in present if node.zone == zone)
        if len(here) > high:
            remove += here[high:]
        elif len(here) < low:
            taken = {node.name for node in present}
            create += _new_nodes(group["metadata"]["name"], zone, low - len(here), taken)
    return NodePlan(create, remove)


def _new_nodes(group: str, zone: str, count: int, taken: set[str]) -> list[SimulatedNode]:
    """Nodes with the lowest free numbers."""
    prefix = f"{group}-{zone}" if zone else group
    names_ = (f"{prefix}-{number}" for number in range(count + len(taken)))
    free = [name for name in names_ if name not in taken]
    return [SimulatedNode(zone, name) for name in free[:count]]


def adopts(group: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a static group's selector takes in a node that belongs to nobody yet."""
    spec = group.get("spec") or {}
    if spec.get("nodeType") not in (names.STATIC, names.CLOUD_STATIC) or names.GROUP_LABEL in labels:
        return False
    given = (spec.get("staticInstances") or {}).get("labelSelector") or {}
    try:
        selector = Selector.of(from_dict(given, LabelSelector))
    except SchemaError:
        return False
    return not selector.is_empty and selector.matches(labels)


def node_document(group: Mapping[str, Any], node: SimulatedNode) -> Document:
    """The Node object, Ready from the start."""
    spec = group.get("spec") or {}
    template = spec.get("nodeTemplate") or {}
    labels = {
        **(template.get("labels") or {}),
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        names.GROUP_LABEL: group["metadata"]["name"],
        names.TYPE_LABEL: names.CLOUD_EPHEMERAL,
        names.SIMULATED_LABEL: "true",
    }
    if node.zone:
        labels[names.ZONE_LABEL] = node.zone
    capacity = {"cpu": "8", "memory": "32Gi", "pods": str((spec.get("kubelet") or {}).get("maxPods") or 110)}
    if spec.get("gpu") is not None:
        capacity["nvidia.com/gpu"] = "8"
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "simulated"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "labels": labels,
            "annotations": {**(template.get("annotations") or {}), "kwok.x-k8s.io/node": "fake"},
        },
        "spec": {"taints": list(template.get("taints") or ()), "providerID": f"quarterdeck://{node.name}"},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [ready],
            "nodeInfo": {
                "architecture": "amd64",
                "operatingSystem": "linux",
                "kubeletVersion": KUBERNETES_VERSION,
                "osImage": "simulated",
                "containerRuntimeVersion": "simulated",
                "kernelVersion": "simulated",
                "kubeProxyVersion": "",
                "bootID": "",
                "machineID": "",
                "systemUUID": "",
            },
        },
    }
