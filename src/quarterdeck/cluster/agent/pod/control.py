"""One container of one pod: started, watched, probed, stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from quarterdeck.api import value_or
from quarterdeck.api.k8s import Container, Pod, Probe
from quarterdeck.api.k8s.pod import LifecycleHandler
from quarterdeck.cluster.agent.container.container import Containers, RuntimeFailure
from quarterdeck.cluster.agent.environment.variable import expanded
from quarterdeck.cluster.agent.network.dial import Dialer
from quarterdeck.cluster.agent.nodetools import Spawn
from quarterdeck.cluster.agent.pod.plan import Restart
from quarterdeck.cluster.agent.probe.grpc import check_health
from quarterdeck.cluster.agent.probe.handler import (
    HandlerFailure,
    connect_tcp,
    get_http,
    response_text,
    run_command,
)
from quarterdeck.cluster.agent.probe.probe import watch_probe
from quarterdeck.cluster.agent.record.folder import PodFolder, RunRecord
from quarterdeck.cluster.agent.record.view import AnyContainer, ContainerView, Run, Trouble
from quarterdeck.cluster.agent.shim.order import Launch

_LEAST_GRACE: Final = 2.0
_KILL_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.05
_DEFAULT_GRACE: Final = 30
_REDIRECTED: Final = 300
"""The first HTTP status that leads elsewhere."""


class PodEvents(Protocol):
    """Tells events about a pod, or about one of its containers."""

    def __call__(self, type: str, reason: str, note: str, container: str = "") -> None: ...


class ContainerControl:
    """Starts, watches, probes and stops one container."""

    def __init__(
        self,
        name: str,
        folder: PodFolder,
        containers: Containers,
        dialer: Dialer,
        *,
        tell: PodEvents,
        wake: Callable[[], None],
        spawn: Spawn,
    ) -> None:
        self.name: Final = name
        self._folder: Final = folder
        self._containers: Final = containers
        self._dialer: Final = dialer
        self._tell: Final = tell
        self._wake: Final = wake
        self._spawn: Final = spawn
        self.trouble: Trouble | None = None
        self._is_ready = False
        self._has_started = False
        self._watched = -1
        """Number of the run whose end is being watched for."""
        self._descriptor = -1
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._ended: dict[int, Run] = {}
        self._end_seen = (-1, 0.0)
        """Number of the newest run that has ended, and when that was by the steady clock."""
        self._told_backoff = -1

    def look(self, first: int = 0) -> ContainerView:
        """What the folders say, and the probes; runs before the first count as previous ones. Blocking."""
        numbers = self._folder.run_numbers(self.name)
        newer, older = [each for each in numbers if each >= first], [each for each in numbers if each < first]
        run = self._read(newer[-1]) if newer else None
        before = [*older, *newer[:-1]]
        previous = self._read(before[-1]) if before else None
        newest = run or previous
        return ContainerView(
            run=run,
            previous=previous,
            first=first,
            is_ready=self._is_ready,
            has_started=self._has_started,
            trouble=self.trouble,
            rested=self._rested(newest) if newest is not None and newest.is_ended else 0.0,
        )

    def _rested(self, run: Run) -> float:
        """Seconds since a run ended. The time of day counts once, for ends of before this agent."""
        now = time.monotonic()
        if self._end_seen[0] != run.number:
            self._end_seen = (run.number, now - max(0.0, time.time() - run.finished))
        return now - self._end_seen[1]

    def _read(self, number: int) -> Run | None:
        known = self._ended.get(number)
        if known is not None:
            return known
        run = self._folder.read_run(self.name, number)
        if run is not None and run.is_ended:
            self._ended = {
                **{key: each for key, each in self._ended.items() if key >= number - 1},
                number: run,
            }
        return run

    async def start(self, pod: Pod, restart: Restart, make: Callable[[Any], Launch], image_id: str) -> None:
        """Begin a run; ``make`` gets the run's folder. What goes wrong with the program is in its record."""
        container = restart.container
        record = RunRecord(
            attempt=restart.attempt,
            created=time.time(),
            image=container.image,
            image_id=image_id,
            falls_back_to_log=container.termination_message_policy == "FallbackToLogsOnError",
        )
        self._forget_run()
        path = self._folder.run_path(self.name, restart.number)
        await asyncio.to_thread(self._folder.begin_run, self.name, restart.number, record)
        launch = await asyncio.to_thread(make, path)
        self._tell("Normal", "Created", "Container created", self.name)
        await self._containers.start(path, launch)
        self.trouble = None
        run = await asyncio.to_thread(self._read, restart.number)
        if run is None or not (run.started or run.is_ended):
            raise RuntimeFailure("nothing is known of the container after its start")
        if not run.started:
            if run.error:
                self._tell("Warning", "Failed", f"Error: {run.error}", self.name)
            self._wake()
            return
        self._tell("Normal", "Started", "Container started", self.name)
        self.follow(pod, container, run)
        lifecycle = container.lifecycle
        if lifecycle and lifecycle.post_start:
            self._begin(self._post_start(pod, container, run, lifecycle.post_start), "postStart")

    def follow(self, pod: Pod, container: AnyContainer, run: Run) -> None:
        """Watch a run that goes on: its end, and its probes. Once for each run."""
        if self._watched == run.number or not run.is_running:
            return
        self._forget_run()
        self._watched = run.number
        shim = self._folder.shim_of(self.name, run.number)
        try:
            self._descriptor = os.pidfd_open(shim) if shim else -1
        except ProcessLookupError:
            self._descriptor = -1
        if self._descriptor < 0:
            self._wake()
            return
        asyncio.get_running_loop().add_reader(self._descriptor, self._on_end)
        probes: list[tuple[str, Probe]] = []
        if isinstance(container, Container):
            for kind, probe in (
                ("Startup", container.startup_probe),
                ("Liveness", container.liveness_probe),
                ("Readiness", container.readiness_probe),
            ):
                if probe:
                    probes.append((kind, probe))
        kinds = {kind for kind, _ in probes}
        self._has_started = "Startup" not in kinds
        self._is_ready = self._has_started and "Readiness" not in kinds
        if probes and isinstance(container, Container):
            self._begin(self._probe(pod, container, run, dict(probes)), "probes")

    def _on_end(self) -> None:
        self._stop_watching()
        self._cancel()
        self._is_ready = self._has_started = False
        self._wake()

    def _stop_watching(self) -> None:
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _forget_run(self) -> None:
        self._stop_watching()
        self._cancel()
        self._is_ready = self._has_started = False
        self._watched = -1

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    def release(self) -> None:
        """Let go of everything; the container goes on as it is."""
        self._forget_run()

    def _begin(self, work: Coroutine[Any, Any, None], what: str) -> None:
        task = self._spawn(work, f"{what} {self.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _probe(self, pod: Pod, container: Container, run: Run, probes: dict[str, Probe]) -> None:
        """Run the startup probe until it passes, then the others."""
        startup = probes.pop("Startup", None)
        if startup:
            passed = asyncio.Event()

            def settle(is_good: bool) -> None:
                if is_good:
                    passed.set()
                else:
                    self._fail(pod, container, run, "startup", startup)

            async with asyncio.TaskGroup() as group:
                watching = group.create_task(
                    self._watch(pod, container, run, "Startup", startup, False, settle), name="startup"
                )
                await passed.wait()
                watching.cancel()
            self._has_started = True
            self._is_ready = "Readiness" not in probes
            self._wake()

        def set_ready(is_good: bool) -> None:
            if is_good is not self._is_ready:
                self._is_ready = is_good
                self._wake()

        def set_alive(is_good: bool) -> None:
            if not is_good:
                self._fail(pod, container, run, "liveness", probes["Liveness"])

        async with asyncio.TaskGroup() as group:
            if "Readiness" in probes:
                group.create_task(
                    self._watch(pod, container, run, "Readiness", probes["Readiness"], False, set_ready)
                )
            if "Liveness" in probes:
                group.create_task(
                    self._watch(pod, container, run, "Liveness", probes["Liveness"], True, set_alive)
                )

    async def _watch(
        self,
        pod: Pod,
        container: Container,
        run: Run,
        kind: str,
        probe: Probe,
        is_good: bool,
        on_state: Callable[[bool], None],
    ) -> None:
        await watch_probe(
            probe,
            lambda timeout: self._ask(pod, container, run, kind, probe, timeout),
            is_good=is_good,
            started_ago=max(0.0, time.time() - run.started),
            on_failure=lambda text: self._tell(
                "Warning", "Unhealthy", f"{kind} probe failed: {text}", self.name
            ),
            on_state=on_state,
            ends_when_bad=kind != "Readiness",  # the container is stopped then
        )

    async def _ask(
        self, pod: Pod, container: Container, run: Run, kind: str, probe: Probe, timeout: float
    ) -> None:
        if probe.exec:
            path = self._folder.run_path(self.name, run.number)
            # as a kubelet: only what stands in the pod itself is known here
            command = expanded(probe.exec.command, {each.name: each.value for each in container.env})
            code, output = await run_command(self._containers, path, command, timeout)
            if code != 0:
                raise HandlerFailure(output)
        elif probe.http_get:
            answer = await get_http(self._dialer, probe.http_get, pod, container, timeout)
            if answer.status >= _REDIRECTED:
                text = f"Probe terminated redirects, Response body: {response_text(answer)}"
                self._tell("Warning", "ProbeWarning", f"{kind} probe warning: {text}", self.name)
        elif probe.tcp_socket:
            await connect_tcp(self._dialer, probe.tcp_socket, pod, container, timeout)
        elif probe.grpc:
            port = value_or(probe.grpc.port, 0)
            service = value_or(probe.grpc.service, "")
            await check_health(self._dialer, pod.status.pod_ip, port, service, timeout)

    def _fail(self, pod: Pod, container: Container, run: Run, kind: str, probe: Probe) -> None:
        """A probe has failed for good: the container ends, and its policy says whether it starts again."""
        usual = value_or(pod.spec.termination_grace_period_seconds, _DEFAULT_GRACE)
        grace = value_or(probe.termination_grace_period_seconds, usual)
        message = f"Container {self.name} failed {kind} probe, will be restarted"
        # Not one of this run's tasks: those end with the run, and this one ends it.
        self._spawn(self.stop(pod, container, run, float(grace), message), f"stop {self.name}")

    async def _post_start(self, pod: Pod, container: AnyContainer, run: Run, hook: LifecycleHandler) -> None:
        try:
            await self._run_hook(pod, container, run, hook, None)
        except HandlerFailure:
            self._tell("Warning", "FailedPostStartHook", "PostStartHook failed", self.name)
            grace = float(value_or(pod.spec.termination_grace_period_seconds, _DEFAULT_GRACE))
            message = "FailedPostStartHook"
            self._spawn(self.stop(pod, container, run, grace, message), f"stop {self.name}")

    async def _run_hook(
        self, pod: Pod, container: AnyContainer, run: Run, hook: LifecycleHandler, timeout: float | None
    ) -> None:
        if hook.exec:
            path = self._folder.run_path(self.name, run.number)
            code, output = await run_command(self._containers, path, hook.exec.command, timeout)
            if code != 0:
                raise HandlerFailure(f"command exited with {code}: {output}")
        elif hook.http_get:
            limit = timeout if timeout is not None else 60.0
            await get_http(self._dialer, hook.http_get, pod, container, limit)
        elif hook.sleep:
            await asyncio.sleep(value_or(hook.sleep.seconds, 0))

    async def stop(
        self, pod: Pod, container: AnyContainer, run: Run, grace: float, message: str = ""
    ) -> None:
        """Hook, signal, and the end at the end of the grace. Returns when the container is gone."""
        if not run.started and await asyncio.to_thread(self._folder.give_up_run, self.name, run.number):
            return
        self._tell("Normal", "Killing", message or f"Stopping container {self.name}", self.name)
        path = self._folder.run_path(self.name, run.number)
        begun = time.monotonic()
        lifecycle = container.lifecycle
        if lifecycle and lifecycle.pre_stop and grace > 0:
            try:
                async with asyncio.timeout(grace):
                    await self._run_hook(pod, container, run, lifecycle.pre_stop, grace)
            except TimeoutError:
                pass
            except HandlerFailure:
                self._tell("Warning", "FailedPreStopHook", "PreStopHook failed", self.name)
        left = grace - (time.monotonic() - begun)
        if grace > 0:
            left = max(left, _LEAST_GRACE)
            await asyncio.to_thread(self._containers.ask_to_end, path, lifecycle and lifecycle.stop_signal)
            if await self._has_ended_within(run, left):
                return
        while not await self._has_ended_within(run, 0.0):
            was_there = await asyncio.to_thread(self._containers.signal, path, signal.SIGKILL)
            if await self._has_ended_within(run, _KILL_SECONDS if was_there else _LOOK_SECONDS):
                return

    async def _has_ended_within(self, run: Run, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while True:
            seen = await asyncio.to_thread(self._folder.read_run, self.name, run.number)
            if seen is None or seen.is_ended:
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            await asyncio.sleep(min(left, _LOOK_SECONDS))

    def told_backoff(self, run: Run) -> bool:
        """Whether the back-off after a run was reported already; marks it as reported."""
        is_told, self._told_backoff = self._told_backoff == run.number, run.number
        return is_told
