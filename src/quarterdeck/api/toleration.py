"""Whether a pod may be where there are taints."""

from typing import Protocol

from quarterdeck.api.k8s import Toleration


class AnyTaint(Protocol):
    """A taint of a node, however much of it was decoded."""

    @property
    def key(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def effect(self) -> str: ...


def tolerates(toleration: Toleration, taint: AnyTaint) -> bool:
    """Whether a toleration suits a taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value
