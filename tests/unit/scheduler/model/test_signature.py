"""Jobs that need not be tried because one that is no harder to place has failed."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import Key
from quarterdeck.scheduler.model.signature import FailedJobs
from quarterdeck.scheduler.snapshot import GpuShare, PodConstraints
from tests.unit.scheduler.schedulerscene import NS, Scene, gpu_node, near, topology

NIC = "example.com/nic"


def is_covered(scene: Scene) -> bool:
    """Whether job b need not be tried after a failed."""
    cluster = scene.cluster()
    failed = FailedJobs()
    failed.add(cluster.jobs[Key(NS, "a")])
    return failed.covers(cluster.jobs[Key(NS, "b")])


def two(failed: dict[str, Any], other: dict[str, Any]) -> Scene:
    """Two jobs of one pod each."""
    return gpu_node().group("a").pod("a", **failed).group("b").pod("b", **other)


BASE: dict[str, Any] = {"gpu": 2, "cpu": 2, "memory": 2, "scalars": ((NIC, 2),)}


@pytest.mark.parametrize(
    ("other", "covered"),
    [
        ({}, True),
        ({"gpu": 3}, True),
        ({"cpu": 3}, True),
        ({"memory": 3}, True),
        ({"scalars": ((NIC, 3),)}, True),
        ({"scalars": (("example.com/disk", 1), (NIC, 2))}, True),
        ({"gpu": 1}, False),
        ({"cpu": 1}, False),
        ({"memory": 1}, False),
        ({"scalars": ((NIC, 1),)}, False),
        ({"gpu": 1, "cpu": 3}, False),
        ({"cpu": 1, "memory": 3}, False),
        ({"memory": 1, "gpu": 3}, False),
    ],
)
def test_a_pod_that_asks_for_as_much_of_everything_is_no_easier(other: dict[str, Any], covered: bool) -> None:
    assert is_covered(two(BASE, {**BASE, **other})) is covered


def test_what_a_pod_does_not_ask_for_is_easier() -> None:
    assert not is_covered(two({"scalars": ((NIC, 1),)}, {"cpu": 5}))


@pytest.mark.parametrize("other", [None, GpuShare(0.25), GpuShare(0.75)])
def test_parts_of_gpus_are_compared_with_equal_ones_alone(other: GpuShare | None) -> None:
    half = {"gpu_share": GpuShare(0.5)}
    assert not is_covered(two(half, {"gpu_share": other, "cpu": 5}))
    assert is_covered(two(half, {**half, "cpu": 5}))


@pytest.mark.parametrize(("pods", "covered"), [(1, False), (2, True), (3, True)])
def test_more_pods_are_no_easier(pods: int, covered: bool) -> None:
    assert is_covered(gpu_node().job("a", waiting=2, gpu=1).job("b", waiting=pods, gpu=1)) is covered


@pytest.mark.parametrize("field", ["gpu", "cpu", "memory"])
def test_the_largest_pods_are_compared_with_each_other(field: str) -> None:
    small: dict[str, Any] = {field: 1}
    large: dict[str, Any] = {field: 2}
    scene = gpu_node().group("a").pod("a", **large)
    scene.group("b", least=2).pod("b", **small).pod("b", **large)
    assert is_covered(scene)


def test_one_smaller_pod_is_enough_to_be_easier() -> None:
    scene = gpu_node().group("a", least=2).pod("a", gpu=2).pod("a", gpu=2)
    assert not is_covered(scene.group("b", least=2).pod("b", gpu=3).pod("b", gpu=1))


def test_any_job_that_failed_counts() -> None:
    scene = gpu_node().job("a", waiting=1, gpu=4).job("c", waiting=1, gpu=2).job("b", waiting=1, gpu=3)
    cluster = scene.cluster()
    failed = FailedJobs()
    for name in ("a", "c"):
        failed.add(cluster.jobs[Key(NS, name)])
    assert failed.covers(cluster.jobs[Key(NS, "b")])


def test_scopes_are_not_compared() -> None:
    cluster = gpu_node().job("a", waiting=1, gpu=1).cluster()
    failed, job = FailedJobs(), cluster.jobs[Key(NS, "a")]
    failed.add(job, "one queue")
    assert failed.covers(job, "one queue")
    assert not failed.covers(job, "another queue")
    assert not failed.covers(job)


@pytest.mark.parametrize(
    "other",
    [{"priority": 100}, {"topology_constraint": near("zone")}, {"topology_constraint": near("", "zone")}],
)
def test_jobs_of_another_kind_are_not_compared(other: dict[str, Any]) -> None:
    scene = Scene().node("n0", 8, labels={"zone": "a"}).queue("q")
    scene.extra = topology("zone")
    assert not is_covered(scene.job("a", waiting=1, gpu=1).job("b", waiting=1, gpu=1, **other))


def test_pods_with_other_constraints_are_not_compared() -> None:
    picky = PodConstraints(node_selector=(("zone", "a"),))
    assert not is_covered(two({"gpu": 1}, {"gpu": 1, "constraints": picky}))
