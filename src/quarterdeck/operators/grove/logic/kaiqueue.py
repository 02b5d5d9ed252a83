"""Which KAI queue a set, and so each of its gangs, is charged to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quarterdeck.api import OwnerReference, controller_of
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import PodCliqueSet, PodGang

__all__ = ["FALLBACK_QUEUE", "MappingError", "owning_set", "queue_of"]

FALLBACK_QUEUE: Final = "default"


class MappingError(ValueError):
    """A gang cannot be told to KAI; the text is for its owner."""


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


def owning_set(pod_gang: PodGang) -> OwnerReference:
    """The set that a gang was made for; raises ``MappingError``."""
    metadata = pod_gang.metadata
    title = f"podgang {metadata.namespace}/{metadata.name}"
    owner = controller_of(metadata.owner_references)
    if owner is None:
        raise MappingError(f"{title} has no controlling PodCliqueSet")
    if owner.kind != "PodCliqueSet" or owner.api_version.partition("/")[0] != names.GROUP:
        raise MappingError(
            f'{title} is controlled by {owner.api_version} "{owner.kind}", expected PodCliqueSet'
        )
    return owner
