"""Topology constraints do not change; old words may be replaced by new ones."""

from __future__ import annotations

from quarterdeck.operators.grove.types import PodCliqueSetTemplate, TopologyConstraint
from quarterdeck.wire.fielderror import FieldError, forbidden

from .place import Place, places


def topology_changes(before: PodCliqueSetTemplate, after: PodCliqueSetTemplate) -> list[FieldError]:
    """What was changed that may not be; those of cliques come before those of groups."""
    known = {(place.kind, place.name): place.constraint for place in places(before)}
    errors: list[FieldError] = []
    for place in sorted(places(after), key=lambda place: place.kind == "PodCliqueScalingGroup"):
        errors += _check_change(place, known.get((place.kind, place.name)))
    return errors


def _check_change(place: Place, old: TopologyConstraint | None) -> list[FieldError]:
    new = place.constraint
    if old == new or (old is not None and new is not None and _is_allowed(old, new)):
        return []
    old_name, new_name = old.topology_name if old else "", new.topology_name if new else ""
    if place.kind == "PodCliqueSet" and old_name != new_name:
        text = f'topologyName cannot be changed from "{old_name}" to "{new_name}"'
        return [forbidden(f"{place.path}.topologyName", text)]
    return [forbidden(place.path, f"{place.title} {_told(old, new)}")]


def _told(old: TopologyConstraint | None, new: TopologyConstraint | None) -> str:
    if old is None or new is None:
        return f"topology constraint cannot be {'added' if old is None else 'removed'} after creation"
    if old.topology_name != new.topology_name:
        names = f"'{old.topology_name}' to '{new.topology_name}'"
        return f"topology constraint topologyName cannot be changed from {names}"
    if _is_new_word(old, new):
        return (
            "deprecated packDomain migration can only move packDomain to pack.required without changing the "
            f'required or preferred topology domain (old required="{old.pack_domain}" '
            f'preferred="{old.preferred}", new required="{new.required}" preferred="{new.preferred}")'
        )
    return (
        f'topology constraint cannot be changed from required="{old.required}" preferred="{old.preferred}" '
        f'to required="{new.required}" preferred="{new.preferred}"'
    )


def _is_allowed(old: TopologyConstraint, new: TopologyConstraint) -> bool:
    """A name is added that old times did not have, or an old word is replaced by the new one."""
    is_same_place = (old.required, old.preferred) == (new.required, new.preferred)
    return _is_repair(old, new) or (
        is_same_place and _is_new_word(old, new) and old.topology_name == new.topology_name
    )


def _is_new_word(old: TopologyConstraint, new: TopologyConstraint) -> bool:
    return bool(old.pack_domain and not new.pack_domain and new.required)


def _is_repair(old: TopologyConstraint, new: TopologyConstraint) -> bool:
    """A constraint of old times gets the name that it lacked, and nothing else."""
    return bool(not old.topology_name and old.pack_domain and old.pack_domain == new.pack_domain)
