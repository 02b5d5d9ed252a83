"""What the metadata of a child must have, whatever others did to it: labels, annotations, its owner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quarterdeck.api import ObjectMeta, OwnerReference, to_dict


def merged_owners(
    present: Sequence[OwnerReference], wanted: Sequence[OwnerReference]
) -> tuple[OwnerReference, ...]:
    """The references there are, and those that are missing."""
    known = {each.uid for each in present}
    return (*present, *(each for each in wanted if each.uid not in known))


def missing_metadata(present: ObjectMeta, wanted: ObjectMeta) -> dict[str, Any]:
    """The merge patch of metadata that puts back what is missing; empty if nothing is. The rest stays."""
    patch: dict[str, Any] = {}
    for field, has, wants in (
        ("labels", present.labels, wanted.labels),
        ("annotations", present.annotations, wanted.annotations),
    ):
        if missing := _missing(has, wants):
            patch[field] = missing
    owners = merged_owners(present.owner_references, wanted.owner_references)
    if len(owners) > len(present.owner_references):
        patch["ownerReferences"] = to_dict(owners)
    return patch


def _missing(present: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in wanted.items() if present.get(key) != value}
