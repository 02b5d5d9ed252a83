"""What happens to a pod next, and when: pure.

A pod goes through stages. Which one it is in can be told from its status, so a process that starts anew goes
on where the last one stopped. Stages before a pod runs that take no time are passed in one step; that it runs
is always written before it ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum, auto
from typing import Final, NamedTuple

import msgspec

from quarterdeck.api import UNSET, Time, value_or
from quarterdeck.api.k8s import Container, Pod, PodStatus
from quarterdeck.api.k8s.pod import ContainerStatus, HostIP, PodCondition, PodIP
from quarterdeck.cluster.node.behavior import Behavior, Script
from quarterdeck.cluster.node.podstatus import (
    completed,
    conditions,
    crashed,
    is_sidecar,
    running,
    stopped,
    waiting,
)

_INIT_POLL: Final = 1.0
"""Seconds after which an init container that waits for something is looked at again."""

InitGate = Callable[[Pod, Container], bool]
"""Whether an init container finds what it waits for."""


class Stage(Enum):
    """How far a pod is."""

    NEW = auto()
    CREATING = auto()
    INITIALIZING = auto()
    RUNNING = auto()
    CRASHED = auto()
    """Its containers wait to be restarted."""
    ENDED = auto()


_BEFORE_IT_RUNS: Final = (Stage.NEW, Stage.CREATING, Stage.INITIALIZING)


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a pod runs."""

    host_ip: str
    pod_ip: str


class Step(NamedTuple):
    """What to write, if anything, and when to look again."""

    status: PodStatus | None
    after: float
    """Seconds; infinity if nothing will happen by itself."""


def stage_of(pod: Pod) -> Stage:
    """How far a pod is, by its status."""
    status = pod.status
    if status.phase in ("Succeeded", "Failed"):
        return Stage.ENDED
    if not status.start_time:
        return Stage.NEW
    if status.phase != "Running":
        is_running = any(each.state.running for each in _main_inits(pod))
        return Stage.INITIALIZING if is_running else Stage.CREATING
    is_running = any(each.state.running for each in status.container_statuses)
    return Stage.RUNNING if is_running else Stage.CRASHED


def _main_inits(pod: Pod) -> list[ContainerStatus]:
    sidecars = {each.name for each in pod.spec.init_containers if is_sidecar(each)}
    return [each for each in pod.status.init_container_statuses if each.name not in sidecars]


def begin_of(pod: Pod, now: float) -> float:
    """When the present stage began, as far as the status tells; seconds since 1970."""
    stage, status = stage_of(pod), pod.status
    times: list[object] = []
    if stage is Stage.CREATING:
        times = [status.start_time]
    elif stage is Stage.INITIALIZING:
        times = [each.state.running.started_at for each in _main_inits(pod) if each.state.running]
    elif stage is Stage.RUNNING:
        times = [each.state.running.started_at for each in status.container_statuses if each.state.running]
    elif stage is Stage.CRASHED:
        ends = (each.last_state.terminated for each in status.container_statuses)
        times = [end.finished_at for end in ends if end]
    return max((time.timestamp() for time in times if isinstance(time, Time)), default=now)


