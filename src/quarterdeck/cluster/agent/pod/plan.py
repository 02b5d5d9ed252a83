"""What is to be done for a pod now, and when to look again. Pure.

The rules are a kubelet's: init containers one after the other, sidecars among them started and left running,
the others together; restarts by the policy of the pod, of the container and of its rules.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import msgspec

from quarterdeck.api.k8s import Container, Pod
from quarterdeck.cluster.agent.pod.backoff import next_attempt, restart_delay
from quarterdeck.cluster.agent.record.view import AnyContainer, PodSight, Run, is_sidecar

_RESTART_ALL: Final = "RestartAllContainers"


class Restart(NamedTuple):
    """A run to begin."""

    container: AnyContainer
    number: int
    attempt: int


class Outcome(msgspec.Struct, frozen=True):
    """The end of a pod's work, while sidecars may still run."""

    phase: str
    reason: str = ""
    message: str = ""
    is_disruption: bool = False
    """Whether it is no fault of the pod's: the node is short of something."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to do."""

    start: tuple[Restart, ...] = ()
    after: float = math.inf
    """Seconds until something is due by itself."""
    begins_again: bool = False
    """Whether all containers are to be ended at once, and begun again."""
    outcome: Outcome | None = None
    """Set when the pod's work has ended: what still runs is to be stopped."""


def _action(container: AnyContainer, run: Run) -> str:
    """What the first rule that fits the end of a run wants; empty if none fits."""
    if isinstance(container, Container):
        for rule in container.restart_policy_rules:
            codes = rule.exit_codes
            if codes and (run.code in codes.values) == (codes.operator == "In"):
                return rule.action
    return ""


def may_begin_again(pod: Pod) -> bool:
    """Whether a container of the pod has a rule that restarts all of them."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return any(rule.action == _RESTART_ALL for each in containers for rule in each.restart_policy_rules)


def begins_again(pod: Pod, sight: PodSight) -> bool:
    """Whether a container has ended in a way that restarts all of them."""
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        run = sight.of(container).run
        if run is not None and run.is_ended and _action(container, run) == _RESTART_ALL:
            return True
    return False


def restart_of(pod: Pod, container: AnyContainer, run: Run, *, is_init: bool = False) -> bool:
    """Whether a container whose run has ended is to be run again."""
    if _action(container, run):
        return True
    policy = container.restart_policy or pod.spec.restart_policy or "Always"
    if is_init and policy == "Always" and not is_sidecar(container):
        policy = "OnFailure"
    if policy == "Always":
        return True
    return policy == "OnFailure" and not run.has_succeeded


def outcome_of(pod: Pod, sight: PodSight) -> Outcome | None:
    """How the pod's work has ended; None while it goes on."""
    for container in pod.spec.init_containers:
        run = sight.of(container).run
        if run is None or not run.is_ended or run.has_succeeded or is_sidecar(container):
            continue
        if not restart_of(pod, container, run, is_init=True):
            return Outcome("Failed")
    runs = [(each, sight.of(each).run) for each in pod.spec.containers]
    if not all(run and run.is_ended and not restart_of(pod, each, run) for each, run in runs):
        return None
    return Outcome("Succeeded" if all(run and run.has_succeeded for _, run in runs) else "Failed")


def make_plan(pod: Pod, sight: PodSight) -> Plan:
    """What to do for a pod that is to run."""
    if begins_again(pod, sight):
        return Plan(begins_again=True)
    outcome = outcome_of(pod, sight)
    if outcome is not None:
        return Plan(outcome=outcome)
    starts: list[Restart] = []
    waits: list[float] = []

    def begin(restart: Restart, left: float = 0.0) -> None:
        """Begin a run when so many seconds are over, and the time for another try has come."""
        view = sight.of(restart.container)
        if view.trouble is not None and not (view.run is not None and view.run.is_ended):
            left = max(left, view.trouble.retry_at - sight.steady)
        if left <= 0:
            starts.append(restart)
        else:
            waits.append(left)

    def consider(container: AnyContainer, *, is_init: bool = False) -> None:
        """Begin a run if one is due."""
        view = sight.of(container)
        run = view.run
        if run is None and view.previous is not None:  # all containers begin again
            attempt = next_attempt(view.previous.attempt, view.previous.ran)
            begin(Restart(container, view.first, attempt), restart_delay(attempt) - view.rested)
        elif run is None:
            begin(Restart(container, view.first, 0))
        elif not run.started and not run.is_ended:
            # Whoever began it was interrupted; beginning it again does no harm.
            begin(Restart(container, run.number, run.attempt))
        elif run.is_ended and restart_of(pod, container, run, is_init=is_init):
            attempt = next_attempt(run.attempt, run.ran)
            begin(Restart(container, run.number + 1, attempt), restart_delay(attempt) - view.rested)

    are_initialized = True
    for container in pod.spec.init_containers:
        view = sight.of(container)
        if is_sidecar(container):
            consider(container)
            if not (view.run and view.run.is_running and view.has_started):
                are_initialized = False
                break
        elif not (view.run and view.run.has_succeeded):
            # Once the others run, an init container that is not known any more was done before.
            if any(sight.of(each).run for each in pod.spec.containers):
                continue
            consider(container, is_init=True)
            are_initialized = False
            break
    have_begun = any(sight.of(each).run for each in pod.spec.containers)
    if are_initialized or have_begun:
        for container in pod.spec.containers:
            consider(container)
        for ephemeral in pod.spec.ephemeral_containers:
            run = sight.of(ephemeral).run
            if run is None or not (run.started or run.is_ended):
                starts.append(Restart(ephemeral, 0, 0))
    return Plan(start=tuple(starts), after=min(waits, default=math.inf))
