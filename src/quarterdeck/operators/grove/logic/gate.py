"""When a pod may be scheduled.

The gate that every pod is created with is removed when its gang is initialized and lists it, and, for a pod
of a scaled gang, when the base gang has its minimum: scaled gangs never compete with their base.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quarterdeck.api.condition import is_condition_true
from quarterdeck.api.k8s import Pod, PodSchedulingGate
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import PodClique, PodGang

from .podstate import has_our_gate


def is_initialized(gang: PodGang) -> bool:
    """All pods of the gang were there once."""
    return is_condition_true(gang.status.conditions, names.INITIALIZED)


def openable_pods(pods: Iterable[Pod], pclq: PodClique, gang: PodGang | None) -> list[Pod]:
    """The gated pods that their own gang lets through."""
    if gang is None or not is_initialized(gang):
        return []
    listed = {
        reference.name
        for group in gang.spec.podgroups
        if group.name == pclq.metadata.name
        for reference in group.pod_references
    }
    return [
        pod
        for pod in pods
        if has_our_gate(pod) and not pod.metadata.is_deleting and pod.metadata.name in listed
    ]


def is_gang_scheduled(gang: PodGang, cliques: Mapping[str, PodClique]) -> bool:
    """Every group of the gang has its minimum on nodes; raises ``LookupError`` if one has no PodClique."""
    for group in gang.spec.podgroups:
        pclq = cliques.get(group.name)
        if pclq is None:
            raise LookupError(f"PodClique {group.name} of base PodGang {gang.metadata.name} does not exist")
        if pclq.status.scheduled_replicas < group.min_replicas:
            return False
    return True


def gates_left(pod: Pod) -> tuple[PodSchedulingGate, ...]:
    """The gates of others, which are not ours to remove."""
    return tuple(gate for gate in pod.spec.scheduling_gates if gate.name != names.GATE)
