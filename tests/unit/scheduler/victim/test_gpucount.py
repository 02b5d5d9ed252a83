"""Quick counts of GPUs before and after victims leave."""

from __future__ import annotations

import pytest

from quarterdeck.api import Key
from quarterdeck.scheduler.model.cluster import Cluster
from quarterdeck.scheduler.snapshot import GpuShare
from quarterdeck.scheduler.victim.evictionstep import Step
from quarterdeck.scheduler.victim.gpucount import GpuCount
from tests.unit.scheduler.schedulerscene import NS, Scene


def full() -> Scene:
    """Four GPUs on n0, two of them free; two on n1, none free; none on n2."""
    scene = Scene().node("n0", 4).node("n1", 2).node("n2").queue("q")
    scene.job("x", "q", "n0", gpu=1).job("y", "q", "n0", gpu=1)
    return scene.job("u", "q", "n1", gpu=1).job("v", "q", "n1", gpu=1)


def counted(cluster: Cluster) -> GpuCount:
    return GpuCount(cluster.all_nodes.nodes, cluster.jobs[Key(NS, "a")].tasks_to_allocate())


def step(cluster: Cluster, *jobs: str) -> Step:
    """All pods of some jobs, as if they were of one."""
    found = [cluster.jobs[Key(NS, job)] for job in jobs]
    return Step(found[0], [task for job in found for task in job.tasks])


def test_what_the_first_pods_lack() -> None:
    count = counted(full().job("a", waiting=3, gpu=2).cluster())
    assert [count.lacks(pods) for pods in range(4)] == [-2, 0, 2, 4]


def test_nodes_that_hold_more_than_they_have_do_not_count_against_others() -> None:
    scene = Scene().node("n0", 1).node("n1", 2).queue("q").job("x", "q", "n0", gpu=4)
    count = counted(scene.job("a", waiting=1, gpu=1).cluster())
    assert (count.lacks(1), count.slots) == (-1, 2)


@pytest.mark.parametrize(("gpu", "slots"), [(1, 2), (2, 1), (3, 0)])
def test_pods_side_by_side(gpu: int, slots: int) -> None:
    count = counted(full().job("a", waiting=2, gpu=gpu).cluster())
    assert count.is_counted
    assert count.slots == slots


def test_places_that_a_node_gains() -> None:
    cluster = full().job("a", waiting=2, gpu=2).cluster()
    count, node, other = counted(cluster), cluster.nodes["n0"], cluster.nodes["n2"]
    assert [count.slots_of(node, 0, more) for more in range(5)] == [0, 0, 1, 1, 2]
    assert [count.slots_of(node, 1, more) for more in range(4)] == [0, 1, 1, 2]
    assert [count.slots_of(other, 0, more) for more in range(3)] == [0, 0, 1]


def test_victims_on_one_node_add_up() -> None:
    cluster = full().job("a", waiting=3, gpu=2).cluster()
    count = counted(cluster)
    after = count.after([step(cluster, "u"), step(cluster, "v"), step(cluster, "x")])
    assert (after.gpus, after.slots) == (3, 2)
    assert after.freed == {cluster.nodes["n1"]: 2, cluster.nodes["n0"]: 1}


def test_more_victims_may_make_the_places_that_are_missing() -> None:
    cluster = full().job("a", waiting=3, gpu=2).cluster()
    x, y, u, v = (step(cluster, name) for name in "xyuv")
    nobody = counted(cluster).after(())
    assert nobody.has_slots(1, ())
    assert not nobody.has_slots(2, ())
    assert not nobody.has_slots(2, (x, u))
    assert nobody.has_slots(2, (u, v))
    assert not nobody.has_slots(3, (x, u, v))
    assert nobody.has_slots(3, (x, u, v, y))
    recorded = counted(cluster).after((u,))
    assert recorded.has_slots(2, (v,))
    assert not recorded.has_slots(2, (x,))
    assert recorded.has_slots(3, (x, v, y))


def test_one_node_may_be_enough() -> None:
    cluster = full().job("a", waiting=3, gpu=2).cluster()
    node = cluster.nodes["n1"]
    nobody, recorded = counted(cluster).after(()), counted(cluster).after((step(cluster, "u"),))
    assert nobody.may_help(1, node, 0)
    assert [nobody.may_help(2, node, more) for more in (1, 2)] == [False, True]
    assert [recorded.may_help(2, node, more) for more in (0, 1)] == [False, True]
    assert not recorded.may_help(3, node, 1)


def test_pods_of_different_sizes_are_not_counted() -> None:
    cluster = full().group("a", least=2).pod("a", gpu=4).pod("a", gpu=1).cluster()
    count = counted(cluster)
    assert not count.is_counted
    assert count.lacks(2) == 3
    assert count.after(()).has_slots(9, ())
    assert count.after(()).may_help(9, cluster.nodes["n1"], 0)


def test_parts_of_gpus_are_not_counted() -> None:
    count = counted(full().group("a").pod("a", gpu_share=GpuShare(0.5)).cluster())
    assert (count.lacks(1), count.is_counted) == (0, False)


def test_what_victims_leave() -> None:
    scene = full().group("s").pod("s", "n0", gpu_share=GpuShare(0.5, 0, 2), gpu_groups=("g", "h"))
    cluster = scene.pod("s", "gone", gpu=1).cluster()
    whole, parts = step(cluster, "x", "u", "v"), step(cluster, "x", "s")
    assert (whole.gpus, whole.is_whole) == (3, True)
    assert whole.freed == {cluster.nodes["n0"]: 1, cluster.nodes["n1"]: 2}
    assert whole.held == (3000, 3 << 30, 3)
    assert whole.shape is whole.tasks[0].shape
    assert (parts.gpus, parts.is_whole, parts.shape) == (3, False, None)
