"""When the wait is over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from quarterdeck.api.k8s import Pod
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.logic.podstate import is_ready


def missing_pods(wanted: Mapping[str, int], pods: Iterable[Pod]) -> dict[str, int]:
    """How many ready pods of each PodClique are missing; nothing when the wait is over.

    A pod belongs to the PodClique that its label names, whatever its own name begins with.
    """
    ready = Counter(pod.metadata.labels.get(names.PODCLIQUE, "") for pod in pods if is_ready(pod))
    return {name: count - ready[name] for name, count in wanted.items() if ready[name] < count}


def waits_of(pod: Pod) -> tuple[str, ...] | None:
    """The arguments of a pod's own waiting container; nothing if it has none."""
    for container in pod.spec.init_containers:
        if container.name == names.INIT_CONTAINER:
            return tuple(container.args)
    return None
