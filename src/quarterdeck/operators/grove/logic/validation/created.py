"""The rules that hold for every write of a PodCliqueSet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

from quarterdeck.api import Duration, UnsetType
from quarterdeck.api.label import check_dns1123_subdomain
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import PodCliqueSet, PodCliqueSetTemplate
from quarterdeck.wire.fielderror import FieldError, duplicate, invalid, required

from .clique import check_clique
from .dependency import cycles
from .group import check_groups
from .mnnvl import check_mnnvl_groups, mnnvl_changes
from .rules import TEMPLATE, Rules
from .sharing import check_claim_templates, check_set_sharing

_SCHEDULER: Final = f"{TEMPLATE}.cliques.spec.podSpec.schedulerName"


def validate(
    pcs: PodCliqueSet, rules: Rules, *, old: PodCliqueSet | None = None, spread: Collection[int] = ()
) -> list[FieldError]:
    """What is wrong with a set; ``old`` is what is being changed, if anything is.

    ``spread``: places of cliques whose pods say how they are spread, be it by an empty list.
    """
    template = pcs.spec.template
    errors = _check_metadata(pcs)
    errors += _check_replicas(pcs)
    errors += _check_startup_type(template)
    errors += check_claim_templates(template)
    errors += check_set_sharing(template)
    errors += _check_cliques(pcs, spread, is_new=old is None)
    errors += _check_schedulers(template, rules, old)
    errors += _check_dependencies(template)
    errors += check_groups(pcs)
    errors += _check_delay(template.termination_delay)
    if old is None:
        errors += check_mnnvl_groups(pcs, is_enabled=rules.has_mnnvl)
    else:
        errors += mnnvl_changes(old, pcs)
    return errors


def _check_replicas(pcs: PodCliqueSet) -> list[FieldError]:
    if pcs.spec.replicas >= 0:
        return []
    return [invalid("spec.replicas", pcs.spec.replicas, "must be greater than or equal to 0")]


def _check_metadata(pcs: PodCliqueSet) -> list[FieldError]:
    name = pcs.metadata.name
    if not name:
        return [required("metadata.name", "name or generateName is required")]
    return [invalid("metadata.name", name, text) for text in check_dns1123_subdomain(name)]


def _check_startup_type(template: PodCliqueSetTemplate) -> list[FieldError]:
    path, value = f"{TEMPLATE}.cliqueStartupType", template.clique_startup_type
    if not value:
        return [required(path, "field is required")]
    if value in names.STARTUP_TYPES:
        return []
    choices = ", ".join(names.STARTUP_TYPES)
    return [invalid(path, value, f"can only be one of {choices}")]


def _check_cliques(pcs: PodCliqueSet, spread: Collection[int], *, is_new: bool) -> list[FieldError]:
    template = pcs.spec.template
    if not template.cliques:
        return [required(f"{TEMPLATE}.cliques", "at least one PodClique must be defined")]
    grouped = {name for group in template.pod_clique_scaling_groups for name in group.clique_names}
    errors: list[FieldError] = []
    for index, clique in enumerate(template.cliques):
        errors += check_clique(
            clique,
            f"{TEMPLATE}.cliques[{index}]",
            pcs=pcs,
            is_standalone=clique.name not in grouped,
            is_new=is_new,
            is_spread=index in spread,
        )
    same_names = duplicates(clique.name for clique in template.cliques)
    if same_names:
        errors.append(duplicate(f"{TEMPLATE}.cliques.name", same_names))
    same_roles = duplicates(clique.spec.role_name for clique in template.cliques)
    if same_roles:
        errors.append(duplicate(f"{TEMPLATE}.cliques.roleName", same_roles))
    return errors


def duplicates(values: Iterable[str]) -> list[str]:
    """What is there more than once, in order."""
    return [value for value, count in Counter(values).items() if count > 1]


def _check_schedulers(
    template: PodCliqueSetTemplate, rules: Rules, old: PodCliqueSet | None
) -> list[FieldError]:
    found = _scheduler_names(template, rules)
    if not found:
        return []
    errors: list[FieldError] = []
    if len(found) > 1:
        text = "the schedulerName for all pods have to be the same"
        errors.append(invalid(_SCHEDULER, ", ".join(found), text))
    if old is not None and found == _scheduler_names(old.spec.template, rules):
        return errors  # the scheduler of a set stays, also when it is no longer the configured one
    if found[0] not in rules.enabled_schedulers:  # upstream asks about the first alone
        text = (
            "schedulerName must be an enabled scheduler backend; "
            "this scheduler is not enabled in OperatorConfiguration; "
            "add it to scheduler.profiles (operators.grove in the file of --config)"
        )
        errors.append(invalid(_SCHEDULER, found[0], text))
    return errors


def _scheduler_names(template: PodCliqueSetTemplate, rules: Rules) -> list[str]:
    given = (clique.spec.pod_spec.scheduler_name for clique in template.cliques)
    return list(dict.fromkeys(name or rules.default_scheduler for name in given))


def _check_dependencies(template: PodCliqueSetTemplate) -> list[FieldError]:
    if template.clique_startup_type != names.EXPLICIT:
        return []
    known = {clique.name for clique in template.cliques}
    unknown = [
        parent for clique in template.cliques for parent in clique.spec.starts_after if parent not in known
    ]
    errors: list[FieldError] = []
    if unknown:
        text = "unknown clique names found, all clique dependencies must be defined as cliques"
        errors.append(invalid(f"{TEMPLATE}.cliques.startsAfter", ",".join(unknown), text))
    found = cycles({clique.name: clique.spec.starts_after for clique in template.cliques})
    if found:
        text = "clique must not have circular dependencies"
        errors.append(invalid(f"{TEMPLATE}.cliques", found, text))
    return errors


def _check_delay(delay: Duration | UnsetType) -> list[FieldError]:
    path = f"{TEMPLATE}.terminationDelay"
    if isinstance(delay, UnsetType):
        return [required(path, "terminationDelay is required")]
    try:
        is_positive = delay.nanoseconds > 0
    except ValueError as error:
        return [invalid(path, str(delay), str(error))]
    return [] if is_positive else [invalid(path, str(delay), "terminationDelay must be greater than 0")]
