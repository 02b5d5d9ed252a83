"""The rules of MNNVL groups: annotations of a set, its scaling groups and its cliques."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from quarterdeck.api.label import check_dns1123_label
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import PodCliqueSet
from quarterdeck.wire.fielderror import FieldError, forbidden, invalid

from .rules import TEMPLATE

_KEY: Final = names.MNNVL_GROUP
_OFF: Final = (
    "MNNVL is not enabled in the operator configuration. Either enable MNNVL globally or remove "
    f"the {_KEY} annotation"
)


class _Place(NamedTuple):
    """Who may have the annotation, and what it says."""

    kind: str
    name: str
    path: str
    value: str | None


def check_mnnvl_groups(pcs: PodCliqueSet, *, is_enabled: bool) -> list[FieldError]:
    """What is wrong with the groups that a new set names."""
    errors: list[FieldError] = []
    for _, _, path, value in _places(pcs):
        if value is None or value == names.NO_MNNVL_GROUP:
            continue  # who opts out may do so anywhere
        if complaint := _complaint(value):
            errors.append(invalid(path, value, complaint))
        if not is_enabled:
            errors.append(invalid(path, value, _OFF))
    return errors


def mnnvl_changes(old: PodCliqueSet, new: PodCliqueSet) -> list[FieldError]:
    """The groups of a set stay; cliques and scaling groups are compared by name."""
    before = {(place.kind, place.name): place.value for place in _places(old)}
    errors: list[FieldError] = []
    for kind, name, path, right in _places(new):
        if (kind, name) not in before:
            continue  # a new name, which is refused elsewhere
        left = before[kind, name]
        if left is None and right is not None:
            errors.append(forbidden(path, f"annotation {_KEY} cannot be added after creation"))
        elif right is None and left is not None:
            errors.append(forbidden(path, f"annotation {_KEY} cannot be removed after creation"))
        elif right is not None and left != right:
            text = f'annotation {_KEY} is immutable and cannot be changed from "{left}" to "{right}"'
            errors.append(invalid(path, right, text))
    return errors


def _complaint(value: str) -> str:
    if not value:
        return "mnnvl-group value must not be empty"
    problems = check_dns1123_label(value, unit="characters")
    if not problems:
        return ""
    return f'mnnvl-group value "{value}" is not a valid DNS-1123 label: {"; ".join(problems)}'


def _places(pcs: PodCliqueSet) -> Iterator[_Place]:
    """The set, its cliques, its scaling groups."""
    template = pcs.spec.template
    yield _Place("set", "", f"metadata.annotations.{_KEY}", pcs.metadata.annotations.get(_KEY))
    for index, clique in enumerate(template.cliques):
        path = f"{TEMPLATE}.cliques[{index}].annotations.{_KEY}"
        yield _Place("clique", clique.name, path, clique.annotations.get(_KEY))
    for index, group in enumerate(template.pod_clique_scaling_groups):
        path = f"{TEMPLATE}.podCliqueScalingGroups[{index}].annotations.{_KEY}"
        yield _Place("group", group.name, path, group.annotations.get(_KEY))
