"""Taints of nodes as controllers read them, and which tolerations suit them: pure."""

from __future__ import annotations

import msgspec

from quarterdeck.api.k8s import Toleration

__all__ = ["NodeTaint", "tolerates"]


class NodeTaint(msgspec.Struct, gc=False, frozen=True):
    """A taint without the time it was added."""

    key: str = ""
    value: str = ""
    effect: str = ""


def tolerates(toleration: Toleration, taint: NodeTaint) -> bool:
    """Whether a toleration suits a taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value
