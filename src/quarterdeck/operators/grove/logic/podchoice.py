"""Which pods come and go: indices of new ones, and which of too many are deleted."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from quarterdeck.api.k8s import Pod
from quarterdeck.errors import QuarterdeckError

from . import naming
from .podstate import is_active, is_ready, template_hash


class PodIndexError(QuarterdeckError, ValueError):
    """The indices of existing pods make no sense."""


def free_indices(clique: str, pods: Iterable[Pod], count: int) -> list[int]:
    """The lowest indices that no active pod has; raises ``PodIndexError`` for a pod that has none."""
    used: set[int] = set()
    for pod in pods:
        if not is_active(pod):
            continue
        index = naming.pod_index(clique, pod.spec.hostname)
        if index is None:
            raise PodIndexError(f"pod {pod.metadata.name} has no index in its hostname {pod.spec.hostname!r}")
        if index in used:
            raise PodIndexError(f"index {index} of pod {pod.metadata.name} is used by another pod")
        used.add(index)
    found: list[int] = []
    candidate = 0
    while len(found) < count:
        if candidate not in used:
            found.append(candidate)
        candidate += 1
    return found


_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def choose_doomed(
    pods: Iterable[Pod], count: int, *, expected_hash: str, doomed: Collection[str]
) -> list[Pod]:
    """The pods to delete: the least useful first. ``doomed`` are UIDs of pods that were deleted already."""
    candidates = [pod for pod in pods if not pod.metadata.is_deleting and pod.metadata.uid not in doomed]
    candidates.sort(key=lambda pod: pod.metadata.name)
    # stable sorts, the least important rule first: newer before older, of a second the higher index
    candidates.sort(key=lambda pod: (_age(pod), len(pod.spec.hostname), pod.spec.hostname), reverse=True)
    candidates.sort(
        key=lambda pod: (
            bool(pod.spec.node_name),
            _PHASES.get(pod.status.phase or "Pending", 1),
            is_ready(pod),
            template_hash(pod) == expected_hash,
        )
    )
    return candidates[:count]


def _age(pod: Pod) -> str:
    created = pod.metadata.creation_timestamp
    return str(created) if created else ""
