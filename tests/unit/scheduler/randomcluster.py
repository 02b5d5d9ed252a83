"""Random clusters: each seed gives one, always the same."""

from __future__ import annotations

import random
from typing import Any, Final

from msgspec.structs import replace

from quarterdeck.api import from_dict
from quarterdeck.api.k8s import Affinity
from quarterdeck.scheduler import Action, Settings, Snapshot
from quarterdeck.scheduler.snapshot import (
    GpuShare,
    HostPort,
    PodConstraints,
    PodInfo,
    QueueResource,
    TopologyConstraint,
)
from tests.unit.scheduler.schedulerscene import GIB, UNLIMITED, Scene, near, sub, topology


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


def bounded_cluster(seed: int) -> tuple[Snapshot, Settings]:
    """Nodes with room to spare, departments and queues at their limits, and pods that terminate."""
    chance = random.Random(seed)
    scene = Scene()
    for index in range(chance.randint(1, 3)):
        scene.node(f"n{index}", 40)
    leaves = []
    for top in range(chance.randint(1, 2)):
        limit = chance.choice([-1, 3, 4, 5, 6])
        scene.queue(f"d{top}", gpu=(chance.choice([-1, 2, 4]), limit, 1))
        for child in range(chance.randint(1, 3)):
            leaves.append(f"d{top}q{child}")
            bounds = (chance.choice([0, 1, 1, 2, 3]), chance.choice([-1, -1, 2, 3]), chance.choice([1, 1, 2]))
            scene.queue(leaves[-1], f"d{top}", bounds, priority=chance.choice([100, 100, 200]))
    room: dict[str, float] = {each.name: each.gpu.limit for each in scene.queues if each.gpu.limit >= 0}
    for number in range(chance.randint(3, 8)):
        queue, pods = chance.choice(leaves), chance.randint(1, 4)
        scene.group(
            f"g{number}",
            queue,
            chance.choice([1, pods]),
            chance.choice([50, 50, 75, 100]),
            created=float(chance.randint(0, 5)),
        )
        runs = chance.random() < 0.6
        for _ in range(pods):
            above = [name for name in (queue, queue[:2]) if name in room]
            fits = runs and all(room[name] >= 1 for name in above)
            for name in above:
                room[name] -= fits
            node = chance.choice(scene.nodes).name if fits else ""
            scene.pod(f"g{number}", node, gpu=1, is_deleted=fits and chance.random() < 0.25)
    return scene.snapshot(), Settings(use_scheduling_signatures=False)


_APPS: Final = ("web", "db", "bulk")
_MEMORY: Final = 1000
"""Of a GPU, in MiB."""


def picky_cluster(seed: int) -> tuple[Snapshot, Settings]:
    """Pods that share GPUs, want certain nodes or ports, and seek or avoid each other; most of them wait."""
    chance = random.Random(seed)
    scene = Scene()
    by_memory = chance.random() < 0.5
    for index in range(chance.randint(1, 4)):
        scene.node(
            f"n{index}",
            chance.choice([1, 2, 2, 4]),
            cpu=chance.choice([4, 64]),
            labels={"host": f"n{index}", "zone": f"z{index % 2}"},
            gpu_memory=_MEMORY if by_memory or chance.random() < 0.3 else 0,
        )
    leaves = _random_queues(scene, chance)
    for number in range(chance.randint(2, 7)):
        _picky_group(scene, chance, f"g{number}", chance.choice(leaves), by_memory)
    _settle_shares(scene, chance)
    settings = Settings(
        use_scheduling_signatures=False,
        max_consolidation_preemptees=chance.choice([-1, -1, 16]),
        gpu_placement=chance.choice(["binpack", "binpack", "spread"]),
    )
    return scene.snapshot(), settings


def _picky_group(scene: Scene, chance: random.Random, name: str, queue: str, by_memory: bool) -> None:
    pods = chance.randint(1, 4)
    scene.group(
        name,
        queue,
        chance.randint(1, pods),
        chance.choice([50, 50, 75, 100]),
        created=float(chance.randint(0, 5)),
    )
    share = _random_share(chance, by_memory)
    gpu = 0 if share is not None else chance.choice([0, 1, 1, 2])
    constraints = _random_constraints(scene, chance)
    runs = chance.random() < 0.4
    for _ in range(pods):
        scene.pod(
            name,
            "?" if runs and chance.random() < 0.9 else "",
            gpu=gpu,
            gpu_share=share if chance.random() < 0.9 else None,
            constraints=constraints,
            labels={"app": chance.choice(_APPS)},
        )


def _random_share(chance: random.Random, by_memory: bool) -> GpuShare | None:
    if chance.random() < 0.4:
        return None
    devices = chance.choice([1, 1, 1, 2])
    if by_memory:
        return GpuShare(0, chance.choice([200, 300, 500, 800]), devices)
    return GpuShare(chance.choice([0.25, 0.3, 0.5, 0.75]), 0, devices)


def _random_constraints(scene: Scene, chance: random.Random) -> PodConstraints:
    more: dict[str, Any] = {}
    if chance.random() < 0.2:
        more["node_selector"] = (("host", chance.choice(scene.nodes).name),)
    if chance.random() < 0.15:
        more["host_ports"] = (HostPort(chance.choice([80, 443])),)
    if chance.random() < 0.35:
        term = {
            "topologyKey": chance.choice(["host", "zone"]),
            "labelSelector": {"matchLabels": {"app": chance.choice(_APPS)}},
        }
        kind = chance.choice(["podAffinity", "podAntiAffinity", "podAntiAffinity"])
        found = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        more["affinity"] = from_dict(found, Affinity)
    return PodConstraints(**more) if more else PodConstraints()


def _settle_shares(scene: Scene, chance: random.Random) -> None:
    """Give the pods that are to run a node where nothing speaks against them; the others wait."""
    placed: list[PodInfo] = []
    for index, pod in enumerate(scene.pods):
        if pod.node != "?":
            continue
        nodes = [node.name for node in scene.nodes]
        chance.shuffle(nodes)
        waiting = replace(pod, node="", phase="Pending")
        found = next((p for name in nodes if (p := _on_node(scene, placed, waiting, name))), None)
        scene.pods[index] = found or waiting
        if found is not None:
            placed.append(found)
    scene.pods = [pod if pod.node != "?" else replace(pod, node="", phase="Pending") for pod in scene.pods]


def _on_node(scene: Scene, placed: list[PodInfo], pod: PodInfo, name: str) -> PodInfo | None:
    """The pod running on a node: with whole GPUs and shares of its own, and nobody who minds."""
    node = next(each for each in scene.nodes if each.name == name)
    here = [each for each in placed if each.node == name]
    constraints = pod.constraints
    if constraints.affinity is not None or any(each.constraints.affinity for each in placed):
        return None
    if constraints.node_selector and constraints.node_selector != (("host", name),):
        return None
    if constraints.host_ports and any(each.constraints.host_ports for each in here):
        return None
    devices = pod.gpu_share.devices if pod.gpu_share is not None else 0
    used = sum(each.request.gpu + len(each.gpu_groups) for each in here)
    cpu = sum(each.request.cpu for each in here)
    if used + pod.request.gpu + devices > node.allocatable.gpu or cpu + 1000 > node.allocatable.cpu:
        return None
    if pod.gpu_share is not None and pod.gpu_share.memory > node.gpu_memory:
        return None
    groups = tuple(f"{pod.name}/{device}" for device in range(devices))
    return replace(pod, node=name, phase="Running", gpu_groups=groups)
