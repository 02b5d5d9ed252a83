"""Admission check PodResizeValidator: a resized pod has to fit on its node."""

from __future__ import annotations

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.kind import same
from quarterdeck.apiserver.builtin.pod.resources import pod_requests, quantity_or_zero
from quarterdeck.apiserver.document.quantity import ZERO
from quarterdeck.apiserver.resource.strategy import ClusterState
from quarterdeck.apiserver.status import StatusError, forbidden


def check_resize(pod: Json, old: Json, name: str, cluster: ClusterState) -> None:
    """Raises Forbidden when the node is unknown, not Linux or too small."""
    spec = pod.get("spec") or {}
    node_name = spec.get("nodeName")
    if not node_name or same(spec, old.get("spec")):
        return
    node = cluster.get("", "nodes", "", node_name)
    if node is None:
        raise forbidden("pods", "", name, f'node "{node_name}" not found')
    system = (node["metadata"].get("labels") or {}).get("kubernetes.io/os")
    if system not in (None, "linux"):
        why = f'pod resize is only supported on linux nodes, node "{node_name}" is "{system}"'
        raise _refused(name, why, "UnsupportedPlatform")
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    requests = pod_requests(spec)
    parts: list[str] = []
    cpu, has_cpu = requests.get("cpu", ZERO), quantity_or_zero(allocatable.get("cpu"))
    if cpu.nanos > has_cpu.nanos:
        parts.append(f"cpu, requested: {cpu.milli}, allocatable: {has_cpu.milli}")
    memory, has_memory = requests.get("memory", ZERO), quantity_or_zero(allocatable.get("memory"))
    if memory.nanos > has_memory.nanos:
        parts.append(f"memory, requested: {memory.value}, allocatable: {has_memory.value}")
    if parts:
        why = f"node didn't have enough allocatable resources: {'; '.join(parts)}"
        raise _refused(name, why, "NodeCapacity")


def _refused(name: str, why: str, reason: str) -> StatusError:
    return forbidden("pods", "", name, why, causes=[{"reason": reason}])
