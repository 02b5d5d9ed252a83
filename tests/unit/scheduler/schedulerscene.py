"""Small clusters for tests of the scheduler, in few words."""

from __future__ import annotations

import random
from typing import Any

from quarterdeck.api import Key
from quarterdeck.scheduler import Action, CycleResult, Settings, Snapshot, schedule
from quarterdeck.scheduler.decision import Decision, Evict, Unschedulable
from quarterdeck.scheduler.model.cluster import Cluster
from quarterdeck.scheduler.model.resource import Resources
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


# -- random clusters ---------------------------------------------------------------------------------------


def random_cluster(seed: int) -> tuple[Snapshot, Settings]:
    """Anything goes: sizes, gangs, subgroups, topologies, priorities, quotas, pods that terminate."""
    chance = random.Random(seed)
    scene = Scene()
    scene.extra = topology("zone", "rack")
    _random_nodes(scene, chance)
    leaves = _random_queues(scene, chance)
    for number in range(chance.randint(2, 9)):
        _random_group(scene, chance, f"g{number}", leaves)
    actions = chance.choice([tuple(Action)] * 3 + [(each,) for each in Action])
    settings = Settings(
        actions=actions,
        use_scheduling_signatures=False,
        staleness_grace_period=chance.choice([60, -1, 50_000]),
        max_consolidation_preemptees=chance.choice([-1, 16, 2]),
    )
    return scene.snapshot(), settings


def _random_nodes(scene: Scene, chance: random.Random) -> None:
    for index in range(chance.randint(2, 6)):
        labels = {"zone": f"z{index % 2}", "rack": f"r{index % 3}"} if chance.random() < 0.9 else {}
        scene.node(
            f"n{index}",
            chance.choice([0, 1, 2, 4, 8]),
            cpu=chance.choice([4, 8, 64]),
            memory=chance.choice([8, 64]),
            pods=chance.choice([3, 110, 110]),
            labels=labels,
        )


