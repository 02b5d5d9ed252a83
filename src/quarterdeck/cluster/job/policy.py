"""Pod failure policies and success policies of Jobs: pure matching."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from quarterdeck.api import value_or
from quarterdeck.api.k8s import Job
from quarterdeck.api.k8s.batch import (
    PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern,
    SuccessPolicyRule,
)
from quarterdeck.cluster.job.index import IndexSet
from quarterdeck.cluster.job.podstate import PodState


class FailureMatch(NamedTuple):
    """What the pod failure policy says about a failed pod."""

    action: str = ""
    """Of the rule that matched; empty if none did."""
    message: str = ""
    """Why the whole Job fails; empty if it does not."""

    @property
    def counts(self) -> bool:
        """Whether the failure counts towards the back-off limit."""
        return self.action != "Ignore"


def match_failure_policy(job: Job, pod: PodState) -> FailureMatch:
    """The first rule that fits a failed pod decides."""
    policy = job.spec.pod_failure_policy
    if not policy:
        return FailureMatch()
    where = f"{pod.entry.namespace}/{pod.entry.name}"
    for place, rule in enumerate(policy.rules):
        if rule.on_exit_codes:
            found = _matching_exit(pod.exits, rule.on_exit_codes)
            if found is None:
                continue
            container, code = found
            message = (
                f"Container {container} for pod {where} failed with exit code {code} "
                f"matching {rule.action} rule at index {place}"
            )
        else:
            type = _matching_condition(pod.conditions, rule.on_pod_conditions)
            if not type:
                continue
            message = f"Pod {where} has condition {type} matching {rule.action} rule at index {place}"
        return FailureMatch(rule.action, message if rule.action == "FailJob" else "")
    return FailureMatch()


def _matching_exit(
    exits: Iterable[tuple[str, int]], requirement: PodFailurePolicyOnExitCodesRequirement
) -> tuple[str, int] | None:
    for container, code in exits:
        is_meant = value_or(requirement.container_name, container) == container
        if is_meant and (code in requirement.values) == (requirement.operator == "In"):
            return container, code
    return None


def _matching_condition(
    conditions: Iterable[tuple[str, str]], patterns: Sequence[PodFailurePolicyOnPodConditionsPattern]
) -> str:
    wanted = {(pattern.type, pattern.status) for pattern in patterns}
    return next((type for type, status in conditions if (type, status) in wanted), "")


def match_success_policy(job: Job, succeeded: IndexSet) -> str | None:
    """The message for a Job whose succeeded indexes are enough for a rule; none if they are not."""
    policy = job.spec.success_policy
    if not policy or not succeeded:
        return None
    completions = value_or(job.spec.completions, 0)
    for place, rule in enumerate(policy.rules):
        if _is_met(rule, succeeded, completions):
            return f"Matched rules at index {place}"
    return None


def _is_met(rule: SuccessPolicyRule, succeeded: IndexSet, completions: int) -> bool:
    if rule.succeeded_indexes:
        wanted = IndexSet.parse(rule.succeeded_indexes, completions)
        return bool(wanted) and wanted.common(succeeded) >= value_or(rule.succeeded_count, len(wanted))
    return bool(rule.succeeded_count) and len(succeeded) >= value_or(rule.succeeded_count, 0)
