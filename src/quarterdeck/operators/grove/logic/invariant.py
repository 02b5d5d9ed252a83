"""What holds between a PodClique and its pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from quarterdeck.api import Key, Resource, controller_of
from quarterdeck.api.invariant import Invariant, Objects
from quarterdeck.api.k8s import Pod
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import PodClique

_ENDED: Final = ("Succeeded", "Failed")


def _extra_pods(objects: Objects) -> Iterator[tuple[Resource, str, str]]:
    uids = {clique.key: clique.metadata.uid for clique in objects.of(PodClique)}
    found: Counter[Key] = Counter()
    for pod in objects.of(Pod):
        clique_key = Key(pod.metadata.namespace, pod.metadata.labels.get(names.PODCLIQUE, ""))
        controller = controller_of(pod.metadata.owner_references)
        is_own = controller is None or controller.uid == uids.get(clique_key)
        if is_own and pod.status.phase not in _ENDED:
            found[clique_key] += 1
    for clique in objects.of(PodClique):
        if found[clique.key] > clique.spec.replicas:
            problem = f"has {found[clique.key]} pods, and wants {clique.spec.replicas}"
            yield clique, problem, "is the operator running? it removes what is too many"


INVARIANTS: Final = (
    Invariant("grove/no-extra-pods", "A PodClique has no pod too many.", (PodClique, Pod), _extra_pods, True),
)
