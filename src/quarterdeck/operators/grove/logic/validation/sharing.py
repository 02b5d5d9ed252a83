"""The rules of claim templates and of what shares them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from quarterdeck.api import UnsetType
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import CliqueSharing, PodCliqueSetTemplate, ScalingGroupConfig
from quarterdeck.wire.fielderror import (
    FieldError,
    duplicate,
    invalid,
    not_found,
    not_supported,
    required,
)

from .rules import TEMPLATE


def check_claim_templates(template: PodCliqueSetTemplate) -> list[FieldError]:
    """What is wrong with the claim templates of a set."""
    path = f"{TEMPLATE}.resourceClaimTemplates"
    errors: list[FieldError] = []
    seen: list[str] = []
    for index, claim in enumerate(template.resource_claim_templates):
        if not claim.name:
            errors.append(required(f"{path}[{index}].name", "template name is required"))
        if not claim.template_spec.spec.devices.requests:
            at = f"{path}[{index}].templateSpec.spec.devices.requests"
            errors.append(required(at, "at least one device request is required"))
        seen.append(claim.name)
    twice = [name for name in dict.fromkeys(seen) if seen.count(name) > 1]
    if twice:
        errors.append(duplicate(f"{path}.name", twice))
    return errors


def check_set_sharing(template: PodCliqueSetTemplate) -> list[FieldError]:
    """What is wrong with what the set itself shares."""
    cliques = {clique.name for clique in template.cliques}
    groups = {group.name for group in template.pod_clique_scaling_groups}
    path = f"{TEMPLATE}.resourceSharing"
    errors = check_sharing(template.resource_sharing, path, template)
    for index, entry in enumerate(template.resource_sharing):
        chosen, at = entry.filter, f"{path}[{index}].filter"
        if isinstance(chosen, UnsetType):
            continue
        if not chosen.child_clique_names and not chosen.child_scaling_group_names:
            text = "filter must specify at least one childCliqueNames or childScalingGroupNames entry"
            errors.append(required(at, text))
        errors += _check_known(chosen.child_clique_names, f"{at}.childCliqueNames", cliques)
        errors += _check_known(chosen.child_scaling_group_names, f"{at}.childScalingGroupNames", groups)
    return errors


def check_group_sharing(
    group: ScalingGroupConfig, path: str, template: PodCliqueSetTemplate
) -> list[FieldError]:
    """What is wrong with what a group shares; ``path`` is that of the list."""
    errors = check_sharing(group.resource_sharing, path, template)
    for place, shared in enumerate(group.resource_sharing):
        if isinstance(shared.filter, UnsetType):
            continue
        at = f"{path}[{place}].filter"
        if not shared.filter.child_clique_names:
            errors.append(required(at, "filter must specify at least one childCliqueNames entry"))
        errors += _check_known(shared.filter.child_clique_names, f"{at}.childCliqueNames", group.clique_names)
    return errors


def check_sharing(
    entries: Sequence[CliqueSharing], path: str, template: PodCliqueSetTemplate
) -> list[FieldError]:
    """What is wrong with a list of claims to share, whoever shares them."""
    internal = {claim.name for claim in template.resource_claim_templates}
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        at = f"{path}[{index}]"
        if not entry.name:
            errors.append(required(f"{at}.name", "reference name is required"))
        elif entry.name in seen:
            errors.append(duplicate(f"{at}.name", entry.name))
        seen.add(entry.name)
        if entry.namespace and entry.name and entry.name in internal:
            text = "namespace must be empty when name matches an internal resourceClaimTemplate"
            errors.append(invalid(f"{at}.namespace", entry.namespace, text))
        if entry.scope not in (names.ALL_REPLICAS, names.PER_REPLICA):
            errors.append(not_supported(f"{at}.scope", entry.scope, (names.ALL_REPLICAS, names.PER_REPLICA)))
    return errors


def _check_known(chosen: Sequence[str], path: str, known: Collection[str]) -> list[FieldError]:
    return [not_found(f"{path}[{index}]", name) for index, name in enumerate(chosen) if name not in known]
