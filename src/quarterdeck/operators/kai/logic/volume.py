"""What the volumes of a pod demand of its node.

A claim that is bound ties the pod to the nodes that reach its volume. A claim that waits for its first
consumer leaves the choice to the scheduler: a node will do if an unused volume that suits the claim is
reachable from it, or if a new volume may be made for it. How much room a provisioner has is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from quarterdeck.api import LabelSelector, Quantity, Selector, from_dict
from quarterdeck.api.k8s import NodeSelector
from quarterdeck.operators.kai import names
from quarterdeck.wire.gostyle import quote

Document = Mapping[str, Any]
_WAITING: Final = "WaitForFirstConsumer"
_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_NOTHING: Final = Quantity(0)


class VolumeDemands(msgspec.Struct, frozen=True):
    """Which nodes reach the volumes of a pod."""

    nodes: tuple[NodeSelector, ...] = ()
    """Of the volumes that claims have; all of these must accept the node."""
    open: tuple[NodeSelector, ...] = ()
    """Where claims without a volume may get one; the same."""
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
    volumes: Callable[[], Collection[Document]],
) -> VolumeDemands:
    """What some claims of a namespace demand; the functions find objects by name, and all volumes."""
    nodes: list[NodeSelector] = []
    places: list[NodeSelector] = []
    for name in claims:
        found = claim(name)
        if found is None:
            return VolumeDemands(problem=f"persistentvolumeclaim {quote(name)} not found")
        if found["metadata"].get("deletionTimestamp") is not None:
            return VolumeDemands(problem=f"persistentvolumeclaim {quote(name)} is being deleted")
        bound = (found.get("spec") or {}).get("volumeName")
        if bound:
            holder = volume(bound)
            if holder is None:
                return VolumeDemands(problem=f"persistentvolume {quote(bound)} not found")
            nodes += _reach(holder)
            continue
        kind = storage_class(_class_of(found)) or {}
        if kind.get("volumeBindingMode") != _WAITING:
            return VolumeDemands(problem="pod has unbound immediate PersistentVolumeClaims")
        places += _open_to(found, kind, volumes())
    return VolumeDemands(tuple(nodes), tuple(places))


def is_bound(claim: Document) -> bool:
    """Whether a claim has its volume for good."""
    bound = (claim.get("spec") or {}).get("volumeName")
    return bool(bound and (claim.get("status") or {}).get("phase") == "Bound")


def can_provision(storage_class: Document) -> bool:
    """Whether volumes of a class are made when they are needed."""
    return bool(storage_class.get("provisioner", _NO_PROVISIONER) != _NO_PROVISIONER)


def suitable_volumes(claim: Document, volumes: Iterable[Document]) -> list[Document]:
    """The volumes that a claim may be bound to, the smallest first; one that is meant for it alone."""
    found = [each for each in volumes if _suits(claim, each)]
    meant = [each for each in found if each["spec"].get("claimRef")]
    return sorted(
        meant or found, key=lambda each: (_size(each["spec"], "capacity"), each["metadata"]["name"])
    )


def _open_to(claim: Document, storage_class: Document, volumes: Iterable[Document]) -> list[NodeSelector]:
    """The nodes that may serve a claim without a volume, as a selector; none if all do."""
    chosen = (claim["metadata"].get("annotations") or {}).get(names.SELECTED_NODE_ANNOTATION)
    if chosen:  # a provisioner is at work there
        return [_selector([{"matchFields": [_among("metadata.name", [chosen])]}])]
    terms: list[Document] = []
    for each in suitable_volumes(claim, volumes):
        required = _required(each)
        if required is None:
            return []
        terms += required.get("nodeSelectorTerms") or ()
    if can_provision(storage_class):
        allowed = storage_class.get("allowedTopologies") or ()
        if not allowed:
            return []
        terms += [
            {
                "matchExpressions": [
                    _among(each["key"], each.get("values") or [])
                    for each in term.get("matchLabelExpressions") or ()
                ]
            }
            for term in allowed
        ]
    return [_selector(terms)]


def _reach(volume: Document) -> list[NodeSelector]:
    required = _required(volume)
    return [from_dict(required, NodeSelector)] if required else []


def _required(volume: Document) -> Document | None:
    found: Document | None = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required")
    return found


def _selector(terms: list[Document]) -> NodeSelector:
    return from_dict({"nodeSelectorTerms": terms}, NodeSelector)


def _among(key: str, values: list[str]) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": values}


def _suits(claim: Document, volume: Document) -> bool:
    wanted, offered = claim.get("spec") or {}, volume.get("spec") or {}
    if volume["metadata"].get("deletionTimestamp") is not None:
        return False
    if not _is_for(claim, volume):
        return False
    if _class_of(claim) != (offered.get("storageClassName") or ""):
        return False
    if (wanted.get("volumeMode") or "Filesystem") != (offered.get("volumeMode") or "Filesystem"):
        return False
    if not set(wanted.get("accessModes") or ()) <= set(offered.get("accessModes") or ()):
        return False
    if _size(offered, "capacity") < _size(wanted.get("resources") or {}, "requests"):
        return False
    selector = wanted.get("selector")
    labels = volume["metadata"].get("labels") or {}
    return selector is None or Selector.of(from_dict(selector, LabelSelector)).matches(labels)


def _is_for(claim: Document, volume: Document) -> bool:
    """Whether a volume is nobody's, or this claim's."""
    holder = volume["spec"].get("claimRef")
    if not holder:
        return bool((volume.get("status") or {}).get("phase", "Available") == "Available")
    mine = claim["metadata"]
    if (holder.get("namespace"), holder.get("name")) != (mine.get("namespace"), mine["name"]):
        return False
    return bool(holder.get("uid") in (None, "", mine.get("uid")))


def _class_of(claim: Document) -> str:
    return (claim.get("spec") or {}).get("storageClassName") or ""


def _size(document: Document, field: str) -> Quantity:
    text = (document.get(field) or {}).get("storage")
    return Quantity(str(text)) if text is not None else _NOTHING
