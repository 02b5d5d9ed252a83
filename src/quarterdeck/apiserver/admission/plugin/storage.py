"""Plugins for volumes: DefaultStorageClass, StorageObjectInUseProtection, PersistentVolumeClaimResize."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.admission.attributes import Attributes
from quarterdeck.apiserver.document.quantity import nanos_of

from .base import CREATE, UPDATE, Plugin, annotations_of, keys, spec_of

_CLAIMS: Final = "persistentvolumeclaims"
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_MARKS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_FINALIZERS: Final = {
    _CLAIMS: "kubernetes.io/pvc-protection",
    "persistentvolumes": "kubernetes.io/pv-protection",
}
_NOT_BOUND: Final = "Only bound persistent volume claims can be expanded"
_NOT_EXPANDABLE: Final = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must "
    "support resize"
)


class DefaultStorageClass(Plugin):
    """A claim that names no class gets the default one; of several the newest."""

    name = "DefaultStorageClass"
    mutates = keys("", (_CLAIMS,), (CREATE,))

    def mutate(self, attributes: Attributes) -> None:
        claim = attributes.object
        if claim is None or _CLASS_ANNOTATION in annotations_of(claim):
            return
        spec = claim.setdefault("spec", {})
        if spec.get("storageClassName") is not None:
            return
        classes = attributes.context.cluster.list("storage.k8s.io", "storageclasses")
        marked = [
            each
            for each in classes
            if any(annotations_of(each).get(mark) == "true" for mark in _DEFAULT_MARKS)
        ]
        if (found := newest(marked)) is not None:
            spec["storageClassName"] = found["metadata"]["name"]


class StorageObjectInUseProtection(Plugin):
    """Claims and volumes get a finalizer; a controller takes it away when nobody uses them any more."""

    name = "StorageObjectInUseProtection"
    mutates = keys("", _FINALIZERS, (CREATE,))

    def mutate(self, attributes: Attributes) -> None:
        if attributes.object is None:
            return
        metadata, finalizer = attributes.object["metadata"], _FINALIZERS[attributes.resource]
        present = metadata.get("finalizers") or []
        if finalizer not in present:
            metadata["finalizers"] = [*present, finalizer]


class PersistentVolumeClaimResize(Plugin):
    """Only a bound claim of a class that allows it may grow."""

    name = "PersistentVolumeClaimResize"
    validates = keys("", (_CLAIMS,), (UPDATE,))

    def validate(self, attributes: Attributes) -> None:
        claim, old = attributes.object, attributes.old_object
        if claim is None or old is None or _size(claim) <= _size(old):
            return
        if (old.get("status") or {}).get("phase") != "Bound":
            raise attributes.forbidden(_NOT_BOUND)
        wanted = _class_of(claim)
        found = None
        if wanted and wanted == _class_of(old):
            found = attributes.context.cluster.get("storage.k8s.io", "storageclasses", "", wanted)
        if found is None or not found.get("allowVolumeExpansion"):
            raise attributes.forbidden(_NOT_EXPANDABLE)


def newest(marked: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The object created last; of the same second the first by name."""
    by_name = sorted(marked, key=lambda each: each["metadata"]["name"])
    return max(by_name, key=lambda each: each["metadata"].get("creationTimestamp") or "", default=None)


def _size(claim: Json) -> int:
    requests = (spec_of(claim).get("resources") or {}).get("requests") or {}
    return nanos_of(requests.get("storage"))


def _class_of(claim: Json) -> str:
    return annotations_of(claim).get(_CLASS_ANNOTATION) or spec_of(claim).get("storageClassName") or ""
