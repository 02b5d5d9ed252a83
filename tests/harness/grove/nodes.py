"""The machines of a grove case: nodes that hold a number of pods, the KAI scheduler, a kubelet.

The scheduler gets its turns from the case, so that it is known when it has nothing left to do.
"""

from __future__ import annotations

from typing import Any, Final

from quarterdeck.cluster.node import names as node_names
from quarterdeck.cluster.node.kubelet import Kubelet
from quarterdeck.operators.grove.initc.simulated import StartupGate
from quarterdeck.operators.kai.assembly import metrics_of, set_up
from quarterdeck.operators.kai.controllers import SchedulingCycle
from quarterdeck.operators.kai.settings import KaiSettings
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.testing import ManagerRun
from tests.harness.case import CaseFailure

from .caseobjects import CaseObjects

__all__ = ["Machines"]

Json = dict[str, Any]

_PARENT: Final = "case-parent"
_FOR_EVER: Final = -1.0
_LIMITLESS: Final = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
_ALL: Final = {"cpu": _LIMITLESS, "memory": _LIMITLESS, "gpu": _LIMITLESS}


class Machines:
    """Nodes, and what works on them, for the time of a case."""

    def __init__(self, objects: CaseObjects, given: Json, queues: set[str]) -> None:
        """``queues`` are the names of queues that the case mentions."""
        self._objects: Final = objects
        self._queues: Final = queues
        nodes = given.get("nodes") or {}
        scheduler, kubelet = given.get("scheduler", "none"), given.get("kubelet", "none")
        self._total: Final[int] = nodes.get("total", 0)
        self._capacity: Final[int] = nodes.get("podsPerNode", 110)
        self._labels: Final[list[Json]] = nodes.get("labels") or []
        self._has_scheduler: Final = scheduler == "kai"
        self._has_kubelet: Final = kubelet == "ready"
        self._cycle: SchedulingCycle | None = None
        self.manager: Manager | None = None
        """Scheduler and kubelet; nothing if there is neither."""
        self._run: ManagerRun | None = None

    async def start(self) -> None:
        """Make the nodes and start what works on them."""
        for number in range(self._total):
            await self._make_node(number)
        if not self._has_scheduler and not self._has_kubelet:
            return
        manager = self._objects.server.cluster.manager(metrics=RuntimeMetrics())
        if self._has_scheduler:
            await self._make_queues()
            # A gang below its minimum is Grove's affair in these cases.
            settings = KaiSettings(install_defaults=False, default_staleness_grace_period=_FOR_EVER)
            self._cycle = set_up(manager, settings, metrics_of(manager))
        if self._has_kubelet:
            manager.add(Kubelet(init_gate=StartupGate(manager.cache)).controller())
        self.manager = manager
        self._run = ManagerRun(manager, name="machines")
        await self._run.start()

    async def stop(self) -> None:
        """Stop what works."""
        if self._run is not None:
            await self._run.stop()

    async def _make_node(self, number: int) -> None:
        name = f"node-{number}"
        capacity = {"pods": str(self._capacity), "cpu": "1000", "memory": "4Ti", "ephemeral-storage": "4Ti"}
        labels = self._labels[number] if number < len(self._labels) else {}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "simulated"}
        made = await self._objects.make(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": name,
                    "labels": {
                        "kubernetes.io/hostname": name,
                        node_names.SIMULATED: "true",
                        **labels,
                    },
                },
            }
        )
        if made["spec"].get("taints"):
            await self._objects.patch("Node", name, {"spec": {"taints": None}})
        status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}
        await self._objects.patch("Node", name, {"status": status}, part="status")

    async def _make_queues(self) -> None:
        await self._make_queue(_PARENT)
        for name in sorted(self._queues):
            await self._make_queue(name, _PARENT)

    async def _make_queue(self, name: str, parent: str = "") -> None:
        spec: Json = {"resources": _ALL, **({"parentQueue": parent} if parent else {})}
        metadata = {"name": name}
        await self._objects.make(
            {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": metadata, "spec": spec}
        )

    async def schedule(self) -> bool:
        """Give the scheduler a turn; returns whether it did anything."""
        if self._cycle is None:
            return False
        before = await self._objects.version()
        await self._cycle.run_once()
        return await self._objects.version() != before

    async def set_schedulable(self, count: int) -> None:
        """Cordon nodes, or take that back, so that just so many can take pods."""
        if count > self._total:
            raise CaseFailure(f"there are {self._total} nodes, {count} cannot be schedulable")
        for number in range(self._total):
            await self.cordon(f"node-{number}", is_cordoned=number >= count)

    async def cordon(self, node: str, *, is_cordoned: bool = True) -> None:
        """Let a node take no more pods, or take pods again; those on it stay."""
        await self._objects.patch("Node", node, {"spec": {"unschedulable": True if is_cordoned else None}})

    async def uncordon_all(self) -> None:
        """Let all nodes take pods."""
        await self.set_schedulable(self._total)
