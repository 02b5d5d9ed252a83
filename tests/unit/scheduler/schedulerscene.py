"""Small clusters for tests of the scheduler, in few words."""

from __future__ import annotations

from typing import Any

from quarterdeck.api import Key
from quarterdeck.scheduler import Action, CycleResult, Settings, Snapshot, schedule
from quarterdeck.scheduler.decision import Decision, Evict, Unschedulable
from quarterdeck.scheduler.model.cluster import Cluster
from quarterdeck.scheduler.resource import Resources
from quarterdeck.scheduler.snapshot import (
    NodeInfo,
    PodGroupInfo,
    PodInfo,
    PriorityClassInfo,
    QueueInfo,
    QueueResource,
    SubGroupInfo,
    TopologyConstraint,
    TopologyInfo,
)

NOW = 10_000.0
NS = "team"
UNLIMITED = QueueResource(-1, -1, 1)
GIB = 1 << 30
ALL = Settings(use_scheduling_signatures=False)
ALLOCATE = Settings(actions=(Action.ALLOCATE,))


def only(*actions: Action, **more: Any) -> Settings:
    """Settings for some actions."""
    return Settings(actions=actions, use_scheduling_signatures=False, **more)


class Scene:
    """A cluster in the making; everything has sensible defaults."""

    def __init__(self) -> None:
        self.nodes: list[NodeInfo] = []
        self.queues: list[QueueInfo] = []
        self.groups: list[PodGroupInfo] = []
        self.pods: list[PodInfo] = []
        self.extra: dict[str, Any] = {}

    def node(self, name: str, gpu: float = 0, *, cpu: int = 64, memory: int = 64, **more: Any) -> Scene:
        """A node; CPU in cores, memory in GiB."""
        self.nodes.append(NodeInfo(name=name, allocatable=Resources(cpu * 1000, memory * GIB, gpu), **more))
        return self

    def queue(
        self, name: str, parent: str = "", gpu: tuple[float, float, float] = (-1, -1, 1), **more: Any
    ) -> Scene:
        """A queue with quota, limit and weight of GPUs; CPU and memory are unlimited unless given."""
        fields = {"cpu": UNLIMITED, "memory": UNLIMITED, "created": float(len(self.queues)), **more}
        self.queues.append(QueueInfo(name=name, parent=parent, gpu=QueueResource(*gpu), **fields))
        return self

    def group(self, name: str, queue: str = "q", least: int = 1, priority: int = 50, **more: Any) -> Scene:
        """A pod group; earlier ones are older."""
        fields = {"created": float(len(self.groups)), **more}
        self.groups.append(
            PodGroupInfo(
                namespace=NS,
                name=name,
                queue=queue,
                min_member=least,
                priority_class_name=f"p{priority}",
                **fields,
            )
        )
        return self

    def pod(
        self, group: str, node: str = "", *, gpu: float = 0, cpu: int = 1, memory: int = 1, **more: Any
    ) -> Scene:
        """A pod of a group, running if it has a node."""
        number = sum(pod.pod_group == group for pod in self.pods)
        name = more.pop("name", f"{group}-{number}")
        scalars = more.pop("scalars", ())
        fields = {"phase": "Running" if node else "Pending", **more}
        self.pods.append(
            PodInfo(
                namespace=NS,
                name=name,
                uid=name,
                pod_group=group,
                node=node,
                request=Resources(cpu * 1000, memory * GIB, gpu, scalars),
                **fields,
            )
        )
        return self

    def job(
        self,
        name: str,
        queue: str = "q",
        *nodes: str,
        gpu: float = 0,
        least: int | None = None,
        priority: int = 50,
        waiting: int = 0,
        **more: Any,
    ) -> Scene:
        """A group with a running pod on each of some nodes, and so many that wait."""
        self.group(name, queue, len(nodes) + waiting if least is None else least, priority, **more)
        for node in (*nodes, *[""] * waiting):
            self.pod(name, node, gpu=gpu)
        return self

    def snapshot(self) -> Snapshot:
        """What the scheduler sees."""
        return Snapshot(
            now=NOW,
            nodes=tuple(self.nodes),
            pods=tuple(self.pods),
            pod_groups=tuple(self.groups),
            queues=tuple(self.queues),
            priority_classes=tuple(
                PriorityClassInfo(name=f"p{value}", value=value) for value in (40, 50, 75, 100, 125)
            ),
            **self.extra,
        )

    def cluster(self, settings: Settings = ALL) -> Cluster:
        """The cluster in memory."""
        return Cluster(self.snapshot(), settings)

    def run(self, settings: Settings = ALL) -> Outcome:
        """One cycle."""
        return Outcome(schedule(self.snapshot(), settings))


class Outcome:
    """What came of a cycle."""

    def __init__(self, result: CycleResult) -> None:
        self.result = result
        self.decisions = result.decisions

    def __getitem__(self, pod: str) -> tuple[str, str]:
        each = self.result.pods[Key(NS, pod)]
        return each.state.value, each.node

    def states(self, group: str) -> list[str]:
        """The states of the pods of a group, by name."""
        return [
            each.state.value
            for key, each in sorted(self.result.pods.items())
            if key.name.rpartition("-")[0] == group
        ]

    def of(self, kind: type[Decision]) -> list[Any]:
        """The decisions of one kind."""
        return [each for each in self.decisions if isinstance(each, kind)]

    def evicted(self) -> list[str]:
        """Names of evicted pods, sorted."""
        return sorted(each.pod.name for each in self.of(Evict))

    def unschedulable(self, group: str) -> Unschedulable:
        """The report about a group."""
        (found,) = [each for each in self.of(Unschedulable) if each.pod_group.name == group]
        assert isinstance(found, Unschedulable)
        return found

    def message(self, group: str) -> str:
        """The message about a group."""
        return self.unschedulable(group).message


def topology(*levels: str) -> dict[str, Any]:
    """The topology named t."""
    return {"topologies": (TopologyInfo(name="t", levels=levels),)}


def near(required: str = "", preferred: str = "") -> TopologyConstraint:
    """A constraint on the topology named t."""
    return TopologyConstraint(topology="t", required_level=required, preferred_level=preferred)


def sub(name: str, least: int = 0, parent: str | None = None, **more: Any) -> SubGroupInfo:
    """A subgroup."""
    return SubGroupInfo(name=name, min_member=least, parent=parent, **more)


def gpu_node(count: int = 8) -> Scene:
    """One node with GPUs and one queue without bounds."""
    return Scene().node("n0", count).queue("q")
