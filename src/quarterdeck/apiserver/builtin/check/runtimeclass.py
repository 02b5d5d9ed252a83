"""Admission check RuntimeClass: overhead and scheduling of the class a pod names."""

from __future__ import annotations

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.kind import same
from quarterdeck.apiserver.resource.strategy import ClusterState
from quarterdeck.apiserver.status import forbidden


def _class_of(pod: Json, name: str, cluster: ClusterState) -> Json | None:
    wanted = (pod.get("spec") or {}).get("runtimeClassName")
    if not wanted:
        return None
    found = cluster.get("node.k8s.io", "runtimeclasses", "", wanted)
    if found is None:
        raise forbidden("pods", "", name, f'pod rejected: RuntimeClass "{wanted}" not found')
    return found


def apply_class(pod: Json, name: str, cluster: ClusterState) -> None:
    """Take over overhead, node selector and tolerations; raises Forbidden."""
    found = _class_of(pod, name, cluster)
    if found is None:
        return
    spec = pod["spec"]
    fixed = (found.get("overhead") or {}).get("podFixed")
    if fixed:
        if spec.get("overhead") and not same(spec["overhead"], fixed):
            why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
            raise forbidden("pods", "", name, why)
        spec["overhead"] = dict(fixed)
    scheduling = found.get("scheduling")
    if not scheduling:
        return
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        if selector.setdefault(key, value) != value:
            why = (
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {selector[key]}"
            )
            raise forbidden("pods", "", name, why)
    if selector:
        spec["nodeSelector"] = selector
    present = spec.get("tolerations") or []
    known = {frozenset(item.items()) for item in present}
    added = [item for item in scheduling.get("tolerations") or () if frozenset(item.items()) not in known]
    if added:
        spec["tolerations"] = [*present, *added]


def check_class(pod: Json, name: str, cluster: ClusterState) -> None:
    """The overhead must be the class's; raises Forbidden."""
    spec = pod.get("spec") or {}
    found = _class_of(pod, name, cluster)
    if found is None:
        if spec.get("overhead"):
            why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            raise forbidden("pods", "", name, why)
        return
    fixed = (found.get("overhead") or {}).get("podFixed")
    if not same(spec.get("overhead"), fixed):
        why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        raise forbidden("pods", "", name, why)
