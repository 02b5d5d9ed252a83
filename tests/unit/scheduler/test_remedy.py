"""What would start a gang that waits; each remedy is tried, so each is checked by trying it again."""

from __future__ import annotations

from quarterdeck.api import Key
from quarterdeck.scheduler.plan import Recorded, Remedy, remedies

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
