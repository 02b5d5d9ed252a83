"""What somebody else does to objects: copies of another origin, edits of what an operator made. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from quarterdeck.testing.torture.picture import StoredObject

Json = dict[str, Any]
STRANGER: Final = "somebody-else"
_KEPT: Final = ("name", "namespace", "labels", "annotations")
_ASSIGNED: Final = ("clusterIP", "clusterIPs", "volumeName", "nodeName", "healthCheckNodePort")


def fresh_copy(document: Mapping[str, Any]) -> Json:
    """The object as somebody would create it anew: without what the server and controllers have added."""
    metadata = {key: document["metadata"][key] for key in _KEPT if key in document["metadata"]}
    copy = {key: value for key, value in document.items() if key not in ("metadata", "status")}
    if isinstance(copy.get("spec"), Mapping):
        copy["spec"] = {key: value for key, value in copy["spec"].items() if key not in _ASSIGNED}
    return {**copy, "metadata": metadata}


def stranger(namespace: str) -> Json:
    """The object that owns what is not the operator's."""
    metadata = {"name": STRANGER, "namespace": namespace or "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def foreign_copy(document: Mapping[str, Any], owner_uid: str) -> Json:
    """An object of the same name, which somebody else's controller owns."""
    copy = fresh_copy(document)
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": STRANGER, "uid": owner_uid}
    copy["metadata"] |= {"ownerReferences": [{**reference, "controller": True}]}
    return copy


def neighbour(document: Mapping[str, Any]) -> Json:
    """A second object like the first."""
    copy = fresh_copy(document)
    copy["metadata"] |= {"name": f"{copy['metadata']['name']}-2"}
    return copy


def edit_of(found: StoredObject) -> Json:
    """A merge patch that spoils an object a little; empty if nothing can be spoiled without a quarrel."""
    document = found.document
    spec = document.get("spec") or {}
    if isinstance(spec.get("replicas"), int):
        return {"spec": {"replicas": spec["replicas"] + 1}}
    if found.resource in ("configmaps", "secrets") and document.get("data"):
        key = min(document["data"])
        return {"data": {key: "c3BvaWxlZA==" if found.resource == "secrets" else "spoiled"}}
    if found.resource == "services" and spec.get("selector"):
        return {"spec": {"selector": {"spoiled": "true"}}}
    if document.get("rules"):
        return {"rules": []}
    return {}
