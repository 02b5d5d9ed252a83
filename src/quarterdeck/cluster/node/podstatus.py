"""What a kubelet writes about a pod: container statuses and conditions. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from quarterdeck.api import UNSET, Time, value_or
from quarterdeck.api.k8s import Container, Pod
from quarterdeck.api.k8s.pod import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    EphemeralContainer,
    PodCondition,
)

STOPPED_BY_SIGNAL: Final = 143
"""128 + SIGTERM."""


def is_sidecar(container: Container) -> bool:
    """Whether an init container goes on running beside the others."""
    return container.restart_policy == "Always"


def waiting(pod: Pod, container: Container | EphemeralContainer, reason: str) -> ContainerStatus:
    """A container that has not started."""
    return _status(pod, container, 0).evolve(
        state=ContainerState(waiting=ContainerStateWaiting(reason=reason)), ready=False, started=False
    )


def running(
    pod: Pod,
    container: Container | EphemeralContainer,
    now: Time,
    *,
    ready: bool,
    before: ContainerStatus | None = None,
) -> ContainerStatus:
    """A container that starts now; ``before`` is its status if it ran already."""
    restarts = value_or(before.restart_count, 0) + 1 if before is not None else 0
    return _status(pod, container, restarts).evolve(
        state=ContainerState(running=ContainerStateRunning(started_at=now)),
        last_state=_last_state(before) if before is not None else ContainerState(),
        ready=ready,
        started=True,
    )


def completed(
    pod: Pod,
    container: Container,
    *,
    code: int,
    started: Time,
    now: Time,
    before: ContainerStatus | None = None,
) -> ContainerStatus:
    """A container that has ended; an init container that succeeded counts as ready."""
    restarts = value_or(before.restart_count, 0) if before is not None else 0
    made = _status(pod, container, restarts)
    is_init = any(each.name == container.name for each in pod.spec.init_containers)
    return made.evolve(
        state=ContainerState(terminated=_ended(made.container_id, code, started, now)),
        last_state=before.last_state if before is not None else ContainerState(),
        ready=is_init and code == 0,
        started=False,
    )


def crashed(before: ContainerStatus, *, code: int, now: Time, delay: float, where: str) -> ContainerStatus:
    """A container that waits to be started again after ``delay`` seconds."""
    ended = _ended(before.container_id, code, _started(before, now), now)
    text = f"back-off {_span(delay)} restarting failed container={before.name} pod={where}"
    return before.evolve(
        state=ContainerState(waiting=ContainerStateWaiting(reason="CrashLoopBackOff", message=text)),
        last_state=ContainerState(terminated=ended),
        ready=False,
        started=False,
    )


def stopped(before: ContainerStatus, now: Time) -> ContainerStatus:
    """A container that was told to end; one that has ended stays as it is."""
    if before.state.terminated:
        return before
    ended = _ended(before.container_id, STOPPED_BY_SIGNAL, _started(before, now), now)
    return before.evolve(state=ContainerState(terminated=ended), ready=False, started=False)


def _started(status: ContainerStatus, otherwise: Time) -> Time:
    started = status.state.running.started_at if status.state.running else UNSET
    return started if isinstance(started, Time) else otherwise


def _last_state(before: ContainerStatus) -> ContainerState:
    """The end of the run before: the present state, or what was kept while the container waited."""
    terminated = before.state.terminated
    return ContainerState(terminated=terminated) if terminated else before.last_state


def _ended(container_id: str, code: int, started: Time, now: Time) -> ContainerStateTerminated:
    return ContainerStateTerminated(
        exit_code=code,
        reason="Completed" if code == 0 else "Error",
        started_at=started,
        finished_at=now,
        container_id=container_id,
    )


def _status(pod: Pod, container: Container | EphemeralContainer, restarts: int) -> ContainerStatus:
    seed = f"{pod.metadata.uid} {container.name} {restarts}"
    return ContainerStatus(
        name=container.name,
        image=container.image,
        image_id=container.image,
        container_id=f"simulated://{hashlib.sha256(seed.encode()).hexdigest()}",
        restart_count=restarts,
        ready=False,
        started=False,
    )


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


class _Verdict(NamedTuple):
    holds: bool
    reason: str = ""
    message: str = ""


def conditions(
    pod: Pod,
    *,
    phase: str,
    containers: Sequence[ContainerStatus],
    inits: Sequence[ContainerStatus],
    has_network: bool,
    now: Time,
    restarting: bool | None = None,
) -> list[PodCondition]:
    """The conditions of a kubelet for a pod in this state; what stays as it is keeps its time.

    ``restarting`` is whether all containers are about to begin again; None for pods that never do that.
    """
    verdicts = {
        "PodReadyToStartContainers": _Verdict(has_network),
        "Initialized": _initialized(pod, phase, inits, containers),
        "Ready": _ready(pod, phase, containers),
        "ContainersReady": _containers_ready(phase, containers),
        "PodScheduled": _Verdict(True),
    }
    if restarting is not None:
        verdicts["AllContainersRestarting"] = _restarting(phase, restarting)
    known = {each.type: each for each in pod.status.conditions}
    return [_condition(pod, known.get(type), type, verdict, now) for type, verdict in verdicts.items()]


def _condition(pod: Pod, known: PodCondition | None, type: str, verdict: _Verdict, now: Time) -> PodCondition:
    status = "True" if verdict.holds else "False"
    since = known.last_transition_time if known is not None and known.status == status else now
    return PodCondition(
        type=type,
        status=status,
        observed_generation=pod.metadata.generation or UNSET,
        last_probe_time=None,
        last_transition_time=since,
        reason=verdict.reason,
        message=verdict.message,
    )


def _restarting(phase: str, restarting: bool) -> _Verdict:
    if phase in ("Succeeded", "Failed"):
        return _Verdict(False, "PodCompleted" if phase == "Succeeded" else "PodFailed")
    if not restarting:
        return _Verdict(False)
    return _Verdict(True, "RestartAllContainersStarted", "container exited with restart policy rule")


def _initialized(
    pod: Pod, phase: str, inits: Iterable[ContainerStatus], containers: Iterable[ContainerStatus]
) -> _Verdict:
    if phase == "Succeeded":
        return _Verdict(True, "PodCompleted")
    started = {each.name for each in inits if each.ready}
    missing = [each.name for each in pod.spec.init_containers if each.name not in started]
    have_begun = any(
        each.state.running or each.state.terminated or each.last_state.terminated for each in containers
    )
    if not missing or have_begun:
        return _Verdict(True)
    text = f"containers with incomplete status: [{' '.join(missing)}]"
    return _Verdict(False, "ContainersNotInitialized", text)


def _containers_ready(phase: str, containers: Sequence[ContainerStatus]) -> _Verdict:
    if phase == "Succeeded":
        return _Verdict(False, "PodCompleted")
    if phase == "Failed":
        return _Verdict(False, "PodFailed")
    unready = [each.name for each in containers if each.ready is not True]
    if unready:
        text = f"containers with unready status: [{' '.join(unready)}]"
        return _Verdict(False, "ContainersNotReady", text)
    return _Verdict(True)


def _ready(pod: Pod, phase: str, containers: Sequence[ContainerStatus]) -> _Verdict:
    verdict = _containers_ready(phase, containers)
    if not verdict.holds:
        return verdict
    known = {each.type: each.status for each in pod.status.conditions}
    unmet = []
    for gate in pod.spec.readiness_gates:
        status = known.get(gate.condition_type)
        if status is None:
            text = f'corresponding condition of pod readiness gate "{gate.condition_type}" does not exist.'
            unmet.append(text)
        elif status != "True":
            text = f'the status of pod readiness gate "{gate.condition_type}" is not "True", but {status}'
            unmet.append(text)
    return _Verdict(False, "ReadinessGatesNotReady", ", ".join(unmet)) if unmet else _Verdict(True)
