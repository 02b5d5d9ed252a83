"""What the volumes of a pod demand of its node.

A claim that is bound ties the pod to the nodes that reach its volume. A claim that waits for its first
consumer leaves the choice to the scheduler; whether a node has room for a new volume is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from quarterdeck.api import from_dict
from quarterdeck.api.k8s import NodeSelector
from quarterdeck.wire.gostyle import quote

__all__ = ["VolumeDemands", "claims_of", "volume_demands"]

Document = Mapping[str, Any]
_WAITING: Final = "WaitForFirstConsumer"


class VolumeDemands(msgspec.Struct, frozen=True):
    """Which nodes reach the volumes of a pod."""

    nodes: tuple[NodeSelector, ...] = ()
    """All of these must accept the node."""
    problem: str = ""
    """Why no node does; empty if some may."""


def claims_of(pod: Document) -> Iterable[str]:
    """The names of the claims that a pod uses, in its namespace."""
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        claim = volume.get("persistentVolumeClaim")
        if claim is not None:
            yield claim.get("claimName", "")
        elif volume.get("ephemeral") is not None:
            yield f"{pod['metadata']['name']}-{volume.get('name', '')}"


def volume_demands(
    claims: Iterable[str],
    *,
    claim: Callable[[str], Document | None],
    volume: Callable[[str], Document | None],
    storage_class: Callable[[str], Document | None],
) -> VolumeDemands:
    """What some claims of a namespace demand; the functions find objects by name."""
    nodes: list[NodeSelector] = []
    for name in claims:
        found = claim(name)
        if found is None:
            return VolumeDemands(problem=f"persistentvolumeclaim {quote(name)} not found")
        if found["metadata"].get("deletionTimestamp") is not None:
            return VolumeDemands(problem=f"persistentvolumeclaim {quote(name)} is being deleted")
        spec = found.get("spec") or {}
        bound = spec.get("volumeName")
        if not bound:
            kind = storage_class(spec.get("storageClassName") or "") or {}
            if kind.get("volumeBindingMode") != _WAITING:
                return VolumeDemands(problem="pod has unbound immediate PersistentVolumeClaims")
            continue
        holder = volume(bound)
        if holder is None:
            return VolumeDemands(problem=f"persistentvolume {quote(bound)} not found")
        required = ((holder.get("spec") or {}).get("nodeAffinity") or {}).get("required")
        if required:
            nodes.append(from_dict(required, NodeSelector))
    return VolumeDemands(tuple(nodes))
