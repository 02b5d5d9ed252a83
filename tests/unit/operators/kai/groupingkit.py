"""Workloads in a few words, for tests of grouping."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from quarterdeck.api import DynamicObject
from quarterdeck.api.k8s import Pod
from quarterdeck.operators.kai.logic.grouping import (
    GroupPlan,
    Workload,
    default_registry,
)

Json = dict[str, Any]
CLASSES = frozenset({"train", "build", "inference"})


def owner(
    api_version: str, kind: str, name: str = "o", spec: Json | None = None, **metadata: Any
) -> DynamicObject:
    return DynamicObject(
        {
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {"name": name, "namespace": "ns", "uid": f"{name}-uid", **metadata},
            "spec": spec or {},
        }
    )


def pod(name: str = "p", spec: Json | None = None, **metadata: Any) -> Pod:
    return Pod.from_dict(
        {
            "metadata": {"name": name, "namespace": "ns", "uid": f"{name}-uid", **metadata},
            "spec": {"schedulerName": "kai-scheduler", **(spec or {})},
        }
    )


def plan(given: Pod, *owners: DynamicObject, related: DynamicObject | None = None, **known: Any) -> GroupPlan:
    """The plan for a pod, as the controller comes to it."""
    known.setdefault("priority_classes", CLASSES)
    workload = Workload(pod=given, owners=owners, **known)
    grouper, workload = default_registry().resolve(workload)
    if grouper.related is not None:
        grouper.related(workload)
        workload = replace(workload, related=related)
    return grouper.plan(workload)


def sub_groups(found: GroupPlan) -> list[tuple[str, int, str | None]]:
    """Name, minimum and parent of each subgroup."""
    return [(each.name, each.min_member, each.parent) for each in found.sub_groups]
