"""The rules of changes: composition and order of a set stay, and what a gang was promised."""

from __future__ import annotations

from typing import Any

from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import PodCliqueSet, PodCliqueSetTemplate
from quarterdeck.wire.fielderror import FieldError, forbidden, invalid

from .rules import TEMPLATE

_IMMUTABLE = "field is immutable"
_CLIQUES = f"{TEMPLATE}.cliques"
_GROUPS = f"{TEMPLATE}.podCliqueScalingGroups"


def validate_update(old: PodCliqueSet, new: PodCliqueSet) -> list[FieldError]:
    """What may not be changed."""
    before, after = old.spec.template, new.spec.template
    errors = _check_cliques(before, after)
    for path, left, right in (
        ("cliqueStartupType", before.clique_startup_type, after.clique_startup_type),
        ("resourceClaimTemplates", before.resource_claim_templates, after.resource_claim_templates),
        ("resourceSharing", before.resource_sharing, after.resource_sharing),
    ):
        errors += _unchanged(f"{TEMPLATE}.{path}", left, right)
    return errors + _check_groups(before, after)


def _unchanged(path: str, before: Any, after: Any) -> list[FieldError]:
    return [] if before == after else [invalid(path, after, _IMMUTABLE)]


def _check_cliques(before: PodCliqueSetTemplate, after: PodCliqueSetTemplate) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(before.cliques) != len(after.cliques):
        errors.append(forbidden(_CLIQUES, "not allowed to change clique composition"))
    known = {clique.name: (place, clique) for place, clique in enumerate(before.cliques)}
    is_ordered = after.clique_startup_type in (names.IN_ORDER, names.EXPLICIT)
    for place, clique in enumerate(after.cliques):
        if clique.name not in known:
            text = f"not allowed to change clique composition, new clique name '{clique.name}' is not allowed"
            errors.append(forbidden(f"{_CLIQUES}.name", text))
            continue
        was, old = known[clique.name]
        if is_ordered and was != place:
            text = (  # upstream's words: name and place are both those of the new order
                "clique order cannot be changed when StartupType is InOrder or Explicit. "
                f"Expected '{clique.name}' at position {place}, got '{clique.name}'"
            )
            errors.append(invalid(_CLIQUES, clique.name, text))
        for field, left, right in (
            ("roleName", old.spec.role_name, clique.spec.role_name),
            ("minAvailable", old.spec.min_available, clique.spec.min_available),
            ("startsAfter", old.spec.starts_after, clique.spec.starts_after),
            ("podSpec.schedulerName", old.spec.pod_spec.scheduler_name, clique.spec.pod_spec.scheduler_name),
        ):
            errors += _unchanged(f"{_CLIQUES}.spec.{field}", left, right)
        errors += _unchanged(
            f"{_CLIQUES}[{place}].resourceSharing", old.resource_sharing, clique.resource_sharing
        )
    return errors


def _check_groups(before: PodCliqueSetTemplate, after: PodCliqueSetTemplate) -> list[FieldError]:
    if len(before.pod_clique_scaling_groups) != len(after.pod_clique_scaling_groups):
        return [forbidden(_GROUPS, "not allowed to add or remove PodCliqueScalingGroupConfigs")]
    errors: list[FieldError] = []
    known = {group.name: group for group in before.pod_clique_scaling_groups}
    for group in after.pod_clique_scaling_groups:
        old = known.get(group.name)
        if old is None:
            text = (
                "not allowed to change scaling group composition, new scaling group name "
                f"'{group.name}' is not allowed"
            )
            errors.append(forbidden(f"{_GROUPS}.name", text))
            continue
        for field, left, right in (
            ("cliqueNames", old.clique_names, group.clique_names),
            ("minAvailable", old.min_available, group.min_available),
            ("resourceSharing", old.resource_sharing, group.resource_sharing),
        ):
            errors += _unchanged(f"{_GROUPS}.{field}", left, right)
    return errors
