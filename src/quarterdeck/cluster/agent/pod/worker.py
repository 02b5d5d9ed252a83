"""One pod of this node: what should be is compared with what is, and the difference is made.

``sync`` is called whenever something may have changed: the pod, a container's end, a probe, a due time. It
does what is due, writes the status if that is news, and says when to look again. Whatever takes long (hooks,
probes, graceful ends) runs in tasks that wake it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from quarterdeck.api import Time, value_or
from quarterdeck.api.k8s import Pod, PodStatus
from quarterdeck.cluster.agent.container import gpu
from quarterdeck.cluster.agent.container.container import RuntimeFailure
from quarterdeck.cluster.agent.container.oom import oom_score
from quarterdeck.cluster.agent.container.runtime import PodRuntime, UnknownImage, Wanted
from quarterdeck.cluster.agent.environment.file import file_keys
from quarterdeck.cluster.agent.environment.reference import read_references
from quarterdeck.cluster.agent.environment.variable import (
    ContainerConfigError,
    container_environment,
    service_environment,
)
from quarterdeck.cluster.agent.machine.allocation import write_given
from quarterdeck.cluster.agent.machine.storage import is_limited, storage_problem
from quarterdeck.cluster.agent.network.hosts import hostname, hosts_file
from quarterdeck.cluster.agent.nodetools import NodeTools
from quarterdeck.cluster.agent.pod.control import ContainerControl
from quarterdeck.cluster.agent.pod.ending import end_folder
from quarterdeck.cluster.agent.pod.limit import ContainerLimits
from quarterdeck.cluster.agent.pod.ownfile import write_hosts, write_names
from quarterdeck.cluster.agent.pod.plan import Outcome, Plan, Restart, make_plan
from quarterdeck.cluster.agent.pod.resize import PodResize
from quarterdeck.cluster.agent.pod.status import make_status
from quarterdeck.cluster.agent.record.folder import PodFolder, PodRecord, remove_tree
from quarterdeck.cluster.agent.record.view import (
    AnyContainer,
    ContainerView,
    PodSight,
    Run,
    Trouble,
    field_path,
    is_sidecar,
)
from quarterdeck.cluster.agent.shim.order import Launch
from quarterdeck.cluster.agent.volume.payload import VolumeError
from quarterdeck.cluster.agent.volume.volume import PodVolumes
from quarterdeck.cluster.image.name import name_problem
from quarterdeck.errors import ApiError, TransportError
from quarterdeck.wire.gostyle import quote

_RETRY: Final = (2.0, 60.0)
"""Seconds after which a container that could not be made is tried again: the first time, and at most."""
_REFRESH_SECONDS: Final = 45.0
_NAMES_SECONDS: Final = 5.0
"""How long the first container waits for the names of the pod's set, at most."""
_NAMES_LOOK: Final = 0.05
_SIZE_SECONDS: Final = 10.0
_RESIZE_SECONDS: Final = 10.0
_DEFAULT_GRACE: Final = 30
_EVICTION_GRACE: Final = 1.0


