"""What a Deployment says about itself: pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quarterdeck.api import UNSET, Time, UnsetType, value_or
from quarterdeck.api.k8s import Deployment, ReplicaSet
from quarterdeck.api.k8s.apps import DeploymentCondition, DeploymentStatus
from quarterdeck.cluster.deployment import names
from quarterdeck.cluster.deployment.size import desired_replicas, max_unavailable, replicas_of

_NO_DEADLINE: Final = 2**31 - 1
Conditions = tuple[DeploymentCondition, ...]


def make_condition(type: str, status: str, reason: str, message: str, now: float) -> DeploymentCondition:
    """A condition that began now (seconds since 1970)."""
    time = Time.of_timestamp(now)
    return DeploymentCondition(
        type=type,
        status=status,
        last_update_time=time,
        last_transition_time=time,
        reason=reason,
        message=message,
    )


def find_condition(conditions: Sequence[DeploymentCondition], type: str) -> DeploymentCondition | None:
    """The condition of a type."""
    return next((each for each in conditions if each.type == type), None)


def with_condition(conditions: Sequence[DeploymentCondition], wanted: DeploymentCondition) -> Conditions:
    """Conditions with one more, which goes last; one with the same status and reason stays as it is."""
    known = find_condition(conditions, wanted.type)
    if known is not None and known.status == wanted.status:
        if known.reason == wanted.reason:
            return tuple(conditions)
        wanted = wanted.evolve(last_transition_time=known.last_transition_time)
    return (*_without(conditions, wanted.type), wanted)


def _without(conditions: Sequence[DeploymentCondition], type: str) -> Conditions:
    return tuple(each for each in conditions if each.type != type)


def has_deadline(deployment: Deployment) -> bool:
    """Whether lack of progress is reported."""
    deadline = deployment.spec.progress_deadline_seconds
    return not isinstance(deadline, UnsetType) and deadline != _NO_DEADLINE


def scale_status(
    deployment: Deployment, sets: Sequence[ReplicaSet], newest: ReplicaSet | None, now: float
) -> DeploymentStatus:
    """The pods in numbers, and whether there are enough; ``sets`` are all ReplicaSets, the newest too."""
    available = sum(value_or(each.status.available_replicas, 0) for each in sets)
    wanted = sum(replicas_of(each) for each in sets)
    status = deployment.status.evolve(
        observed_generation=deployment.metadata.generation or UNSET,
        replicas=sum(value_or(each.status.replicas, 0) for each in sets) or UNSET,
        updated_replicas=(value_or(newest.status.replicas, 0) if newest is not None else 0) or UNSET,
        ready_replicas=sum(value_or(each.status.ready_replicas, 0) for each in sets) or UNSET,
        available_replicas=available or UNSET,
        unavailable_replicas=max(0, wanted - available) or UNSET,
        terminating_replicas=_terminating(sets),
    )
    if available >= desired_replicas(deployment) - max_unavailable(deployment):
        text = "Deployment has minimum availability."
        found = make_condition(names.AVAILABLE, "True", names.ENOUGH, text, now)
    else:
        text = "Deployment does not have minimum availability."
        found = make_condition(names.AVAILABLE, "False", names.TOO_FEW, text, now)
    return status.evolve(conditions=with_condition(status.conditions, found))


def _terminating(sets: Sequence[ReplicaSet]) -> int | UnsetType:
    """Pods that are on their way out; unknown while a ReplicaSet that was looked after does not say."""
    total = 0
    for each in sets:
        number = each.status.terminating_replicas
        if isinstance(number, UnsetType):
            if value_or(each.status.observed_generation, 0):
                return UNSET
        else:
            total += number
    return total


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Whether all pods are of the newest template and available, and no others are left."""
    desired = desired_replicas(deployment)
    return (
        value_or(status.updated_replicas, 0) == desired
        and value_or(status.replicas, 0) == desired
        and value_or(status.available_replicas, 0) == desired
        and value_or(status.observed_generation, 0) >= (deployment.metadata.generation or 0)
    )


