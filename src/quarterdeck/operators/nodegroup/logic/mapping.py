"""The plain mapping between v1 and the old versions, without any memory of what is lost.

``translate(document, source, target)`` goes over the hub: source → v1 → target. ``Hybrid`` stays ``Hybrid``
here; which v1 type it means is decided in ``conversion``. Absent stays absent, zero and empty values stay
as they are, metadata is passed through.

Documents are never changed in place. What a mapping does not touch is shared between input and output, so
that comparing the two (``roundtrip``) can stop at identical parts.
"""

from __future__ import annotations

from typing import Any, Final

from quarterdeck.operators.nodegroup import names

Document = dict[str, Any]

_UP: Final = {names.CLOUD: names.CLOUD_EPHEMERAL}
_DOWN: Final = {
    names.CLOUD_EPHEMERAL: names.CLOUD,
    names.CLOUD_PERMANENT: names.HYBRID,
    names.CLOUD_STATIC: names.HYBRID,
}

LOST: Final[dict[tuple[str, ...], tuple[str, ...]]] = {
    ("spec",): ("gpu", "fencing", "update", "staticInstances", "nodeDrainTimeoutSecond"),
    ("spec", "kubelet"): ("resourceReservation", "topologyManager", "memorySwap"),
    ("spec", "cloudInstances"): ("priority", "quickShutdown"),
    ("spec", "cloudInstances", "standbyHolder"): ("overprovisioningRate",),
    ("status",): ("conditions", "deckhouse"),
}
"""Fields of v1 that no old version has; those of ``spec.cri`` are treated one by one."""


def translate(document: Document, source: str, target: str) -> Document:
    """``document`` in another version; both versions must be known."""
    hub = document if source == names.V1 else _to_hub(document, source)
    return hub if target == names.V1 else _from_hub(hub, target)


def _to_hub(document: Document, source: str) -> Document:
    hub = {**document, "apiVersion": names.V1}
    old = document.get("spec")
    if type(old) is not dict:
        return hub
    spec = hub["spec"] = dict(old)
    if "nodeType" in spec:
        spec["nodeType"] = _UP.get(spec["nodeType"], spec["nodeType"])
    if source == names.V1ALPHA1:
        spec.pop("kubernetesVersion", None)
        spec.pop("static", None)
        docker = spec.pop("docker", None)
        if docker is not None:
            cri = spec["cri"] = {**(spec.get("cri") or {}), "docker": docker}
            if not cri.get("type"):
                cri["type"] = names.DOCKER
    return hub


def _from_hub(hub: Document, target: str) -> Document:
    document = {**hub, "apiVersion": target}
    new = hub.get("spec")
    if type(new) is dict:
        spec = document["spec"] = _without(new, LOST["spec",])
        if "nodeType" in spec:
            spec["nodeType"] = _DOWN.get(spec["nodeType"], spec["nodeType"])
        if type(spec.get("cri")) is dict:
            _old_cri(spec, target)
        if type(spec.get("kubelet")) is dict:
            spec["kubelet"] = _without(spec["kubelet"], LOST["spec", "kubelet"])
        if type(spec.get("cloudInstances")) is dict:
            spec["cloudInstances"] = _old_cloud_instances(spec["cloudInstances"])
    if type(hub.get("status")) is dict:
        document["status"] = _without(hub["status"], LOST["status",])
    return document


def _old_cri(spec: Document, target: str) -> None:
    cri = spec["cri"] = dict(spec["cri"])
    if cri.get("type") == names.CONTAINERD_V2:
        cri["type"] = names.CONTAINERD
    if "containerdV2" in cri:
        settings = cri.pop("containerdV2")
        cri.setdefault("containerd", settings)
    if target == names.V1ALPHA1:
        cri.pop("notManaged", None)
        if "docker" in cri:
            spec["docker"] = cri.pop("docker")


def _old_cloud_instances(new: Document) -> Document:
    old = _without(new, LOST["spec", "cloudInstances"])
    if type(old.get("standbyHolder")) is dict:
        lost = LOST["spec", "cloudInstances", "standbyHolder"]
        old["standbyHolder"] = _without(old["standbyHolder"], lost)
    return old


def _without(document: Document, keys: tuple[str, ...]) -> Document:
    kept = dict(document)
    for key in keys:
        kept.pop(key, None)
    return kept