class PodWorker:
    """Looks after one pod."""

    def __init__(
        self, tools: NodeTools, runtime: PodRuntime, pod: Pod, ip: str, wake: Callable[[], None]
    ) -> None:
        self._tools: Final = tools
        self.runtime: Final = runtime
        self.wake: Final = wake
        self.ip: Final = ip
        self.uid: Final = pod.metadata.uid
        self.folder: Final = PodFolder(tools.directory, pod.metadata.uid)
        self._volumes: Final = PodVolumes(tools.client, pod, self.folder, tools.allocatable, tools.images)
        self._controls: Final[dict[str, ContainerControl]] = {}
        self._is_set_up = False
        self._set_up_failures = 0
        self._failures: Final[dict[str, int]] = {}
        self._limits: Final = ContainerLimits(tools.cgroups, pod.metadata.uid, self._tell)
        self._resize: Final = PodResize(tools.allocations, self.folder, self._tell, tools.wake)
        self._ending: Outcome | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._stop_deadline = math.inf
        self._refresh_at = 0.0
        self._next_set_up = 0.0
        self._names_deadline = math.inf
        self._next_size_check = 0.0
        self.gone: Final = asyncio.Event()
        """Set when nothing is left of the pod; its address may be another one's from then on."""
        self.pod = pod

    @property
    def is_active(self) -> bool:
        """Whether the pod has its files, and may still need them."""
        return self._is_set_up and self.pod.status.phase not in ("Succeeded", "Failed")

    async def sync(self, pod: Pod) -> tuple[PodStatus, float]:
        """Do what is due; the status that the pod should have, and the seconds until something is due."""
        is_over = pod.metadata.is_deleting or pod.status.phase in ("Succeeded", "Failed")
        granted = pod if is_over else await self._resize.granted(pod)
        self.pod = granted.evolve(status=pod.status.evolve(pod_ip=self.ip, host_ip=self.runtime.host))
        now, steady = time.time(), time.monotonic()
        if pod.metadata.is_deleting:
            return await self._sync_stopping(now)
        if pod.status.phase in ("Succeeded", "Failed"):
            return pod.status, math.inf
        left = self._time_left(now)
        if left <= 0 and self._ending is None:
            text = "Pod was active on the node longer than the specified deadline"
            self._tell("Normal", "DeadlineExceeded", text)
            self._ending = Outcome("Failed", "DeadlineExceeded", text)
        if self._ending is not None:
            return await self._sync_stopping(now)
        size_check = await self._check_sizes(steady)
        if self._ending is not None:
            return await self._sync_stopping(now)
        if not self._is_set_up and not await self._set_up(steady):
            sight = await self._look(now)
            return self._status(sight), min(left, max(0.1, self._next_set_up - steady))
        sight = await self._look(now)
        plan = make_plan(self.pod, sight)
        if plan.begins_again:
            return await self._begin_again(sight)
        if plan.outcome is not None:
            return await self._sync_finished(sight)
        after = min(plan.after, left, size_check)
        if plan.start and self._awaits_names(steady):
            return self._status(sight), min(after, _NAMES_LOOK)
        for restart in plan.start:
            after = min(after, await self._start(restart))
        if plan.start:
            sight = await self._look(now)
        self._follow(sight, plan)
        containers = self._everything()
        if await self._limits.follow(containers, sight, self._restart_resized):
            sight = await self._look(now)
        problem = self._limits.problem
        self._resize.settle(self.pod, problem=problem, is_done=self._limits.is_settled(containers, sight))
        if problem:
            after = min(after, _RESIZE_SECONDS)
        return self._status(sight), min(after, await self._refresh(steady))

    async def _check_sizes(self, now: float) -> float:
        """End a pod that has more on disk than it may; seconds until the next look."""
        if not self._is_set_up or not is_limited(self.pod):
            return math.inf
        if now >= self._next_size_check:
            self._next_size_check = now + _SIZE_SECONDS
            problem = await asyncio.to_thread(storage_problem, self.pod, self.folder, self._volumes.path)
            if problem:
                self._begin_eviction(problem)
        return self._next_size_check - now

    def _begin_eviction(self, text: str, *, is_disruption: bool = False) -> None:
        self._tell("Warning", "Evicted", text)
        self._ending = Outcome("Failed", "Evicted", text, is_disruption=is_disruption)

    def evict(self, text: str) -> bool:
        """Begin to end the pod because the node is short of something; whether it was not ending already."""
        if self._ending is not None or self.pod.metadata.is_deleting or not self.is_active:
            return False
        self._begin_eviction(text, is_disruption=True)
        self.wake()
        return True

    def _status(self, sight: PodSight) -> PodStatus:
        runtime = self.runtime
        return make_status(
            self.pod,
            sight,
            ip=self.ip,
            host=runtime.host,
            runtime=runtime.name,
            ending=self._ending,
            resize=self._resize.conditions,
        )

    def _time_left(self, now: float) -> float:
        limit, started = self.pod.spec.active_deadline_seconds, self.pod.status.start_time
        if not isinstance(limit, int) or not isinstance(started, Time):
            return float(limit) if isinstance(limit, int) else math.inf
        return limit - (now - started.timestamp())

    def _everything(self) -> list[AnyContainer]:
        spec = self.pod.spec
        return [*spec.init_containers, *spec.containers, *spec.ephemeral_containers]

    def _control(self, name: str) -> ContainerControl:
        control = self._controls.get(name)
        if control is None:
            control = self._controls[name] = ContainerControl(
                name,
                self.folder,
                self._tools.containers,
                self._tools.dialer,
                tell=self._tell,
                wake=self.wake,
                spawn=self._tools.spawn,
            )
        return control

    def _tell(self, type: str, reason: str, note: str, container: str = "") -> None:
        kind: Literal["Normal", "Warning"] = "Warning" if type == "Warning" else "Normal"
        place = field_path(self.pod, container) if container else ""
        self._tools.recorder.event(self.pod, kind, reason, reason, note, field_path=place)

    async def _look(self, now: float) -> PodSight:
        containers = self._everything()

        def read() -> dict[str, ContainerView]:
            first = self.folder.first_runs()
            return {each.name: self._seen(each.name, first.get(each.name, 0)) for each in containers}

        is_stopping = self._ending is not None or self.pod.metadata.is_deleting
        return PodSight(
            containers=await asyncio.to_thread(read),
            now=now,
            steady=time.monotonic(),
            has_network=self._is_set_up,
            is_stopping=is_stopping,
        )

    def _seen(self, name: str, first: int) -> ContainerView:
        view = self._control(name).look(first)
        resources = self._limits.of(name, view.run)
        return msgspec.structs.replace(view, resources=resources) if resources is not None else view

    def _follow(self, sight: PodSight, plan: Plan) -> None:
        for container in self._everything():
            run = sight.of(container).run
            if run is None:
                continue
            control = self._control(container.name)
            control.follow(self.pod, container, run)
            is_due_later = run.is_ended and run.attempt > 0 and plan.after < math.inf
            if is_due_later and not control.told_backoff(run):
                where = f"{self.pod.metadata.name}_{self.pod.metadata.namespace}({self.uid})"
                note = f"Back-off restarting failed container {container.name} in pod {where}"
                self._tell("Warning", "BackOff", note, container.name)

    async def _set_up(self, now: float) -> bool:
        """Make the pod's folders, files and volumes; whether they are there."""
        if now < self._next_set_up:
            return False
        pod = self.pod
        record = PodRecord(
            namespace=pod.metadata.namespace,
            name=pod.metadata.name,
            uid=self.uid,
            ip=self.ip,
            runtime=self.runtime.name,
        )
        is_new = await asyncio.to_thread(self.folder.record) is None
        await asyncio.to_thread(self.folder.set_up, record)
        if is_new and self.runtime.shortcoming:
            self._tell("Warning", "NamespacesMissing", self.runtime.shortcoming)
        given = self._tools.allocations.of(self.uid)
        if given is not None:
            await asyncio.to_thread(write_given, self.folder, given)
        try:
            await asyncio.to_thread(self.runtime.set_up, pod, self.folder, self.ip)
        except OSError as error:
            self._set_up_failures += 1
            self._next_set_up = now + _retry_after(self._set_up_failures)
            self._tell("Warning", "FailedCreatePodSandBox", f"Failed to create pod sandbox: {error}")
            return False
        try:
            await self._volumes.set_up(pod)
        except (VolumeError, ApiError, TransportError) as error:
            self._set_up_failures += 1
            self._next_set_up = now + _retry_after(self._set_up_failures)
            self._tell("Warning", "FailedMount", str(error))
            return False
        await asyncio.to_thread(write_names, self.folder, pod, self.runtime.resolver)
        await asyncio.to_thread(self.write_hosts)
        self._is_set_up = True
        self._refresh_at = now + _REFRESH_SECONDS
        return True

    def write_hosts(self) -> None:
        """Bring the hosts file up to date. Blocking."""
        write_hosts(self.folder, hosts_file(self.pod, self.ip, self._tools.names(self.runtime)))

    async def _refresh(self, now: float) -> float:
        """Bring volumes made from objects up to date; seconds until the next time."""
        volumes = self.pod.spec.volumes
        if not any(each.config_map or each.secret or each.projected or each.downward_api for each in volumes):
            return math.inf
        if now >= self._refresh_at:
            self._refresh_at = now + _REFRESH_SECONDS
            try:
                await self._volumes.refresh(self.pod)
            except (VolumeError, ApiError, TransportError) as error:
                self._tell("Warning", "FailedMount", str(error))
        return self._refresh_at - now

    def _awaits_names(self, now: float) -> bool:
        """Whether the names of the pod's set are on their way: those of a headless Service that has pods
        before they are ready. They come with this pod's own, and its first program may ask for them."""
        self._names_deadline = min(self._names_deadline, now + _NAMES_SECONDS)
        namespace, subdomain = self.pod.metadata.namespace, self.pod.spec.subdomain
        if not subdomain or now >= self._names_deadline:
            return False
        own = f"{hostname(self.pod)}.{subdomain}"
        if any((name, where) == (own, namespace) for _, name, where in self._tools.names(self.runtime)):
            self._names_deadline = -math.inf
            return False
        return any(
            each.metadata.name == subdomain
            and each.spec.cluster_ip == "None"
            and each.spec.publish_not_ready_addresses is True
            for each in self._tools.headless(namespace)
        )

    async def _start(self, restart: Restart) -> float:
        """Begin a run; seconds until it should be looked at again."""
        container = restart.container
        control = self._control(container.name)
        if why := name_problem(container.image):
            name = quote(container.image)
            text = f"Failed to apply default image tag {name}: couldn't parse image name {name}: {why}"
            self._tell("Warning", "InspectFailed", text, container.name)
            self._tell("Warning", "Failed", "Error: InvalidImageName", container.name)
            return self._fail(control, "InvalidImageName", text)
        try:
            environment = await self._environment(container)
            wanted = Wanted(
                pod=self.pod,
                container=container,
                folder=self.folder,
                volumes={each.name: self._volumes.path(each.name) for each in self.pod.spec.volumes},
                environment=environment,
                oom_score=oom_score(self.pod, container, self._tools.memory()),
            )

            def make_with_limits(run: Path) -> Launch:
                return self.runtime.launch(wanted, run, self._limits.give(container, restart.number))

            image_id = await asyncio.to_thread(self.runtime.image_id, container.image)
            # Once for nothing: a run that cannot be made must not count as one.
            run = self.folder.run_path(container.name, restart.number)
            await asyncio.to_thread(self.runtime.launch, wanted, run, ())
            note = f'Container image "{container.image}" already present on machine'
            self._tell("Normal", "Pulled", note, container.name)
            await control.start(self.pod, restart, make_with_limits, image_id=image_id)
        except UnknownImage as error:
            self._tell("Warning", "ErrImageNeverPull", str(error), container.name)
            return self._fail(control, "ErrImageNeverPull", str(error))
        except ContainerConfigError as error:
            self._tell("Warning", "Failed", f"Error: {error}", container.name)
            return self._fail(control, "CreateContainerConfigError", str(error))
        except (RuntimeFailure, OSError) as error:
            self._tell("Warning", "Failed", f"Error: {error}", container.name)
            return self._fail(control, "CreateContainerError", str(error))
        self._failures.pop(container.name, None)
        return math.inf

    def _restart_resized(self, container: AnyContainer, run: Run) -> None:
        grace = float(value_or(self.pod.spec.termination_grace_period_seconds, _DEFAULT_GRACE))
        message = f"Container {container.name} resize requires restart"
        stop = self._control(container.name).stop(self.pod, container, run, grace, message)
        self._tools.spawn(stop, f"resize {container.name}")

    def _fail(self, control: ContainerControl, reason: str, message: str) -> float:
        count = self._failures[control.name] = self._failures.get(control.name, 0) + 1
        delay = _retry_after(count)
        control.trouble = Trouble(reason, message, time.monotonic() + delay)
        return delay

    async def _environment(self, container: AnyContainer) -> dict[str, str]:
        pod = self.pod
        services, addresses = self._tools.services(pod.metadata.namespace, self.runtime)
        if pod.spec.enable_service_links is False:
            services = [each for each in services if each.metadata.name == "kubernetes"]
        return container_environment(
            pod,
            container,
            await read_references(self._tools.client, pod.metadata.namespace, container),
            service_environment(services, addresses) | await asyncio.to_thread(self._gpus, container),
            self._tools.allocatable(),
            await asyncio.to_thread(file_keys, container, self._volumes.path),
        )

    def _gpus(self, container: AnyContainer) -> dict[str, str]:
        installed = self._tools.allocatable().get(gpu.RESOURCE)
        return gpu.container_variables(self.folder, container, installed, self._tools.directory)

    async def _begin_again(self, sight: PodSight) -> tuple[PodStatus, float]:
        """A rule restarts the pod in its place: all containers end without grace, and begin again."""
        containers = [*self.pod.spec.init_containers, *self.pod.spec.containers]
        if sight.all_ended(containers):
            names = [each.name for each in containers]
            await asyncio.to_thread(self.folder.begin_again, names)
            self.wake()
        else:
            self._begin_stop(0.0, containers)
        return self._status(sight), math.inf

    async def _sync_finished(self, sight: PodSight) -> tuple[PodStatus, float]:
        """The pod's work is done: end what still runs beside it."""
        if sight.all_ended(self._everything()):
            self._release()
            await asyncio.to_thread(gpu.give_back, self.folder)
            return self._status(sight), math.inf
        self._begin_stop(float(value_or(self.pod.spec.termination_grace_period_seconds, _DEFAULT_GRACE)))
        return self._status(sight), math.inf

    async def _sync_stopping(self, now: float) -> tuple[PodStatus, float]:
        """The pod is to end: its containers are stopped."""
        sight = await self._look(now)
        if not sight.all_ended(self._everything()):
            self._begin_stop(self._grace(now))
        else:
            self._release()
            await asyncio.to_thread(gpu.give_back, self.folder)
            if self._is_evicted:  # the disk may be what there was too little of; logs stay
                await asyncio.to_thread(remove_tree, self.folder.path / "volumes")
                await self._volumes.remove()
        return self._status(sight), math.inf

    @property
    def _is_evicted(self) -> bool:
        return self._ending is not None and self._ending.reason == "Evicted"

    def _grace(self, now: float) -> float:
        usual = float(value_or(self.pod.spec.termination_grace_period_seconds, _DEFAULT_GRACE))
        metadata = self.pod.metadata
        if self._is_evicted:
            usual = _EVICTION_GRACE
        if not metadata.is_deleting:
            return usual
        grace = float(value_or(metadata.deletion_grace_period_seconds, usual))
        end = metadata.deletion_timestamp
        return max(0.0, min(grace, end.timestamp() - now)) if isinstance(end, Time) else grace

    def _begin_stop(self, grace: float, containers: Sequence[AnyContainer] = ()) -> None:
        """End these containers, or all, within the grace; a shorter one takes the place of a longer."""
        deadline = time.monotonic() + grace
        if self._stopping is not None and not self._stopping.done():
            if deadline >= self._stop_deadline - 1.0:
                return
            self._stopping.cancel()
        self._stop_deadline = deadline
        self._stopping = self._tools.spawn(
            self._stop_all(grace, containers or self._everything()), f"stop {self.pod.metadata.name}"
        )

    async def _stop_all(self, grace: float, containers: Sequence[AnyContainer]) -> None:
        """The main containers together, then the sidecars, last started first."""
        begun = time.monotonic()
        sidecars = [each for each in self.pod.spec.init_containers if is_sidecar(each)]
        others = [each for each in containers if each not in sidecars]
        async with asyncio.TaskGroup() as group:
            for container in others:
                group.create_task(self._stop_one(container, grace))
        for container in reversed(sidecars):
            left = max(0.0, grace - (time.monotonic() - begun))
            await self._stop_one(container, max(left, min(grace, 2.0)))
        self.wake()

    async def _stop_one(self, container: AnyContainer, grace: float) -> None:
        control = self._control(container.name)
        run = (await asyncio.to_thread(control.look)).run
        if run is None or run.is_ended:
            return
        await control.stop(self.pod, container, run, grace)

    def _release(self) -> None:
        for control in self._controls.values():
            control.release()

    @property
    def has_ended(self) -> bool:
        """Whether no container of the pod runs. Blocking."""
        return all(
            run is None or run.is_ended for run in (self._control(name).look().run for name in self._names())
        )

    def view_of(self, container: str) -> ContainerView:
        """What is known of a container. Blocking."""
        return self._control(container).look()

    def _names(self) -> set[str]:
        return {*self.folder.containers(), *(each.name for each in self._everything())}

    def release(self) -> None:
        """Let go of the pod; its containers go on."""
        if self._stopping is not None:
            self._stopping.cancel()
        self._release()

    async def remove(self) -> None:
        """End whatever runs at once, and take everything away."""
        self.release()
        await end_folder(self._tools.containers, [self.runtime], self.folder, self.ip)
        await asyncio.to_thread(self._tools.cgroups.remove, self.uid)
        await self._volumes.remove()
        self.gone.set()


def _retry_after(count: int) -> float:
    first, most = _RETRY
    return min(most, first * (1 << min(count - 1, 8)))