def _random_queues(scene: Scene, chance: random.Random) -> list[str]:
    total = sum(node.allocatable.gpu for node in scene.nodes)
    leaves = []

    def cpu() -> QueueResource:
        bounds = [UNLIMITED] * 4 + [QueueResource(4000, -1, 1), QueueResource(0, -1, 0)]
        return chance.choice([*bounds, QueueResource(2000, 20000, 1)])

    for top in range(chance.randint(1, 3)):
        quota = chance.choice([-1, total, total // 2])
        scene.queue(
            f"d{top}",
            gpu=(quota, chance.choice([-1, -1, total]), 1),
            created=float(chance.randint(0, 2)),
            priority=chance.choice([100, 100, 200]),
            cpu=cpu(),
        )
        children = chance.randint(0, 3)
        if not children:
            leaves.append(f"d{top}")
        for child in range(children):
            name = f"d{top}q{child}"
            bounds = (
                chance.choice([-1, 0, 1, 2, 3, total // 2]),
                chance.choice([-1, -1, -1, total // 2 + 1, total]),
                chance.choice([0, 1, 1, 2]),
            )
            scene.queue(
                name,
                f"d{top}",
                bounds,
                created=float(chance.randint(0, 2)),
                priority=chance.choice([100, 100, 100, 200]),
                cpu=cpu(),
            )
            leaves.append(name)
            if chance.random() < 0.15:
                scene.queue(f"{name}x", name, bounds)
                leaves[-1] = f"{name}x"
    return leaves


def _random_constraint(chance: random.Random, likely: float) -> TopologyConstraint | None:
    if chance.random() > likely:
        return None
    required, preferred = chance.choice(
        [("zone", ""), ("rack", ""), ("", "rack"), ("zone", "rack"), ("", "zone")]
    )
    return near(required, preferred)


def _random_group(scene: Scene, chance: random.Random, name: str, leaves: list[str]) -> None:
    names, subgroups = [""], []
    if chance.random() < 0.3:
        names = ["a", "b"][: chance.randint(1, 2)]
        for each in names:
            parent = "s" if chance.random() < 0.3 else None
            constraint = _random_constraint(chance, 0.2)
            subgroups.append(sub(each, chance.randint(1, 2), parent, topology_constraint=constraint))
        if any(each.parent for each in subgroups):
            subgroups.append(sub("s", topology_constraint=_random_constraint(chance, 0.3)))
    scene.group(
        name,
        chance.choice(leaves),
        chance.randint(1, 3),
        chance.choice([50, 50, 75, 100, 125]),
        created=float(chance.randint(0, 5)),
        preemptibility=chance.choice(["", "", "", "preemptible", "non-preemptible"]),
        subgroups=tuple(subgroups),
        topology_constraint=_random_constraint(chance, 0.2) or TopologyConstraint(),
        stale_since=chance.choice([None, None, 0.0]),
    )
    gpu, runs = chance.choice([0, 1, 1, 1, 2, 2, 4]), chance.random() < 0.55
    for _ in range(chance.randint(1, 5)):
        size = gpu if chance.random() < 0.85 else chance.choice([0, 1, 2])
        cpu, memory = chance.choice([0, 1, 1, 2]), chance.choice([0, 1, 4])
        node = _random_place(scene, chance, (cpu, memory, size)) if runs and chance.random() < 0.9 else ""
        scene.pod(
            name,
            node,
            gpu=size,
            cpu=cpu,
            memory=memory,
            subgroup=chance.choice(names),
            is_deleted=bool(node) and chance.random() < 0.1,
            is_gated=not node and chance.random() < 0.05,
            labels={"kai.scheduler/task-priority": str(chance.randint(0, 2))}
            if chance.random() < 0.2
            else {},
        )


def _random_place(scene: Scene, chance: random.Random, need: tuple[int, int, int]) -> str:
    fitting = []
    for node in scene.nodes:
        there = [pod.request for pod in scene.pods if pod.node == node.name]
        left = (
            node.allocatable.cpu - sum(each.cpu for each in there) - need[0] * 1000,
            node.allocatable.memory - sum(each.memory for each in there) - need[1] * GIB,
            node.allocatable.gpu - sum(each.gpu for each in there) - need[2],
            node.pods - len(there) - 1,
        )
        if min(left) >= 0:
            fitting.append(node.name)
    return chance.choice(fitting) if fitting else ""


def uniform_cluster(seed: int) -> tuple[Snapshot, Settings]:
    """A full cluster of equal nodes and equal pods: what most searches for victims look like."""
    chance = random.Random(seed)
    scene = Scene()
    size = chance.choice([2, 4])
    count = chance.randint(2, 5)
    for index in range(count):
        scene.node(f"n{index}", size)
    leaves = []
    for top in range(chance.randint(1, 2)):
        scene.queue(f"d{top}", gpu=(chance.choice([-1, size * count // 2]), -1, 1))
        for child in range(chance.randint(1, 3)):
            leaves.append(f"d{top}q{child}")
            bounds = (
                chance.choice([0, 1, 2, 3]),
                chance.choice([-1, -1, size * count - 1]),
                chance.choice([1, 2, 0]),
            )
            scene.queue(leaves[-1], f"d{top}", bounds, priority=chance.choice([100, 100, 200]))
    slots = [f"n{index}" for index in range(count) for _ in range(size)]
    if chance.random() < 0.5:
        chance.shuffle(slots)
    for number in range(chance.randint(3, 8)):
        pods = chance.randint(1, 4)
        gpu = chance.choice([1] * 9 + [2])
        least = chance.choice([pods, pods, max(1, pods - 1), 1])
        scene.group(
            f"g{number}",
            chance.choice(leaves),
            least,
            chance.choice([50, 50, 75, 125]),
            created=float(chance.randint(0, 5)),
        )
        runs = gpu == 1 and chance.random() < 0.65
        for _ in range(pods):
            scene.pod(f"g{number}", slots.pop(0) if runs and slots else "", gpu=gpu)
    actions = chance.choice(
        [tuple(Action)] * 3 + [(Action.CONSOLIDATION,), (Action.RECLAIM,), (Action.PREEMPT,)]
    )
    return scene.snapshot(), Settings(actions=actions, use_scheduling_signatures=False)
