"""What holds between a PodClique and its pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from quarterdeck.api import Key, Resource
from quarterdeck.api.invariant import Invariant, Objects
from quarterdeck.api.k8s import Pod
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import PodClique

__all__ = ["INVARIANTS"]

_ENDED: Final = ("Succeeded", "Failed")


def _extra_pods(objects: Objects) -> Iterator[tuple[Resource, str, str]]:
    found: Counter[Key] = Counter(
        Key(pod.metadata.namespace, pod.metadata.labels[names.PODCLIQUE])
        for pod in objects.of(Pod)
        if names.PODCLIQUE in pod.metadata.labels and pod.status.phase not in _ENDED
    )
    for clique in objects.of(PodClique):
        if found[clique.key] > clique.spec.replicas:
            problem = f"has {found[clique.key]} pods, and wants {clique.spec.replicas}"
            yield clique, problem, "is the operator running? it removes what is too many"


INVARIANTS: Final = (
    Invariant("grove/no-extra-pods", "A PodClique has no pod too many.", (PodClique, Pod), _extra_pods, True),
)
