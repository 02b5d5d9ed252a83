"""Which Volcano queue a set, and so each of its gangs, is charged to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quarterdeck.api.label import check_dns1123_subdomain
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import PodCliqueSet

from .gangowner import MappingError

DEFAULT_QUEUE: Final = "default"
_KEY: Final = names.VOLCANO_QUEUE


def volcano_queue(pcs: PodCliqueSet) -> str:
    """The queue of a set: its own word, or the one that all its cliques say. Raises ``MappingError``."""
    own = _queue(pcs.metadata.annotations)
    if own and (problems := check_dns1123_subdomain(own)):
        raise MappingError(f"metadata.annotations[{_KEY}]: {'; '.join(problems)}")
    complaints: list[str] = []
    found = ""
    for index, clique in enumerate(pcs.spec.template.cliques):
        path = f"spec.template.cliques[{index}].annotations[{_KEY}]"
        queue = _queue(clique.annotations)
        if queue and (problems := check_dns1123_subdomain(queue)):
            complaints.append(f"{path}: {'; '.join(problems)}")
        if own and queue and own != queue:
            text = f'PodCliqueSet has "{own}", PodClique has "{queue}"'
            complaints.append(f"{path}: conflicting volcano queue annotations: {text}")
            continue
        queue = queue or own or DEFAULT_QUEUE
        if found and found != queue:
            text = "all PodCliques in a PodCliqueSet using volcano scheduler must resolve to the same queue"
            complaints.append(f"{path}: {text}")
        found = found or queue
    if complaints:
        raise MappingError(complaints[0] if len(complaints) == 1 else f"[{', '.join(complaints)}]")
    return found or own or DEFAULT_QUEUE


def _queue(annotations: Mapping[str, str]) -> str:
    return annotations.get(_KEY, "").strip()
