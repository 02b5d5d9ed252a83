"""The rules of scaling groups."""

from __future__ import annotations

from quarterdeck.api import UnsetType
from quarterdeck.api.label import check_dns1123_subdomain
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import PodCliqueSet, ScalingGroupConfig
from quarterdeck.wire.fielderror import FieldError, duplicate, invalid

from .rules import TEMPLATE
from .sharing import check_group_sharing

_PATH = f"{TEMPLATE}.podCliqueScalingGroups"
_OWN_SCALING = (
    "AutoScalingConfig is not allowed to be defined for PodClique "  # one text, cut for its length
    "that is part of scaling group"
)


def check_groups(pcs: PodCliqueSet) -> list[FieldError]:
    """What is wrong with the groups of a set."""
    template = pcs.spec.template
    groups = template.pod_clique_scaling_groups
    cliques = {clique.name: clique for clique in template.cliques}
    errors: list[FieldError] = []
    for index, group in enumerate(groups):
        path = f"{_PATH}[{index}]"
        if check_dns1123_subdomain(group.name):
            text = "invalid PodCliqueScalingGroupConfig name, must be a valid DNS subdomain"
            errors.append(invalid(f"{path}.name", group.name, text))
        unknown = [name for name in dict.fromkeys(group.clique_names) if name not in cliques]
        if unknown:
            text = "unidentified PodClique names found"
            errors.append(invalid(f"{path}.cliqueNames", ",".join(unknown), text))
        errors += _check_lengths(group, path, pcs.metadata.name)
        errors += _check_numbers(group, path)
        errors += check_group_sharing(group, f"{path}.resourceSharing", template)
    errors += _check_unique(pcs)
    members = {name for group in groups for name in group.clique_names}
    errors += [
        invalid(_PATH, clique.name, _OWN_SCALING)
        for clique in template.cliques
        if clique.name in members and clique.spec.auto_scaling_config
    ]
    return errors


def _check_lengths(group: ScalingGroupConfig, path: str, set_name: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, clique in enumerate(group.clique_names):
        length = len(set_name) + len(group.name) + len(clique)
        if length <= names.MAX_NAMES:
            continue
        text = (
            f"combined resource name length {length} exceeds {names.MAX_NAMES}-character limit required for "
            f"pod naming. Consider shortening: PodCliqueSet '{set_name}', PodCliqueScalingGroup "
            f"'{group.name}', or PodClique '{clique}'"
        )
        errors.append(invalid(f"{path}.cliqueNames[{index}].name", clique, text))
        errors.append(invalid(f"{path}.name", clique, text))  # the clique's name, as upstream has it
        errors.append(invalid("metadata.name", set_name, text))
    return errors


def _check_numbers(group: ScalingGroupConfig, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if group.replicas <= 0:
        errors.append(invalid(f"{path}.replicas", group.replicas, "must be greater than 0"))
    if group.min_available <= 0:
        errors.append(invalid(f"{path}.minAvailable", group.min_available, "must be greater than 0"))
    if group.min_available > group.replicas:
        text = "minAvailable must not be greater than replicas"
        errors.append(invalid(f"{path}.minAvailable", group.min_available, text))
    scaling = group.scale_config
    if (
        not isinstance(scaling, UnsetType)
        and not isinstance(scaling.min_replicas, UnsetType)
        and scaling.min_replicas < group.min_available
    ):
        text = "scaleConfig.minReplicas must be greater than or equal to minAvailable"
        errors.append(invalid(f"{path}.scaleConfig.minReplicas", scaling.min_replicas, text))
    return errors


def _check_unique(pcs: PodCliqueSet) -> list[FieldError]:
    groups = pcs.spec.template.pod_clique_scaling_groups
    errors: list[FieldError] = []
    for field, values in (
        ("name", [group.name for group in groups]),
        ("cliqueNames", [name for group in groups for name in group.clique_names]),
    ):
        twice = [value for value in dict.fromkeys(values) if values.count(value) > 1]
        if twice:
            errors.append(duplicate(f"{_PATH}.{field}", twice))
    return errors
