"""What follows from the type of a Service and from a few of its fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def is_headless(spec: Mapping[str, Any]) -> bool:
    addresses: Sequence[str] = spec.get("clusterIPs") or ()
    return len(addresses) == 1 and addresses[0] == "None"


def is_external_name(spec: Mapping[str, Any]) -> bool:
    return spec.get("type") == "ExternalName"


def needs_node_ports(spec: Mapping[str, Any]) -> bool:
    return spec.get("type") in ("NodePort", "LoadBalancer")


def needs_health_check(spec: Mapping[str, Any]) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def is_externally_accessible(spec: Mapping[str, Any]) -> bool:
    kind = spec.get("type")
    return kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))
