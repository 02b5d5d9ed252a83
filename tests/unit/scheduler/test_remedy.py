"""What would start a gang that waits; each remedy is tried, so each is checked by trying it again."""

from __future__ import annotations

import pytest

from quarterdeck.api import Key
from quarterdeck.scheduler.plan import Recorded, Remedy, remedies, verdict
from quarterdeck.scheduler.snapshot import QueueResource

from .schedulerscene import NS, Scene


def found(scene: Scene, name: str) -> list[Remedy]:
    return [*remedies(Recorded(snapshot=scene.snapshot()), Key(NS, name))]


def texts(scene: Scene, name: str) -> list[str]:
    return [each.text for each in found(scene, name)]


def full() -> Scene:
    """Two nodes that one gang fills, within its share."""
    scene = Scene().node("n0", 4).node("n1", 4).queue("q", gpu=(8, -1, 1))
    return scene.job("runs", "q", *["n0"] * 4, *["n1"] * 4, gpu=1)


def test_the_fewest_nodes_that_are_enough_are_told() -> None:
    scene = full().job("waits", "q", waiting=10, gpu=1)
    assert "3 more nodes like n0" in texts(scene, "waits")


def test_the_end_of_whoever_is_in_the_way_is_told() -> None:
    scene = full().job("waits", "q", waiting=8, gpu=1)
    assert f"the end of {NS}/runs, which has 8 pods and 8 GPUs" in texts(scene, "waits")


def test_a_limit_that_stops_a_gang_is_named_with_the_value_that_would_do() -> None:
    scene = Scene().node("n0", 8).queue("q", gpu=(2, 2, 1)).job("waits", "q", waiting=4, gpu=1)
    [remedy] = [each for each in found(scene, "waits") if each.kind == "queue"]
    assert remedy.text == "queue q: gpu.limit 4"


def test_what_starts_anyway_needs_nothing() -> None:
    scene = Scene().node("n0", 8).queue("q", gpu=(8, -1, 1)).job("starts", "q", waiting=4, gpu=1)
    assert found(scene, "starts") == []
    assert found(scene, "unknown") == []


def test_what_runs_needs_nothing() -> None:
    assert found(full(), "runs") == []


def test_all_that_helps_is_told_with_whom_it_evicts() -> None:
    scene = Scene().node("n0", 2).queue("q").job("low", "q", "n0", gpu=1)
    scene.job("high", "q", "n0", gpu=1, priority=100).job("waits", "q", waiting=1, gpu=2, priority=75)
    assert found(scene, "waits") == [
        Remedy(kind="nodes", text="1 more node like n0"),
        Remedy(
            kind="end",
            text=f"the end of {NS}/high, which has 1 pod and 1 GPU",
            evicts=(f"{NS}/low",),
        ),
    ]


def test_the_largest_six_gangs_are_considered_to_end() -> None:
    scene = Scene().node("n0", 9).queue("q")
    for number in range(7):
        scene.job(f"g{number}", "q", *["n0"] * (2 if number in (3, 4) else 1), gpu=1)
    ends = [
        each.text for each in found(scene.job("waits", "q", waiting=1, gpu=1), "waits") if each.kind == "end"
    ]
    assert [each.split("/")[1][:2] for each in ends] == ["g4", "g3", "g6", "g5", "g2", "g1"]


def test_three_kinds_of_nodes_are_considered_the_largest_first() -> None:
    scene = Scene().queue("q")
    for name, gpus in (("a", 1), ("b", 2), ("c", 8), ("d", 4), ("e", 8)):
        scene.node(name, gpus).job(f"on-{name}", "q", name, gpu=gpus, priority=100)
    nodes = [
        each.text
        for each in found(scene.job("waits", "q", waiting=1, gpu=1), "waits")
        if each.kind == "nodes"
    ]
    assert nodes == [f"1 more node like {name}" for name in ("c", "d", "b")]


