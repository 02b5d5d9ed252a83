"""Topology constraints do not change; old words may be replaced by new ones."""

from __future__ import annotations

from quarterdeck.operators.grove.types import PodCliqueSetTemplate, TopologyConstraint
from quarterdeck.wire.fielderror import FieldError, forbidden

from .place import Place, places

__all__ = ["topology_changes"]


def topology_changes(before: PodCliqueSetTemplate, after: PodCliqueSetTemplate) -> list[FieldError]:
    """What was changed that may not be."""
    known = {(place.kind, place.name): place.constraint for place in places(before)}
    errors: list[FieldError] = []
    for place in places(after):
        if (place.kind, place.name) in known:
            errors += _check_change(place, known[place.kind, place.name])
    return errors


def _check_change(place: Place, old: TopologyConstraint | None) -> list[FieldError]:
    new = place.constraint
    if old == new:
        return []
    if old is None:
        return [forbidden(place.path, f"{place.title} topology constraint cannot be added after creation")]
    if new is None:
        return [forbidden(place.path, f"{place.title} topology constraint cannot be removed after creation")]
    errors: list[FieldError] = []
    if old.topology_name != new.topology_name and not _is_repair(old, new):
        errors.append(_renamed(place, old.topology_name, new.topology_name))
    if (old.required, old.preferred) != (new.required, new.preferred) or _uses_old_word_anew(old, new):
        text = (
            f"{place.title} topology constraint cannot be changed from "
            f'required="{old.required}" preferred="{old.preferred}" to '
            f'required="{new.required}" preferred="{new.preferred}"'
        )
        errors.append(forbidden(place.path, text))
    return errors


def _is_repair(old: TopologyConstraint, new: TopologyConstraint) -> bool:
    """A constraint of old times gets the name that it lacked, and nothing else."""
    return bool(not old.topology_name and old.pack_domain and old.pack_domain == new.pack_domain)


def _uses_old_word_anew(old: TopologyConstraint, new: TopologyConstraint) -> bool:
    return bool(new.pack_domain and not old.pack_domain)


def _renamed(place: Place, old: str, new: str) -> FieldError:
    if place.kind == "PodCliqueSet":
        text = f'topologyName cannot be changed from "{old}" to "{new}"'
        return forbidden(f"{place.path}.topologyName", text)
    text = f"{place.title} topology constraint topologyName cannot be changed from '{old}' to '{new}'"
    return forbidden(place.path, text)
