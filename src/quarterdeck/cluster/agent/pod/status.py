"""What a kubelet writes into a pod's status, from what is known of its containers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quarterdeck.api import UNSET, Time
from quarterdeck.api.k8s import Pod, PodStatus
from quarterdeck.api.k8s.pod import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    HostIP,
    PodCondition,
    PodIP,
    VolumeMountStatus,
)
from quarterdeck.cluster.agent.pod.backoff import next_attempt, restart_delay, span
from quarterdeck.cluster.agent.pod.plan import (
    Outcome,
    begins_again,
    may_begin_again,
    outcome_of,
    restart_of,
)
from quarterdeck.cluster.agent.record.view import AnyContainer, PodSight, Run, container_id, is_sidecar
from quarterdeck.cluster.node.podstatus import conditions
from quarterdeck.cluster.node.statuspatch import RESIZE_IN_PROGRESS, RESIZE_PENDING

_DISRUPTION: Final = "DisruptionTarget"
_RESIZE: Final = (RESIZE_PENDING, RESIZE_IN_PROGRESS)
MESSAGE_LIMIT = 12 * 1024
"""Bytes of last words that all containers of a pod have together."""


def make_status(
    pod: Pod,
    sight: PodSight,
    *,
    ip: str,
    host: str,
    runtime: str,
    ending: Outcome | None = None,
    resize: Sequence[PodCondition] = (),
) -> PodStatus:
    """The status of a pod. ``ending`` is why the agent itself ends it: a deadline, an eviction; ``resize``
    are the conditions that tell of a resize."""
    writer = _Writer(pod, sight, runtime)
    inits = [writer.container(each, is_init=True) for each in pod.spec.init_containers]
    mains = [writer.container(each) for each in pod.spec.containers]
    others = [writer.container(each) for each in pod.spec.ephemeral_containers]
    outcome = ending or outcome_of(pod, sight)
    everything: tuple[AnyContainer, ...] = (
        *pod.spec.init_containers,
        *pod.spec.containers,
        *pod.spec.ephemeral_containers,
    )
    all_ended = sight.all_ended(everything)
    is_over = all_ended and (outcome is not None or sight.is_stopping)
    if is_over:
        phase = outcome.phase if outcome is not None else _phase_when_stopped(pod, sight)
    else:
        phase = _phase_of(pod, sight)
    now = Time.of_timestamp(sight.now)
    share = MESSAGE_LIMIT // len(everything)
    status = pod.status.evolve(
        observed_generation=pod.metadata.generation or UNSET,
        phase=phase,
        start_time=pod.status.start_time or now,
        host_ip=host,
        host_ips=(HostIP(ip=host),),
        pod_ip=ip,
        pod_ips=(PodIP(ip=ip),) if ip else (),
        init_container_statuses=tuple(_limited(inits, share)),
        container_statuses=tuple(_limited(mains, share)),
        ephemeral_container_statuses=tuple(_limited(others, share)),
        reason=(ending.reason if ending is not None else pod.status.reason),
        message=(ending.message if ending is not None else pod.status.message),
    )
    made = [
        *(each for each in _conditions(pod, sight, phase, inits, mains, now) if each.type not in _RESIZE),
        *(() if is_over else resize),
    ]
    if ending is not None and ending.is_disruption:
        made = [each for each in made if each.type != _DISRUPTION]
        made.append(
            PodCondition(
                type=_DISRUPTION,
                status="True",
                reason="TerminationByKubelet",
                message=ending.message,
                last_transition_time=now,
            )
        )
    return status.evolve(conditions=tuple(made))


def _conditions(
    pod: Pod,
    sight: PodSight,
    phase: str,
    inits: Sequence[ContainerStatus],
    mains: Sequence[ContainerStatus],
    now: Time,
) -> list[PodCondition]:
    """The kubelet's own and those of others, in the order they have."""
    has_network = sight.has_network and phase not in ("Succeeded", "Failed")
    made = conditions(
        pod,
        phase=phase,
        containers=mains,
        inits=inits,
        has_network=has_network,
        now=now,
        restarting=begins_again(pod, sight) if may_begin_again(pod) else None,
    )
    mine = {each.type: each for each in made}
    return [*(mine.pop(each.type, each) for each in pod.status.conditions), *mine.values()]


def _phase_of(pod: Pod, sight: PodSight) -> str:
    views = [sight.of(each) for each in pod.spec.containers]
    runs = [run for view in views for run in (view.run, view.previous) if run]
    return "Running" if any(run.started or run.is_ended for run in runs) else "Pending"


def _phase_when_stopped(pod: Pod, sight: PodSight) -> str:
    """The phase of a pod that was terminated: by the exit codes of its containers."""
    runs = [sight.of(each).run for each in pod.spec.containers]
    return "Succeeded" if runs and all(run and run.has_succeeded for run in runs) else "Failed"


def _limited(statuses: Sequence[ContainerStatus], share: int) -> list[ContainerStatus]:
    """Last words are cut so that all of a pod's fit."""
    return [
        each.evolve(state=_cut(each.state, share), last_state=_cut(each.last_state, share))
        for each in statuses
    ]


