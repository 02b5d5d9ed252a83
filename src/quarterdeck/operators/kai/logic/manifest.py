"""Manifests as changes to a recorded cluster: what if these objects were applied."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from quarterdeck.api import from_dict
from quarterdeck.api.k8s import PriorityClass
from quarterdeck.errors import SchemaError
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.types import PodGroup, Queue, Topology
from quarterdeck.scheduler.intake import node_info, pod_info
from quarterdeck.scheduler.snapshot import Snapshot

from .intake import pod_group_info, priority_class_info, queue_info, topology_info

Document = Mapping[str, Any]


def apply_manifest(snapshot: Snapshot, document: Document) -> Snapshot:
    """The cluster with one object more, or another of its name; ``SchemaError`` for other kinds."""
    kind = str(document.get("kind", ""))
    if kind not in _READERS:
        known = ", ".join(sorted(_READERS))
        raise SchemaError(f"objects of kind {kind or 'nothing'} cannot be simulated: use {known}")
    if not (document.get("metadata") or {}).get("name"):
        raise SchemaError(f"an object of kind {kind} needs metadata.name")
    field, read = _READERS[kind]
    made = read(document, snapshot.now)
    kept = [each for each in getattr(snapshot, field) if _identity(each) != _identity(made)]
    return replace(snapshot, **{field: (*kept, made)})


def _identity(info: Any) -> tuple[str, str]:
    return (getattr(info, "namespace", ""), info.name)


def _pod(document: Document, now: float) -> Any:
    metadata = {"namespace": "default", "uid": document["metadata"]["name"], **document["metadata"]}
    info = replace(pod_info({**document, "metadata": metadata}), created=now)
    if info.scheduler_name == names.SCHEDULER_NAME and not info.pod_group:
        raise SchemaError(
            f"pod {info.key} is in no group: give it the annotation {names.POD_GROUP_ANNOTATION}"
        )
    return info


def _group(document: Document, now: float) -> Any:
    metadata = {"namespace": "default", **document["metadata"]}
    info = pod_group_info(from_dict({**document, "metadata": metadata}, PodGroup))
    return info if info.created else replace(info, created=now)


_READERS: Final[Mapping[str, tuple[str, Callable[[Document, float], Any]]]] = {
    "Node": ("nodes", lambda document, _: node_info(document)),
    "Pod": ("pods", _pod),
    "PodGroup": ("pod_groups", _group),
    "Queue": ("queues", lambda document, _: queue_info(from_dict(document, Queue))),
    "Topology": ("topologies", lambda document, _: topology_info(from_dict(document, Topology))),
    "PriorityClass": (
        "priority_classes",
        lambda document, _: priority_class_info(from_dict(document, PriorityClass)),
    ),
}
"""By kind: the field of the snapshot, and how to read an object."""
