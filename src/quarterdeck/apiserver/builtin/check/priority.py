"""Admission check Priority: from a class's name to a pod's numbers, and one default class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.resource.strategy import ClusterState
from quarterdeck.apiserver.status import forbidden


def default_class(cluster: ClusterState) -> Mapping[str, Any] | None:
    """The PriorityClass marked globalDefault; of several the lowest."""
    marked = [
        item for item in cluster.list("scheduling.k8s.io", "priorityclasses") if item.get("globalDefault")
    ]
    return min(marked, key=lambda item: item.get("value") or 0, default=None)


def admit_new_pod(pod: Json, name: str, cluster: ClusterState) -> None:
    """Fill priority and preemptionPolicy from the named or the default class; raises Forbidden."""
    spec = pod["spec"]
    wanted = spec.get("priorityClassName")
    found: Mapping[str, Any] | None
    if wanted:
        found = cluster.get("scheduling.k8s.io", "priorityclasses", "", wanted)
        if found is None:
            raise forbidden("pods", "", name, f"no PriorityClass with name {wanted} was found")
    else:
        found = default_class(cluster)
        if found is not None:
            spec["priorityClassName"] = found["metadata"]["name"]
    value, policy = 0, "PreemptLowerPriority"
    if found is not None:
        value, policy = found.get("value") or 0, found.get("preemptionPolicy") or ""
    given = spec.get("priority")
    if given is not None and given != value:
        raise forbidden(
            "pods",
            "",
            name,
            f"the integer value of priority ({given}) must not be provided in pod spec; priority admission "
            f"controller computed {value} from the given PriorityClass name",
        )
    spec["priority"] = value
    if not policy:
        return
    given = spec.get("preemptionPolicy")
    if given is not None and given != policy:
        raise forbidden(
            "pods",
            "",
            name,
            f"the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority "
            f"admission controller computed {policy} from the given PriorityClass name",
        )
    spec["preemptionPolicy"] = policy


def admit_changed_pod(pod: Json, old: Json) -> None:
    """An update that leaves the numbers out keeps them."""
    spec, before = pod["spec"], old.get("spec") or {}
    for key in ("priority", "preemptionPolicy"):
        if spec.get(key) is None and before.get(key) is not None:
            spec[key] = before[key]


def check_class(priority_class: Json, name: str, cluster: ClusterState, *, new: bool) -> None:
    """Only one class may be the default; raises Forbidden."""
    if not priority_class.get("globalDefault"):
        return
    present = default_class(cluster)
    if present is None:
        return
    other = present["metadata"]["name"]
    if new or other != name:
        why = f"PriorityClass {other} is already marked as default. Only one default can exist"
        raise forbidden("priorityclasses", "scheduling.k8s.io", name, why)
