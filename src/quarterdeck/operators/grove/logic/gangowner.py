"""Whose a gang is."""

from __future__ import annotations

from quarterdeck.api import OwnerReference, controller_of
from quarterdeck.errors import QuarterdeckError
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import PodGang


class MappingError(QuarterdeckError, ValueError):
    """A gang cannot be told to a scheduler; the text is for its owner."""


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
