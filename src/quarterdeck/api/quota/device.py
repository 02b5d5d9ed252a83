"""What resource claims count for: their number and the devices of each class they may get.

Devices that a pod asks for as an extended resource are charged to the pod.
"""

from __future__ import annotations

from typing import Final

from quarterdeck.api.quantity import Quantity
from quarterdeck.api.quota.amount import Amounts
from quarterdeck.api.quota.evaluator import Document, Evaluator, Operation

_DEVICES: Final = ".deviceclass.resource.k8s.io/devices"
_MOST: Final = 32
"""Devices a request for all of them gets at most."""


class DeviceClaimEvaluator(Evaluator):
    """Charges resource claims."""

    def __init__(self) -> None:
        super().__init__("resource.k8s.io", "resourceclaims")

    def handles(self, operation: Operation, subresource: str, obj: Document, old: Document | None) -> bool:
        return not subresource

    def is_tracked(self, name: str) -> bool:
        return name.endswith(_DEVICES) or super().is_tracked(name)

    def usage(self, obj: Document, now: float) -> Amounts:
        used: dict[str, Quantity] = dict(super().usage(obj, now))
        for request in ((obj.get("spec") or {}).get("devices") or {}).get("requests") or ():
            for name, count in _worst_case(request).items():
                used[name] = used[name] + count if name in used else Quantity(count)
        return used


def _worst_case(request: Document) -> dict[str, int]:
    """Devices per class; of alternatives the largest of each class."""
    alternatives = request.get("firstAvailable") or ([request["exactly"]] if request.get("exactly") else [])
    most: dict[str, int] = {}
    for each in alternatives:
        name = f"{each.get('deviceClassName', '')}{_DEVICES}"
        most[name] = max(most.get(name, 0), _count(each))
    return most


def _count(request: Document) -> int:
    mode = request.get("allocationMode")
    if mode == "ExactCount":
        return int(request.get("count") or 0)
    return _MOST if mode == "All" else 0
