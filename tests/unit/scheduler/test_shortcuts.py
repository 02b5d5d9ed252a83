"""What only saves time changes nothing: cycles with and without it end alike."""

import random
from collections.abc import Callable

import pytest

from quarterdeck.scheduler import Action, Settings, Snapshot, schedule
from quarterdeck.scheduler.snapshot import GpuShare
from quarterdeck.scheduler.victim import forecast, protection, reclaim, victimorder
from quarterdeck.scheduler.victim import gpucount as room
from tests.unit.scheduler.randomcluster import random_cluster, uniform_cluster

from .schedulerscene import Scene


def fraction_cluster(seed: int) -> tuple[Snapshot, Settings]:
    """Whole and shared GPUs, requests by memory, pods that terminate, on nodes that are nearly full."""
    chance = random.Random(seed)
    scene = Scene()
    nodes = [f"n{index}" for index in range(chance.randint(1, 3))]
    for name in nodes:
        scene.node(name, chance.choice([1, 2, 3]), gpu_memory=chance.choice([0, 10_000, 40_000]))
    leaves = []
    for index in range(chance.randint(1, 3)):
        leaves.append(f"q{index}")
        bounds = (chance.choice([0, 0.5, 1, 2]), chance.choice([-1, -1, 2.5]), 1)
        scene.queue(leaves[-1], gpu=bounds)
    free = {node.name: [1.0] * int(node.allocatable.gpu) for node in scene.nodes}
    for number in range(chance.randint(3, 8)):
        pods = chance.randint(1, 3)
        scene.group(
            f"g{number}",
            chance.choice(leaves),
            chance.randint(1, pods),
            chance.choice([50, 75, 125]),
            created=float(chance.randint(0, 3)),
        )
        for _ in range(pods):
            _fraction_pod(scene, chance, f"g{number}", free)
    actions = chance.choice([tuple(Action)] * 2 + [(each,) for each in Action])
    return scene.snapshot(), Settings(actions=actions, use_scheduling_signatures=False)


def _fraction_pod(scene: Scene, chance: random.Random, group: str, free: dict[str, list[float]]) -> None:
    portion = chance.choice([0.25, 0.5, 0.6, 1.0])
    node, device = "", -1
    if chance.random() < 0.6:
        places = [
            (name, index) for name in sorted(free) for index, left in enumerate(free[name]) if left >= portion
        ]
        if places:
            node, device = chance.choice(places)
            free[node][device] -= portion
    more = {"is_deleted": bool(node) and chance.random() < 0.15}
    if portion == 1.0:
        scene.pod(group, node, gpu=1, **more)
    elif not node and chance.random() < 0.3:
        scene.pod(group, gpu_share=GpuShare(memory=chance.choice([2_500, 5_000, 8_000])))
    else:
        share = GpuShare(portion, 0, 1 if node else chance.choice([1, 1, 2]))
        groups = (f"{node}-{device}",) if node else ()
        scene.pod(group, node, gpu_share=share, gpu_groups=groups, **more)


def without_shortcuts(patch: pytest.MonkeyPatch) -> None:
    """Look at every scenario."""
    patch.setattr(room.GpuCount, "lacks", lambda *_: 0.0)
    patch.setattr(room.GpusAfter, "has_slots", lambda *_: True)
    patch.setattr(room.GpusAfter, "may_help", lambda *_: True)
    patch.setattr(
        victimorder.VictimOrder,
        "without",
        lambda self, chosen: self._ordered({task for step in chosen for task in step.tasks}),
    )
    patch.setattr(forecast.Forecast, "of", lambda *_: forecast.Prospect(False))
    for rules in (reclaim.ReclaimRules, protection.ConsolidationRules, protection.PreemptionRules):
        patch.setattr(rules, "may_allow", lambda *_: True)


@pytest.mark.parametrize("make", [fraction_cluster, random_cluster, uniform_cluster])
@pytest.mark.parametrize("start", range(0, 100, 25))
def test_scenarios_that_are_passed_over_were_hopeless(
    make: Callable[[int], tuple[Snapshot, Settings]], start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters = [make(seed) for seed in range(start, start + 25)]
    quick = [schedule(*each) for each in clusters]
    without_shortcuts(monkeypatch)
    for seed, (cluster, result) in enumerate(zip(clusters, quick, strict=True), start):
        assert schedule(*cluster) == result, seed
