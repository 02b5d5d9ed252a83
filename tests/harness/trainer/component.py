"""The controllers that run during a trainer case, each as if it were a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import Node
from quarterdeck.client import Client
from quarterdeck.cluster import garbage
from quarterdeck.cluster.garbage import garbage_collector
from quarterdeck.cluster.job.controller import job_controller
from quarterdeck.cluster.job.orphan import orphan_pod_controller
from quarterdeck.cluster.monitor import ResourceMonitor
from quarterdeck.cluster.node import names as node_names
from quarterdeck.cluster.node.behavior import Behavior
from quarterdeck.cluster.node.kubelet import Kubelet
from quarterdeck.cluster.placement import controller as placement
from quarterdeck.operators.jobset.controllers import jobset_controller
from quarterdeck.operators.trainer.assembly import TrainerOperator
from quarterdeck.runtime.cache import CacheOptions
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.manager.option import ManagerOptions
from quarterdeck.runtime.operator import OperatorEnvironment
from quarterdeck.testing import Link, ManagerRun, TestCluster
from tests.harness.words import words

Json = dict[str, Any]

NODE: Final = "case-node"
GARBAGE_COLLECTOR: Final = "garbage-collector"
_BEHAVIOR: Final = {
    "podRunSeconds": "run_seconds",
    "podRunSecondsByJob": "run_seconds_by_job",
    "exitCode": "exit_code",
    "exitCodeByJob": "exit_code_by_job",
    "failFirstAttempts": "fail_first_attempts",
}
SIMULATOR: Final = words(*_BEHAVIOR)


class Component:
    """A manager on a link of its own; it can be stopped and started anew, and the link held."""

    def __init__(
        self,
        name: str,
        cluster: TestCluster,
        link: Link,
        namespaces: Iterable[str],
        fill: Callable[[Manager], None],
    ) -> None:
        self.name: Final = name
        self.link: Final = link
        self._cluster: Final = cluster
        self._cache: Final = CacheOptions(namespaces=tuple(namespaces))
        self._fill: Final = fill
        self._run: ManagerRun | None = None

    async def start(self) -> None:
        """Run a fresh manager; returns when all its controllers have seen everything."""
        options = ManagerOptions(watch_loop=False, graceful_shutdown_timeout=5.0)
        manager = Manager(self.link.client, cache=self._cache, options=options, clock=self._cluster.clock)
        self._fill(manager)
        self._run = ManagerRun(manager, name=self.name)
        await self._run.start()

    async def stop(self) -> None:
        """End the manager as a process that is told to; raises what ended it before that."""
        self.link.release()
        if self._run is not None:
            await self._run.stop()


def fill_trainer(settings: Json) -> Callable[[Manager], None]:
    """The operator; its webhooks are served elsewhere."""

    def fill(manager: Manager) -> None:
        TrainerOperator().setup(manager, OperatorEnvironment(name="trainer", settings=settings))

    return fill


def fill_garbage_collector(manager: Manager) -> None:
    """What follows owner references."""
    monitor = ResourceMonitor(manager.client.mapper)
    manager.add(garbage_collector(monitor, manager.client.mapper, manager.recorder(garbage.NAME)))


def fill_jobset(manager: Manager) -> None:
    """JobSets into Jobs."""
    manager.add(jobset_controller())


def fill_job(manager: Manager) -> None:
    """Jobs into pods."""
    manager.add(job_controller())
    manager.add(orphan_pod_controller())


def fill_simulator(behavior: Behavior) -> Callable[[Manager], None]:
    """Pods run, on a node that takes all of them."""

    def fill(manager: Manager) -> None:
        manager.add(Kubelet(behavior).controller())
        everything = placement.SchedulerSettings(names=(), checks_nodes=False)
        manager.add(placement.scheduler_controller(everything, manager.recorder(placement.NAME)))

    return fill


async def make_node(client: Client) -> None:
    """The node of the simulator."""
    labels = {node_names.SIMULATED: "true", "kubernetes.io/hostname": NODE}
    node = await client.create(Node(metadata=ObjectMeta(name=NODE, labels=labels)))
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    await client.status.update(Node.from_dict({**node.to_dict(), "status": {"conditions": [ready]}}))


def behavior_of(simulator: Json) -> Behavior:
    """How pods behave, as a case says it in the words of ``SIMULATOR``."""
    known = {_BEHAVIOR[key]: value for key, value in simulator.items()}
    if "run_seconds" in known:
        known["run_seconds"] = float(known["run_seconds"])
    return Behavior(**known)