def _cut(state: ContainerState, share: int) -> ContainerState:
    ended = state.terminated
    if not ended or len(ended.message) <= share:
        return state
    return ContainerState(terminated=ended.evolve(message=ended.message[:share]))


def backoff_message(pod: Pod, name: str, delay: float) -> str:
    """Why a container is not started yet, in a kubelet's words."""
    where = f"{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"
    return f"back-off {span(delay)} restarting failed container={name} pod={where}"


class _Writer:
    def __init__(self, pod: Pod, sight: PodSight, runtime: str) -> None:
        self._pod = pod
        self._sight = sight
        self._runtime = runtime

    def container(self, container: AnyContainer, *, is_init: bool = False) -> ContainerStatus:
        view = self._sight.of(container)
        run, previous = view.run, view.previous
        state, last = self._states(container, run, previous, is_init=is_init)
        is_running = bool(run and run.is_running)
        if is_init and not is_sidecar(container):
            ready = bool(run and run.has_succeeded)
            started = is_running
        else:
            ready = is_running and view.is_ready and not (self._sight.is_stopping and is_running)
            started = is_running and view.has_started
        resources = view.resources if view.resources is not None else container.resources
        return ContainerStatus(
            name=container.name,
            state=state,
            last_state=last,
            ready=ready,
            restart_count=run.number if run else view.first,
            image=container.image,
            image_id=run.image_id if run else "",
            container_id=self._id(container, run) if run else "",
            started=started,
            allocated_resources=resources.requests,
            resources=resources if resources.requests or resources.limits else UNSET,
            volume_mounts=tuple(
                VolumeMountStatus(
                    name=mount.name,
                    mount_path=mount.mount_path,
                    read_only=mount.read_only,
                    recursive_read_only="Disabled" if mount.read_only is True else UNSET,
                )
                for mount in container.volume_mounts
            ),
        )

    def _id(self, container: AnyContainer, run: Run) -> str:
        return container_id(self._runtime, self._pod, container.name, run.number)

    def _states(
        self, container: AnyContainer, run: Run | None, previous: Run | None, *, is_init: bool
    ) -> tuple[ContainerState, ContainerState]:
        view = self._sight.of(container)
        before = self._terminated(container, previous)
        if run is None:
            return self._waiting(container, is_init=is_init), before
        if run.is_running:
            started = ContainerStateRunning(started_at=Time.of_timestamp(run.started))
            return ContainerState(running=started), before
        if not run.is_ended:
            reason, message = (
                (view.trouble.reason, view.trouble.message) if view.trouble else ("ContainerCreating", "")
            )
            return ContainerState(waiting=ContainerStateWaiting(reason=reason, message=message)), before
        ended = self._terminated(container, run)
        if self._sight.is_stopping or not self._is_due_again(container, run, is_init=is_init):
            return ended, before
        if view.trouble is not None:
            waiting = ContainerStateWaiting(reason=view.trouble.reason, message=view.trouble.message)
            return ContainerState(waiting=waiting), ended
        delay = restart_delay(next_attempt(run.attempt, run.ran))
        if delay <= 0:
            if not run.error:
                return ended, before
            waiting = ContainerStateWaiting(reason="RunContainerError", message=run.error)
            return ContainerState(waiting=waiting), ended
        text = backoff_message(self._pod, container.name, delay)
        return ContainerState(waiting=ContainerStateWaiting(reason="CrashLoopBackOff", message=text)), ended

    def _is_due_again(self, container: AnyContainer, run: Run, *, is_init: bool) -> bool:
        if any(each.name == container.name for each in self._pod.spec.ephemeral_containers):
            return False
        if outcome_of(self._pod, self._sight) is not None:
            return False
        return restart_of(self._pod, container, run, is_init=is_init)

    def _waiting(self, container: AnyContainer, *, is_init: bool) -> ContainerState:
        trouble = self._sight.of(container).trouble
        if trouble is not None:
            return ContainerState(
                waiting=ContainerStateWaiting(reason=trouble.reason, message=trouble.message)
            )
        has_inits = bool(self._pod.spec.init_containers)
        is_first = is_init and self._pod.spec.init_containers[0].name == container.name
        reason = "PodInitializing" if has_inits and not is_first else "ContainerCreating"
        if is_first and self._sight.has_network:
            reason = "PodInitializing"
        return ContainerState(waiting=ContainerStateWaiting(reason=reason))

    def _terminated(self, container: AnyContainer, run: Run | None) -> ContainerState:
        if run is None or not run.is_ended:
            return ContainerState()
        reason = "Completed" if run.code == 0 else "Error"
        message = run.message
        if run.error:
            reason, message = "ContainerCannotRun", run.error
        elif run.is_oom and run.code != 0:
            reason = "OOMKilled"
        return ContainerState(
            terminated=ContainerStateTerminated(
                exit_code=run.code,
                reason=reason,
                message=message,
                started_at=Time.of_timestamp(run.started or run.created),
                finished_at=Time.of_timestamp(run.finished),
                container_id=self._id(container, run),
            )
        )