class Life:
    """One look at a pod; ``now`` is in seconds since 1970."""

    def __init__(
        self,
        script: Script,
        behavior: Behavior,
        place: Place,
        *,
        now: float,
        gate: InitGate | None = None,
    ) -> None:
        self.script: Final = script
        self.behavior: Final = behavior
        self.place: Final = place
        self.now: Final = now
        self.time: Final = Time.of_timestamp(now)
        self.gate: Final = gate

    def advance(self, pod: Pod, elapsed: float) -> Step:
        """What becomes of a pod that has been in its stage for ``elapsed`` seconds."""
        left = self._deadline(pod)
        if left <= 0 and stage_of(pod) is not Stage.ENDED:
            text = "Pod was active on the node longer than the specified deadline"
            return Step(self.stop(pod, reason="DeadlineExceeded", message=text), math.inf)
        step = self._next(pod, elapsed)
        while step.status is not None and stage_of(pod.evolve(status=step.status)) in _BEFORE_IT_RUNS:
            further = self._next(pod.evolve(status=step.status), 0.0)
            if further.status is None:
                return Step(step.status, min(further.after, left))
            step = further
        return Step(step.status, min(step.after, left))

    def stop(self, pod: Pod, *, reason: str = "", message: str = "") -> PodStatus:
        """The status of a pod whose containers were told to end."""
        known = pod.status.container_statuses or tuple(
            waiting(pod, each, "ContainerCreating") for each in pod.spec.containers
        )
        containers = [stopped(each, self.time) for each in known]
        return self._end(pod, containers, "Failed").evolve(reason=reason, message=message)

    def _deadline(self, pod: Pod) -> float:
        limit, started = pod.spec.active_deadline_seconds, pod.status.start_time
        if not limit or not isinstance(started, Time):
            return math.inf
        return limit - (self.now - started.timestamp())

    def _next(self, pod: Pod, elapsed: float) -> Step:
        script = self.script
        match stage_of(pod):
            case Stage.NEW if script.start_seconds > 0:
                return Step(self._creating(pod), 0.0)
            case Stage.NEW:
                return self._initialize(pod)
            case Stage.CREATING if elapsed >= script.start_seconds:
                return self._initialize(pod)
            case Stage.CREATING:
                return Step(None, script.start_seconds - elapsed)
            case Stage.INITIALIZING if elapsed < script.init_seconds:
                return Step(None, script.init_seconds - elapsed)
            case Stage.INITIALIZING:
                return self._initialize(pod)
            case Stage.RUNNING:
                return self._go_on(pod, elapsed)
            case Stage.CRASHED:
                return self._restart(pod, elapsed)
        return Step(None, math.inf)

    def _creating(self, pod: Pod) -> PodStatus:
        reason = "PodInitializing" if pod.spec.init_containers else "ContainerCreating"
        return self._status(
            pod,
            phase="Pending",
            inits=[waiting(pod, each, "ContainerCreating") for each in pod.spec.init_containers],
            containers=[waiting(pod, each, reason) for each in pod.spec.containers],
        )

    def _initialize(self, pod: Pod) -> Step:
        """Let init containers run one after the other; when all are done, the others start."""
        known = {each.name: each for each in pod.status.init_container_statuses}
        inits: list[ContainerStatus] = []
        is_blocked, poll = False, math.inf
        for container in pod.spec.init_containers:
            before = known.get(container.name)
            if is_blocked:
                inits.append(waiting(pod, container, "PodInitializing"))
            elif before is not None and (before.state.terminated or _is_on(container, before)):
                inits.append(before)
            elif is_sidecar(container):
                inits.append(running(pod, container, self.time, ready=True))
            elif self._is_done(pod, container, before):
                started = before.state.running.started_at if before and before.state.running else UNSET
                since = started if isinstance(started, Time) else self.time
                inits.append(completed(pod, container, code=0, started=since, now=self.time))
            else:
                is_running = before is not None and before.state.running
                inits.append(
                    before if before and is_running else running(pod, container, self.time, ready=False)
                )
                is_blocked, poll = True, self.script.init_seconds or _INIT_POLL
        if not is_blocked:
            return Step(self._started(pod, inits), 0.0)
        containers = [waiting(pod, each, "PodInitializing") for each in pod.spec.containers]
        status = self._status(pod, phase="Pending", inits=inits, containers=containers)
        return Step(None if tuple(inits) == pod.status.init_container_statuses else status, poll)

    def _is_done(self, pod: Pod, container: Container, before: ContainerStatus | None) -> bool:
        """Whether an init container whose turn it is has ended: its time is up, what it awaits is there."""
        had_its_time = self.script.init_seconds == 0 or bool(before and before.state.running)
        return had_its_time and (self.gate is None or self.gate(pod, container))

    def _started(self, pod: Pod, inits: list[ContainerStatus]) -> PodStatus:
        is_ready = self.script.ready_seconds == 0
        containers = [running(pod, each, self.time, ready=is_ready) for each in pod.spec.containers]
        return self._status(pod, phase="Running", inits=inits, containers=containers)

    def _go_on(self, pod: Pod, elapsed: float) -> Step:
        script, status = self.script, pod.status
        if elapsed >= script.run_seconds:
            return self._exit(pod)
        is_ready, left = elapsed >= script.ready_seconds, script.run_seconds - elapsed
        if not is_ready:
            left = min(left, script.ready_seconds - elapsed)
        containers = [
            each.evolve(ready=is_ready) if each.state.running else each for each in status.container_statuses
        ]
        after = self._status(
            pod, phase="Running", inits=list(status.init_container_statuses), containers=containers
        )
        return Step(None if after == status else after, left)

    def _exit(self, pod: Pod) -> Step:
        code, policy = self.script.exit_code, pod.spec.restart_policy
        known = list(pod.status.container_statuses)
        if policy == "Always" or (code != 0 and policy != "Never"):
            restarts = max((value_or(each.restart_count, 0) for each in known), default=0)
            delay = self.behavior.restart_delay(restarts)
            where = f"{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"
            waits = [
                crashed(each, code=code, now=self.time, delay=delay, where=where)
                if each.state.running
                else each
                for each in known
            ]
            inits = list(pod.status.init_container_statuses)
            crash = self._status(pod, phase="Running", inits=inits, containers=waits)
            if delay > 0:
                return Step(crash, delay)
            return self._restart(pod.evolve(status=crash), 0.0)
        containers = [self._ended(pod, each, code) for each in known]
        return Step(self._end(pod, containers, "Succeeded" if code == 0 else "Failed"), math.inf)

    def _ended(self, pod: Pod, before: ContainerStatus, code: int) -> ContainerStatus:
        container = next(each for each in pod.spec.containers if each.name == before.name)
        started = before.state.running.started_at if before.state.running else UNSET
        since = started if isinstance(started, Time) else self.time
        return completed(pod, container, code=code, started=since, now=self.time, before=before)

    def _restart(self, pod: Pod, elapsed: float) -> Step:
        known = {each.name: each for each in pod.status.container_statuses}
        restarts = max((value_or(each.restart_count, 0) for each in known.values()), default=0)
        left = self.behavior.restart_delay(restarts) - elapsed
        if left > 0:
            return Step(None, left)
        is_ready = self.script.ready_seconds == 0
        containers = [
            running(pod, each, self.time, ready=is_ready, before=known.get(each.name))
            for each in pod.spec.containers
        ]
        inits = list(pod.status.init_container_statuses)
        return Step(self._status(pod, phase="Running", inits=inits, containers=containers), 0.0)

    def _end(self, pod: Pod, containers: list[ContainerStatus], phase: str) -> PodStatus:
        inits = [stopped(each, self.time) for each in pod.status.init_container_statuses]
        return self._status(pod, phase=phase, inits=inits, containers=containers)

    def _status(
        self, pod: Pod, *, phase: str, inits: list[ContainerStatus], containers: list[ContainerStatus]
    ) -> PodStatus:
        """The whole status as the kubelet sees it."""
        return pod.status.evolve(
            observed_generation=pod.metadata.generation or UNSET,
            phase=phase,
            start_time=pod.status.start_time or self.time,
            host_ip=self.place.host_ip,
            host_ips=(HostIP(ip=self.place.host_ip),),
            pod_ip=self.place.pod_ip,
            pod_ips=(PodIP(ip=self.place.pod_ip),),
            init_container_statuses=inits,
            container_statuses=containers,
            ephemeral_container_statuses=self._ephemeral(pod, phase),
            conditions=self._conditions(pod, phase, inits, containers),
        )

    def _ephemeral(self, pod: Pod, phase: str) -> tuple[ContainerStatus, ...]:
        """Containers that somebody put into a pod that runs: they start at once, and run until it ends."""
        known = {each.name: each for each in pod.status.ephemeral_container_statuses}
        found = []
        for container in pod.spec.ephemeral_containers:
            before = known.get(container.name)
            if phase in ("Succeeded", "Failed"):
                found += [stopped(before, self.time)] if before is not None else []
            elif before is not None and before.state.running:
                found.append(before)
            elif phase == "Running":
                found.append(running(pod, container, self.time, ready=False))
            else:
                found.append(waiting(pod, container, "PodInitializing"))
        return tuple(found)

    def _conditions(
        self, pod: Pod, phase: str, inits: list[ContainerStatus], containers: list[ContainerStatus]
    ) -> list[PodCondition]:
        """The kubelet's own and those of others, in the order they have."""
        mine = {
            each.type: each
            for each in conditions(
                pod,
                phase=phase,
                containers=containers,
                inits=inits,
                has_network=phase not in ("Succeeded", "Failed"),
                now=self.time,
            )
        }
        return [*(mine.pop(each.type, each) for each in pod.status.conditions), *mine.values()]


def _is_on(container: Container, status: ContainerStatus) -> bool:
    return is_sidecar(container) and bool(status.state.running)
