"""The node agent: watches the pods of this node and hands each to its worker."""

from __future__ import annotations

import asyncio
import math
import os
import sys
import zlib
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from quarterdeck.api import GroupVersionKind, Key
from quarterdeck.api.k8s import EndpointSlice, Pod, Service
from quarterdeck.client import Client, MergePatch
from quarterdeck.cluster.agent.container.cgroup import Cgroups
from quarterdeck.cluster.agent.container.container import Containers
from quarterdeck.cluster.agent.container.runtime import PodRuntime
from quarterdeck.cluster.agent.machine.allocation import Allocations, read_given
from quarterdeck.cluster.agent.machine.eviction import (
    DEFAULT_THRESHOLDS,
    SIGNALS,
    PodUse,
    Shortage,
    rejection,
)
from quarterdeck.cluster.agent.machine.machine import read_supplies
from quarterdeck.cluster.agent.machine.pressure import NodePressure, pod_uses
from quarterdeck.cluster.agent.machine.registration import NodeRegistration
from quarterdeck.cluster.agent.machine.usage import UsageWatch
from quarterdeck.cluster.agent.network.address import PodAddresses
from quarterdeck.cluster.agent.network.dial import Dialer
from quarterdeck.cluster.agent.network.fabric import Fabric
from quarterdeck.cluster.agent.network.namefollower import names_controller
from quarterdeck.cluster.agent.network.servicepath import ServicePath
from quarterdeck.cluster.agent.nodetools import NodeTools
from quarterdeck.cluster.agent.oci.runtime import OciRuntime, find_program
from quarterdeck.cluster.agent.pod.ending import end_folder
from quarterdeck.cluster.agent.pod.worker import PodWorker
from quarterdeck.cluster.agent.process.image import ImageRule
from quarterdeck.cluster.agent.process.launch import Machine
from quarterdeck.cluster.agent.process.runtime import ProcessRuntime
from quarterdeck.cluster.agent.record.folder import PodFolder, pod_folders, remove_tree
from quarterdeck.cluster.agent.volume.volume import memory_folder
from quarterdeck.cluster.image.store import ImageStore
from quarterdeck.cluster.node.admission import REJECTED, port_rejection
from quarterdeck.cluster.node.statuspatch import status_patch
from quarterdeck.errors import NotFound
from quarterdeck.runtime.cache import CacheOptions, KindOptions
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.event import EventBroadcaster
from quarterdeck.runtime.log.field import get_logger
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.manager.option import GracePeriodExceeded, ManagerOptions
from quarterdeck.runtime.reconcile.context import Context, DeleteContext
from quarterdeck.runtime.reconcile.result import Requeue, Result

NAME: Final = "kubelet"
_WORKERS: Final = 16
_LONGEST_WAIT: Final = 30.0
_STOP_SECONDS: Final = 5.0
_RUNTIME_CLASS: Final = GroupVersionKind("node.k8s.io", "v1", "RuntimeClass")
_NO_RUNTIME_SECONDS: Final = 10.0
_log: Final = get_logger(__name__)


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a node runs pods."""

    name: str
    directory: str
    """Where pods, their volumes and logs are kept."""
    server: tuple[str, int] = ("127.0.0.1", 443)
    """Where pods find the API server."""
    images: tuple[ImageRule, ...] = ()
    hidden: tuple[str, ...] = ()
    """Folders that no container sees, beside the node's own."""
    is_writable: bool = False
    """Whether containers may write to the machine's files as far as the user may."""
    taint: bool = False
    """Whether only pods that tolerate ``quarterdeck.dev/local`` come here."""
    runtime: str = ProcessRuntime.name
    """The runtime of pods that name none."""
    oci_program: str = ""
    """The program behind the runtime ``oci``; ``crun`` or ``runc``, whichever is there, unless it is said."""
    image_store: str = ""
    """Where imported images are."""
    eviction: dict[str, str] = msgspec.field(default_factory=lambda: dict(DEFAULT_THRESHOLDS))
    """What must be left of memory, disk and processes, by signal (``eviction.SIGNALS``)."""
    pressure_seconds: float = 300.0
    """How long the node says that something is short after it no longer is."""


