"""What persistent volume claims count for: their number and storage, of each storage class as well."""

from __future__ import annotations

from typing import Final

from quarterdeck.api.quantity import Quantity
from quarterdeck.api.quota.amount import Amounts
from quarterdeck.api.quota.evaluator import ONE, Document, Evaluator, Operation, is_selected

_CLAIMS: Final = "persistentvolumeclaims"
_STORAGE: Final = "requests.storage"
_BY_CLASS: Final = ".storageclass.storage.k8s.io/"
_OLD_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_NANO: Final = 10**9


class VolumeClaimEvaluator(Evaluator):
    """Charges claims."""

    def __init__(self) -> None:
        super().__init__("", _CLAIMS, alias=_CLAIMS)

    def handles(self, operation: Operation, subresource: str, obj: Document, old: Document | None) -> bool:
        if not subresource:
            return True
        return subresource == "status" and old is not None and self.frees(old, obj, 0.0)

    def is_tracked(self, name: str) -> bool:
        if name == _STORAGE or super().is_tracked(name):
            return True
        return name.endswith((_BY_CLASS + _CLAIMS, _BY_CLASS + _STORAGE))

    def is_in_scope(self, selector: Document, obj: Document) -> bool:
        if selector.get("scopeName") != "VolumeAttributesClass":
            return False
        return any(is_selected(selector, name) for name in _attribute_classes(obj) or {""})

    def usage(self, obj: Document, now: float) -> Amounts:
        used: dict[str, Quantity] = dict(super().usage(obj, now))
        storage = _storage(obj)
        if storage is not None:
            used[_STORAGE] = storage
        name = _storage_class(obj)
        if name:
            used[f"{name}{_BY_CLASS}{_CLAIMS}"] = ONE
            if storage is not None:
                used[f"{name}{_BY_CLASS}{_STORAGE}"] = storage
        return used

    def frees(self, old: Document, new: Document, now: float) -> bool:
        return _allocated(old) != _allocated(new) or _attribute_classes(old) != _attribute_classes(new)


def _storage_class(claim: Document) -> str:
    annotations = (claim.get("metadata") or {}).get("annotations") or {}
    found: str = annotations.get(_OLD_CLASS) or (claim.get("spec") or {}).get("storageClassName") or ""
    return found


def _allocated(claim: Document) -> Quantity | None:
    found = ((claim.get("status") or {}).get("allocatedResources") or {}).get("storage")
    return None if found is None else Quantity(found)


def _storage(claim: Document) -> Quantity | None:
    """Whole bytes: what is asked for, or what was allocated if that is more."""
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    if "storage" not in requests:
        return None
    asked, allocated = Quantity(requests["storage"]), _allocated(claim)
    larger = allocated if allocated is not None and allocated > asked else asked
    return larger if larger.nano % _NANO == 0 else Quantity.of_nano(larger.value * _NANO, larger.format)


def _attribute_classes(claim: Document) -> set[str]:
    """The classes of volume attributes a claim has, wants, or is on the way to."""
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    names = (
        spec.get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    )
    return {name for name in names if name}