def rollout_status(
    deployment: Deployment, sets: Sequence[ReplicaSet], newest: ReplicaSet | None, now: float
) -> DeploymentStatus:
    """The same, and how the rollout goes on; failures of ReplicaSets are passed on."""
    status = scale_status(deployment, sets, newest, now)
    conditions = tuple(status.conditions)
    if not has_deadline(deployment):
        conditions = _without(conditions, names.PROGRESSING)
    known = find_condition(deployment.status.conditions, names.PROGRESSING)
    is_over = (
        value_or(status.replicas, 0) == value_or(status.updated_replicas, 0)
        and known is not None
        and known.reason == names.SET_AVAILABLE
    )
    if has_deadline(deployment) and not is_over:
        conditions = _with_progress(deployment, status, newest, known, conditions, now)
    failure = _failure(sets, newest)
    if failure is not None:
        conditions = with_condition(conditions, failure)
    else:
        conditions = _without(conditions, names.REPLICA_FAILURE)
    return status.evolve(conditions=conditions)


def _with_progress(
    deployment: Deployment,
    status: DeploymentStatus,
    newest: ReplicaSet | None,
    known: DeploymentCondition | None,
    conditions: Conditions,
    now: float,
) -> Conditions:
    kind, subject = (
        ("ReplicaSet", newest.metadata.name)
        if newest is not None
        else ("Deployment", deployment.metadata.name)
    )
    who = f'{kind} "{subject}"'
    if is_complete(deployment, status):
        text = f"{who} has successfully progressed."
        done = make_condition(names.PROGRESSING, "True", names.SET_AVAILABLE, text, now)
        return with_condition(conditions, done)
    if _has_progressed(deployment.status, status):
        moved = make_condition(names.PROGRESSING, "True", names.SET_UPDATED, f"{who} is progressing.", now)
        # The time of the last progress counts, so that the condition is written anew with the same reason.
        if known is not None and known.status == "True":
            moved = moved.evolve(last_transition_time=known.last_transition_time)
        return (*_without(conditions, names.PROGRESSING), moved)
    if _has_timed_out(deployment, conditions, now):
        text = f"{who} has timed out progressing."
        late = make_condition(names.PROGRESSING, "False", names.TIMED_OUT, text, now)
        return with_condition(conditions, late)
    return conditions


def _has_progressed(before: DeploymentStatus, after: DeploymentStatus) -> bool:
    def counts(status: DeploymentStatus) -> tuple[int, int, int, int]:
        updated = value_or(status.updated_replicas, 0)
        old = value_or(status.replicas, 0) - updated
        return updated, -old, value_or(status.ready_replicas, 0), value_or(status.available_replicas, 0)

    return any(now > then for now, then in zip(counts(after), counts(before), strict=True))


def _has_timed_out(deployment: Deployment, conditions: Conditions, now: float) -> bool:
    known = find_condition(conditions, names.PROGRESSING)
    if known is None or known.reason == names.SET_AVAILABLE:
        return False
    if known.reason == names.TIMED_OUT:
        return True
    return _deadline(deployment, known) < now


def _deadline(deployment: Deployment, progressing: DeploymentCondition) -> float:
    since = progressing.last_update_time
    start = since.timestamp() if isinstance(since, Time) else 0.0
    return start + value_or(deployment.spec.progress_deadline_seconds, 0)


def _failure(sets: Sequence[ReplicaSet], newest: ReplicaSet | None) -> DeploymentCondition | None:
    """The failure of a ReplicaSet, of the newest if it has one."""
    for each in ([newest] if newest is not None else []) + list(sets):
        for condition in each.status.conditions:
            if condition.type == names.REPLICA_FAILURE:
                return DeploymentCondition(
                    type=condition.type,
                    status=condition.status,
                    last_update_time=condition.last_transition_time,
                    last_transition_time=condition.last_transition_time,
                    reason=condition.reason,
                    message=condition.message,
                )
    return None


def next_progress_check(deployment: Deployment, status: DeploymentStatus, now: float) -> float | None:
    """Seconds until the rollout may have timed out; ``None`` if that cannot happen."""
    known = find_condition(deployment.status.conditions, names.PROGRESSING)
    if not has_deadline(deployment) or known is None:
        return None
    if is_complete(deployment, status) or known.reason in (names.TIMED_OUT, names.SET_AVAILABLE):
        return None
    # Times in objects have whole seconds: a second more, or the check would come too early.
    return max(0.0, _deadline(deployment, known) - now) + 1.0