class NodeAgent(Reconciler[Pod]):
    """Runs the pods of one node."""

    def __init__(
        self, client: Client, settings: AgentSettings, namespaces: Sequence[str], fabric: Fabric | None = None
    ) -> None:
        """``namespaces`` are those that can be made here (``container.usable_namespaces``).

        There is a runtime ``oci`` if there is a network for it.
        """
        self._settings: Final = settings
        self._directory: Final = Path(settings.directory)
        self.containers: Final = Containers()
        self.dialer: Final = Dialer(fabric)
        self._fabric: Final = fabric
        store = ImageStore(Path(settings.image_store))
        process = ProcessRuntime(_machine(settings, namespaces), settings.images, settings.server)
        self._runtimes: Final[dict[str, PodRuntime]] = {process.name: process}
        self._paths: Final = {process.name: ServicePath(process, self.dialer)}
        if fabric is not None:
            oci = OciRuntime(find_program(settings.oci_program), store, fabric)
            self._runtimes[oci.name] = oci
            self._paths[oci.name] = ServicePath(oci, self.dialer, fabric, settings.server)
        self._cgroups: Final = Cgroups(f"{zlib.crc32(settings.directory.encode()):08x}")
        self._workers: Final[dict[str, PodWorker]] = {}
        self._addresses: Final = PodAddresses(self._directory)
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        recorder = EventBroadcaster(client, api="core", host=settings.name)
        self.manager: Final = Manager(
            client,
            cache=CacheOptions(by_kind={Pod: KindOptions(fields=f"spec.nodeName={settings.name}")}),
            recorder=recorder,
            options=ManagerOptions(watch_loop=False, graceful_shutdown_timeout=_STOP_SECONDS),
        )
        self.usage: Final = UsageWatch(self._shims)
        self.pressure: Final = NodePressure(
            settings.eviction,
            settings.pressure_seconds,
            read=lambda: read_supplies(self._directory),
            uses=lambda resource: pod_uses(resource, self._running(), self.usage),
            evict=self._evict,
            is_over=lambda pod: (
                (worker := self._workers.get(pod.metadata.uid)) is None or not worker.is_active
            ),
        )
        self.registration: Final = NodeRegistration(
            client,
            settings.name,
            self._directory,
            host=self._runtimes[settings.runtime].host,
            runtimes=(settings.runtime, *(each for each in self._runtimes if each != settings.runtime)),
            taint=settings.taint,
            images=store.images,
            pressure=self.pressure,
        )
        self._allocations: Final = Allocations(self.registration.allocatable)
        self._tools: Final = NodeTools(
            directory=self._directory,
            client=client,
            containers=self.containers,
            dialer=self.dialer,
            cgroups=self._cgroups,
            allocations=self._allocations,
            images=store,
            recorder=self.manager.recorder(NAME),
            spawn=self._spawn,
            wake=self._wake,
            allocatable=self.registration.allocatable,
            memory=self.registration.memory,
            names=lambda runtime: self._paths[runtime.name].names,
            headless=self._services_of,
            services=self._services,
        )
        self._controller: Final = self._make_controller()
        self.manager.add(self._controller)
        self.manager.add(names_controller(self._follow_names))
        self.manager.add(self.registration)
        self.manager.add(_Orphans(self))
        self.manager.add(self.usage)

    @property
    def is_ready(self) -> bool:
        """Whether the node is registered and its pods are known."""
        statistics = self.manager.statistics().controllers if self.manager.is_started else ()
        return self.registration.is_registered and bool(statistics) and all(e.is_synced for e in statistics)

    @property
    def workers(self) -> Mapping[str, PodWorker]:
        """The pods that are looked after, by uid."""
        return self._workers

    async def run(self, ends_pods: Callable[[], bool]) -> None:
        """Run until asked to stop; ``ends_pods`` is asked then whether the containers end, too."""
        for folder in await asyncio.to_thread(self._find_pods):
            await self._end_folder(folder)
        try:
            async with self.manager:
                with suppress(GracePeriodExceeded):  # what was under way is found again by the next agent
                    await self.manager.serve()
        finally:
            if ends_pods():
                await self._end_all()
            for worker in self._workers.values():
                worker.release()
            for path in self._paths.values():
                await path.close()
            if self._fabric is not None:
                await asyncio.to_thread(self._fabric.close)
            for task in tuple(self._tasks):
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)

    def request_stop(self) -> None:
        """Begin to stop."""
        self.manager.request_stop()

    async def _end_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            for folder in await asyncio.to_thread(pod_folders, self._directory):
                group.create_task(self._end_folder(folder))
        if self._fabric is not None:
            await asyncio.to_thread(self._fabric.end)
        await asyncio.to_thread(self._cgroups.remove, "")
        await asyncio.to_thread(self._cgroups.close)

    async def _end_folder(self, folder: PodFolder) -> None:
        """End a pod that no worker looks after, whatever its records say."""
        record = await asyncio.to_thread(folder.record)
        address = record.ip if record is not None else ""
        await end_folder(self.containers, self._runtimes.values(), folder, address)
        await asyncio.to_thread(self._cgroups.remove, folder.uid)
        await asyncio.to_thread(remove_tree, memory_folder(folder.uid))

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        async def supervised() -> None:
            try:
                await work
            except Exception as error:  # noqa: BLE001  supervision point: one container never ends the node
                _log.error("a task of the node failed", error, task=name)

        task = asyncio.get_running_loop().create_task(supervised(), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _find_pods(self) -> list[PodFolder]:
        """The addresses of pods that are here already, and what they have been given; returns those that
        were never set up, as far as can be known."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o711)
        unknown = []
        for folder in pod_folders(self._directory):
            record = folder.record()
            if record is None:
                unknown.append(folder)
                continue
            if record.ip:
                self._addresses.keep(folder.uid, record.ip)
            given = read_given(folder)
            if given is not None:
                self._allocations.keep(folder.uid, given)
        return unknown

    async def reconcile(self, ctx: Context[Pod]) -> Result | None:
        """Bring a pod one step on."""
        pod = ctx.obj
        worker = self._workers.get(pod.metadata.uid)
        if worker is None:
            await self._end_namesakes(ctx.key)
            if await self._has_left(pod):
                await self._let_go(pod, ctx)
                return None
            if await self._is_refused(pod, ctx):
                return None
            runtime = await self._runtime_of(pod)
            if runtime is None:
                return Requeue(after=_NO_RUNTIME_SECONDS)
            worker = self._take_on(pod, runtime, ctx.key)
        status, after = await worker.sync(pod)
        if status.phase in ("Succeeded", "Failed"):
            self._wake(self._allocations.release(worker.uid))
        await self._follow_ports(worker)
        patch = status_patch(pod, status)
        if patch is not None:
            try:
                ctx.replace(await ctx.client.status.patch(pod, patch))
            except NotFound:
                ctx.note_gone()
                return None
        if pod.metadata.is_deleting and await asyncio.to_thread(lambda: worker.has_ended):
            await self._remove(worker)
            await self._let_go(pod, ctx)
            return None
        return Requeue(after=max(0.05, min(after, _LONGEST_WAIT * 20))) if after < math.inf else None

    def _take_on(self, pod: Pod, runtime: PodRuntime, key: Key) -> PodWorker:
        address = self._addresses.take(pod, runtime)
        worker = PodWorker(self._tools, runtime, pod, address, lambda: self._controller.queue.add(key))
        self._workers[pod.metadata.uid] = worker
        return worker

    def _wake(self, uids: Iterable[str]) -> None:
        for uid in uids:
            worker = self._workers.get(uid)
            if worker is not None:
                worker.wake()

    async def _follow_ports(self, changed: PodWorker) -> None:
        """Listen for the host ports of the pods that run, after a change of one that has some."""
        containers = changed.pod.spec.containers
        if any(port.host_port for container in containers for port in container.ports):
            runtime = changed.runtime.name
            same = [
                each for each in self._workers.values() if each.runtime.name == runtime and each.is_active
            ]
            await self._paths[runtime].follow_pods([(each.pod, each.ip) for each in same])

    def _evict(self, use: PodUse, shortage: Shortage, text: str) -> bool:
        worker = self._workers.get(use.pod.metadata.uid)
        if worker is None or not worker.evict(text):
            return False
        note = f"Attempting to reclaim {SIGNALS[shortage.signal].resource}"
        node = self.registration.node
        if node is not None:
            self._tools.recorder.event(node, "Warning", "EvictionThresholdMet", "EvictionThresholdMet", note)
        return True

    async def _has_left(self, pod: Pod) -> bool:
        """Whether nothing is here any more of a pod that has ended; finalizers may keep its object."""
        if not pod.metadata.is_deleting or pod.status.phase not in ("Succeeded", "Failed"):
            return False
        return not await asyncio.to_thread(lambda: PodFolder(self._directory, pod.metadata.uid).exists)

    async def _let_go(self, pod: Pod, ctx: Context[Pod]) -> None:
        """Let the object of a pod go that has ended here; once, however long finalizers keep it."""
        if pod.metadata.deletion_grace_period_seconds != 0:
            with suppress(NotFound):
                await ctx.client.delete(pod, grace_period=0, uid=pod.metadata.uid)

    async def _is_refused(self, pod: Pod, ctx: Context[Pod]) -> bool:
        """Whether the node has no room for a pod that is new here, or is short of something that the pod
        would make worse; it has failed then."""
        folder = PodFolder(self._directory, pod.metadata.uid)
        if pod.status.phase != "Pending" or await asyncio.to_thread(lambda: folder.exists):
            return False
        refused = rejection(pod, self.pressure.conditions) or port_rejection(pod, self._active_pods)
        refused = refused or self._allocations.take_on(pod)
        if refused is None:
            return False
        self._tools.recorder.event(pod, "Warning", refused.reason, refused.reason, refused.message)
        message = f"{REJECTED}{refused.message}"
        status = {"phase": "Failed", "reason": refused.reason, "message": message}
        patch = MergePatch({"metadata": {"uid": pod.metadata.uid}, "status": status})
        with suppress(NotFound):
            await ctx.client.status.patch(pod, patch)
        return True

    def _active_pods(self) -> list[Pod]:
        return [each.pod for each in self._workers.values() if each.is_active]

    def _running(self) -> list[tuple[Pod, PodFolder]]:
        return [(each.pod, each.folder) for each in list(self._workers.values()) if each.is_active]

    async def _runtime_of(self, pod: Pod) -> PodRuntime | None:
        """How to run a pod; None, and an event, if there is no such way here."""
        record = await asyncio.to_thread(PodFolder(self._directory, pod.metadata.uid).record)
        wanted, problem = self._settings.runtime, ""
        if record is not None:
            wanted = record.runtime
        elif isinstance(pod.spec.runtime_class_name, str) and pod.spec.runtime_class_name:
            name = pod.spec.runtime_class_name
            try:
                found = await self.manager.client.get(_RUNTIME_CLASS, name)
                wanted = str(found.at("handler", default=""))
            except NotFound:
                problem = f'failed to get sandbox runtime: RuntimeClass.node.k8s.io "{name}" not found'
        runtime = None if problem else self._runtimes.get(wanted)
        if runtime is None:
            problem = (
                problem or f'no runtime for "{wanted}" is configured; there is {", ".join(self._runtimes)}'
            )
            self._tools.recorder.event(
                pod, "Warning", "FailedCreatePodSandBox", "FailedCreatePodSandBox", problem
            )
        return runtime

    async def _remove(self, worker: PodWorker) -> None:
        await worker.remove()
        self._workers.pop(worker.uid, None)
        self._addresses.release(worker.uid)
        self._wake(self._allocations.release(worker.uid))
        await self._follow_ports(worker)

    async def deleted(self, ctx: DeleteContext) -> None:
        """A pod is gone from the API: whatever still runs of it is ended."""
        await self._end_namesakes(ctx.key)

    async def _end_namesakes(self, key: Key) -> None:
        """End what is left of all pods that had this name. Only one hand works on a name at a time, so none
        of them is the one that has it now: that one is taken on afterwards."""
        for worker in list(self._workers.values()):
            metadata = worker.pod.metadata
            if (metadata.namespace, metadata.name) == (key.namespace, key.name):
                await self._remove(worker)

    async def _follow_names(self, services: list[Service], slices: list[EndpointSlice]) -> None:
        """Names and addresses have changed: hosts files and the proxies follow."""
        for path in self._paths.values():
            await path.follow(services, slices)
        active = [worker for worker in self._workers.values() if worker.is_active]

        def write() -> None:
            for worker in active:
                with suppress(FileNotFoundError):
                    worker.write_hosts()

        await asyncio.to_thread(write)

    def _services_of(self, namespace: str) -> list[Service]:
        informer = self.manager.cache.informer(Service)
        return [informer.decoder(Service).once(each) for each in informer.entries(namespace)]

    def _services(
        self, namespace: str, runtime: PodRuntime
    ) -> tuple[list[Service], Mapping[tuple[str, str], str]]:
        services = self._services_of(namespace)
        informer = self.manager.cache.informer(Service)
        master = informer.get("default", "kubernetes")
        found: Service | None = informer.decoder(Service).once(master) if master is not None else None
        return self._paths[runtime.name].visible(services, found)

    async def remove_orphans(self, known: set[str]) -> None:
        """End pods of this node that the API does not know any more."""
        for folder in await asyncio.to_thread(pod_folders, self._directory):
            if folder.uid not in known and folder.uid not in self._workers:
                await self._end_folder(folder)
                self._addresses.release(folder.uid)
                self._wake(self._allocations.release(folder.uid))

    def _shims(self) -> list[tuple[tuple[str, str], int]]:
        """Containers that run, each with the process beside it. Blocking."""
        found = []
        for worker in list(self._workers.values()):
            for name in worker.folder.containers():
                numbers = worker.folder.run_numbers(name)
                shim = worker.folder.shim_of(name, numbers[-1]) if numbers else 0
                if shim:
                    found.append(((worker.uid, name), shim))
        return found

    def _make_controller(self) -> Controller[Pod]:
        return (
            Builder(Pod, name=NAME)
            .options(
                max_concurrent_reconciles=_WORKERS,
                field_manager="kubelet",
                backoff_cap=_LONGEST_WAIT,
                need_leader_election=False,
                reconcile_timeout=None,
            )
            .build(self)
        )


class _Orphans:
    """Looks once, when the pods of the node are known, for pods that were forgotten while nobody ran."""

    name: Final = "orphaned-pods"
    needs_leader_election: Final = False

    def __init__(self, agent: NodeAgent) -> None:
        self._agent: Final = agent

    async def run(self) -> None:
        informer = await self._agent.manager.cache.synced(Pod)
        await self._agent.remove_orphans({entry.uid for entry in informer.entries()})


def _machine(settings: AgentSettings, namespaces: Sequence[str]) -> Machine:
    environment = {
        "PATH": f"{os.path.dirname(sys.executable)}:{os.environ.get('PATH', os.defpath)}",
        "HOME": os.path.expanduser("~"),
        "LANG": "C.UTF-8",
    }
    return Machine(
        namespaces=tuple(namespaces),
        uid=os.geteuid(),
        gid=os.getegid(),
        groups=tuple(os.getgroups()),
        environment=environment,
        hidden=(str(Path(settings.directory).absolute()), *settings.hidden),
        is_writable=settings.is_writable,
    )