@pytest.mark.parametrize(
    ("pods", "told"), [(5, "5 more nodes like n0"), (64, "64 more nodes like n0"), (65, "")]
)
def test_at_most_so_many_nodes_are_tried(pods: int, told: str) -> None:
    scene = Scene().node("n0", 1).queue("q").job("runs", "q", "n0", gpu=1, priority=100)
    assert texts(scene.job("waits", "q", waiting=pods, gpu=1), "waits") == ([told] if told else [])


def shares(scene: Scene) -> list[str]:
    return [each.text for each in found(scene, "waits") if each.kind == "queue"]


def test_only_what_is_too_small_is_raised() -> None:
    scene = Scene().node("n0", 8).queue("q", gpu=(-1, 4, 1), cpu=QueueResource(-1, 3999, 1))
    assert shares(scene.job("waits", "q", waiting=4, gpu=1)) == ["queue q: cpu.limit 4000"]
    scene = Scene().node("n0", 8).queue("q", gpu=(0, 0, 1), memory=QueueResource(-1, 10**9, 1))
    assert shares(scene.group("waits").pod("waits", memory=2)) == ["queue q: memory.limit 2147.48"]


def test_what_the_queue_has_counts_up_to_the_root() -> None:
    scene = Scene().node("n0", 8).queue("root", gpu=(-1, 5, 1)).queue("q", "root", (-1, 3, 1))
    scene.queue("other", "root").job("mine", "q", "n0", gpu=1).job("theirs", "other", "n0", "n0", gpu=1)
    assert shares(scene.job("waits", "q", waiting=4, gpu=1)) == [
        "queue q: gpu.limit 5, queue root: gpu.limit 7"
    ]


def test_what_cannot_be_preempted_needs_a_larger_quota() -> None:
    scene = Scene().node("n0", 8).queue("q", gpu=(2, -1, 1))
    assert shares(scene.job("waits", "q", waiting=4, gpu=1, priority=100)) == ["queue q: gpu.quota 4"]


def test_a_gang_without_a_queue_is_not_helped() -> None:
    assert found(Scene().node("n0", 8).queue("q").job("waits", "nowhere", waiting=1, gpu=1), "waits") == []


def test_a_quota_is_raised_by_no_more_than_starts_the_gang() -> None:
    scene = Scene().node("n0", 8).queue("q", gpu=(0, -1, 1)).job("over", "q", *["n0"] * 4, gpu=1)
    assert shares(scene.job("waits", "q", waiting=4, gpu=1, priority=100)) == ["queue q: gpu.quota 4"]


def test_a_queue_that_need_not_change_stays_as_it_is() -> None:
    scene = Scene().node("n0", 8).queue("root", gpu=(6, -1, 1)).queue("q", "root", (0, -1, 1))
    scene.queue("other", "root").job("theirs", "other", *["n0"] * 4, gpu=1)
    assert shares(scene.job("waits", "q", waiting=4, gpu=1, priority=100)) == ["queue q: gpu.quota 4"]


def hopeless(scene: Scene, name: str) -> str:
    return verdict(Recorded(snapshot=scene.snapshot()), Key(NS, name))


def test_that_nothing_helps_is_an_answer_with_its_reason() -> None:
    scene = Scene().node("n0", 8).node("n1", 4).queue("q").job("waits", "q", waiting=2, gpu=16)
    assert hopeless(scene, "waits") == "nothing starts this, because no node has 16 GPUs: the largest has 8"
    scene = Scene().node("n0").queue("q").job("waits", "q", waiting=1, gpu=1)
    assert hopeless(scene, "waits") == "nothing starts this, because no node has 1 GPU: none has any"
    scene = Scene().node("n0", 8).queue("q").job("waits", "typo", waiting=1, gpu=1)
    assert hopeless(scene, "waits") == "nothing starts this, because queue typo does not exist"
    scene = Scene().node("n0", 2, memory=1).queue("q").group("waits").pod("waits", memory=2)
    assert hopeless(scene, "waits") == (
        "nothing starts this, because no node has 2.147 gigabytes: the largest has 1.073"
    )
    assert hopeless(full().job("waits", "q", waiting=8, gpu=1), "waits") == ""
    assert hopeless(full(), "runs") == ""
