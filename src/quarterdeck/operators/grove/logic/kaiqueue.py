"""Which KAI queue a set, and so each of its gangs, is charged to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import PodCliqueSet

from .gangowner import MappingError

FALLBACK_QUEUE: Final = "default"


def queue_of(pcs: PodCliqueSet, *, is_required: bool = True) -> str:
    """The queue of a set: its own word, or the one its cliques agree on. Raises ``MappingError``."""
    title = f"{pcs.metadata.namespace}/{pcs.metadata.name}"
    own = _queue(pcs.metadata.labels, pcs.metadata.annotations)
    of_cliques = {
        clique.name: queue
        for clique in pcs.spec.template.cliques
        if (queue := _queue(clique.labels, clique.annotations))
    }
    if own:
        for clique, queue in of_cliques.items():
            if queue != own:
                raise MappingError(
                    f'KAI queue on PodCliqueSet {title} is "{own}" but PodClique template "{clique}" '
                    f'resolves to "{queue}"'
                )
        return own
    found = sorted(set(of_cliques.values()))
    if len(found) > 1:
        raise MappingError(
            f"conflicting KAI queues on PodCliqueSet {title} PodClique templates: [{' '.join(found)}]"
        )
    if found:
        return found[0]
    if is_required:
        raise MappingError(f"no KAI queue is configured on PodCliqueSet {title} or its PodClique templates")
    return FALLBACK_QUEUE


def _queue(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    return labels.get(names.KAI_QUEUE) or annotations.get(names.KAI_QUEUE, "")
