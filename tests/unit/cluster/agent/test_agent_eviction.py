"""Who has to go when the machine runs short."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quarterdeck.api.k8s import Pod
from quarterdeck.cluster.agent.machine.eviction import (
    DEFAULT_THRESHOLDS,
    SIGNALS,
    PodUse,
    Shortage,
    Supply,
    eviction_text,
    first_to_go,
    is_threshold,
    rejection,
    shortages,
    storage_excess,
)
from quarterdeck.cluster.agent.machine.machine import read_supplies
from quarterdeck.cluster.agent.machine.pressure import NodePressure
from quarterdeck.cluster.agent.machine.storage import pod_files, storage_problem
from quarterdeck.cluster.agent.record.folder import PodFolder

from .podkit import pod

GIB = 1 << 30


def asking(name: str, memory: str = "", *, priority: int = 0, resource: str = "memory", **spec: Any) -> Pod:
    requests = {resource: memory} if memory else {}
    made = pod(
        containers=[{"name": "main", "image": "i", "resources": {"requests": requests}}],
        priority=priority,
        **spec,
    )
    return made.evolve(metadata=made.metadata.evolve(name=name, uid=name))


def use(made: Pod, amount: int) -> PodUse:
    return PodUse(made, {"main": amount})


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("100Mi", True),
        ("5%", True),
        ("100%", True),
        ("101%", False),
        ("much", False),
        ("-1", False),
        ("", False),
    ],
)
def test_thresholds_are_quantities_or_shares(text: str, is_one: bool) -> None:
    assert is_threshold(text) is is_one


def test_what_is_below_its_threshold_is_short() -> None:
    supplies = {
        "memory.available": Supply(99 << 20, 8 * GIB),
        "nodefs.available": Supply(6 * GIB, 100 * GIB),
        "pid.available": Supply(100, 32768),
    }
    short = shortages(DEFAULT_THRESHOLDS, supplies)
    assert short == [
        Shortage("memory.available", 100 << 20, 99 << 20),
        Shortage("pid.available", 32768 // 20, 100),
    ]
    assert shortages({"memory.available": "0"}, supplies) == []


def test_the_machine_has_all_that_can_run_short(tmp_path: Path) -> None:
    found = read_supplies(tmp_path)
    assert found.keys() - {"nodefs.inodesFree"} == SIGNALS.keys() - {"nodefs.inodesFree"}
    assert all(0 < supply.available <= supply.capacity for supply in found.values())


@pytest.mark.parametrize(
    ("resource", "uses", "first"),
    [
        # beyond its requests goes before within, however large
        ("memory", [use(asking("large", "4Gi"), 3 * GIB), use(asking("small", "1Mi"), 2 << 20)], "small"),
        # then the less important
        ("memory", [use(asking("worthy", priority=9), 2 * GIB), use(asking("idle"), GIB)], "idle"),
        # then the larger excess
        ("memory", [use(asking("a", "2Gi"), 3 * GIB), use(asking("b"), 2 * GIB)], "b"),
        # processes cannot be requested
        (
            "pids",
            [use(asking("few"), 2), use(asking("many"), 3000), use(asking("dear", priority=1), 4000)],
            "many",
        ),
        # the system's own stay
        ("memory", [use(asking("system", priority=2_000_001_000), GIB), use(asking("job"), 1)], "job"),
    ],
)
def test_who_goes_first(resource: str, uses: list[PodUse], first: str) -> None:
    found = first_to_go(resource, uses)
    assert found is not None
    assert found.pod.metadata.name == first


def test_nobody_goes_where_all_are_critical() -> None:
    assert first_to_go("memory", [use(asking("system", priority=2_000_001_000), GIB)]) is None


def test_the_reason_is_told_in_a_kubelets_words() -> None:
    short = Shortage("memory.available", 100 << 20, 50 << 20)
    assert eviction_text(short, use(asking("hog", "10Mi"), 64 << 20)) == (
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. "
        "Container main was using 64Mi, request is 10Mi, has larger consumption of memory. "
    )
    short = Shortage("pid.available", 1638, 100)
    assert eviction_text(short, use(asking("forks"), 3000)) == (
        "The node was low on resource: pids. Threshold quantity: 1638, available: 100. "
    )


@pytest.mark.parametrize(
    ("conditions", "quality", "is_refused"),
    [
        ((), "BestEffort", False),
        (("MemoryPressure",), "BestEffort", True),
        (("MemoryPressure",), "Burstable", False),
        (("DiskPressure",), "Burstable", True),
        (("MemoryPressure", "PIDPressure"), "Guaranteed", True),
    ],
)
def test_pods_that_make_it_worse_are_not_taken(
    conditions: tuple[str, ...], quality: str, is_refused: bool
) -> None:
    made = asking("new")
    made = made.evolve(status=made.status.evolve(qos_class=quality))
    refused = rejection(made, conditions)
    assert bool(refused) is is_refused
    if refused:
        assert refused == ("Evicted", f"The node had condition: [{' '.join(conditions)}]. ")
    system = asking("system", priority=2_000_001_000)
    assert rejection(system, conditions) is None


def test_who_tolerates_a_shortage_of_memory_is_taken() -> None:
    tolerations = [{"key": "node.kubernetes.io/memory-pressure", "operator": "Exists"}]
    made = asking("brave", tolerations=tolerations)
    made = made.evolve(status=made.status.evolve(qos_class="BestEffort"))
    assert rejection(made, ("MemoryPressure",)) is None


def limited(*limits: str) -> Pod:
    containers = [
        {"name": f"c{place}", "image": "i", "resources": {"limits": {"ephemeral-storage": limit}}}
        for place, limit in enumerate(limits)
    ]
    return pod(containers=containers)


def test_storage_beyond_the_limits_is_told() -> None:
    made = limited("1Mi", "2Mi")
    assert storage_excess(PodUse(made, {"c0": 1 << 20, "c1": 1 << 20}, beside=1 << 20)) == ""
    assert storage_excess(PodUse(made, {"c0": 1 << 20, "c1": 1 << 20}, beside=(1 << 20) + 1)) == (
        "Pod ephemeral local storage usage exceeds the total limit of containers 3Mi. "
    )
    assert storage_excess(PodUse(made, {"c0": (1 << 20) + 1, "c1": 0})) == (
        'Container c0 exceeded its local ephemeral storage limit "1Mi". '
    )


def test_volumes_logs_and_files_are_counted(tmp_path: Path) -> None:
    folder = PodFolder(tmp_path, "uid")
    for place in ("c-c0/0", "volumes/v"):
        (folder.path / place).mkdir(parents=True)
        (folder.path / place / "file").write_bytes(bytes(8192))
    made = limited("12Ki")
    assert "total limit of containers 12Ki" in storage_problem(made, folder, folder.volume)
    assert pod_files(made, folder).total == 2
    assert storage_problem(limited("1Mi"), folder, folder.volume) == ""


async def test_pods_go_one_after_the_other_and_the_condition_stays_a_while() -> None:
    now, left = 0.0, Supply(10, 100)
    pods = [use(asking("large"), 50), use(asking("small"), 5)]
    gone: list[str] = []
    ended: set[str] = set()

    def evict(chosen: PodUse, _short: Shortage, _text: str) -> bool:
        gone.append(chosen.pod.metadata.name)
        pods.remove(chosen)
        return True

    pressure = NodePressure(
        {"memory.available": "20%"},
        300.0,
        read=lambda: {"memory.available": left},
        uses=lambda _: list(pods),
        evict=evict,
        is_over=lambda victim: victim.metadata.name in ended,
        clock=lambda: now,
    )
    assert list(pressure.conditions) == []
    await pressure.look()
    await pressure.look()
    assert gone == ["large"], "the next waits until the first has ended"
    assert list(pressure.conditions) == ["MemoryPressure"]
    ended.add("large")
    await pressure.look()
    assert gone == ["large", "small"]
    left, now = Supply(60, 100), 299.0
    await pressure.look()
    assert list(pressure.conditions) == ["MemoryPressure"]
    now = 301.0
    assert list(pressure.conditions) == []
