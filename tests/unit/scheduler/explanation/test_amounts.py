"""Amounts in the words that users see: what a domain lacks, and what no node has."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.scheduler import Action, Settings
from quarterdeck.scheduler.fiterror import missing_in_domain
from quarterdeck.scheduler.resource import Resources
from quarterdeck.scheduler.snapshot import GpuShare
from tests.unit.scheduler.schedulerscene import ALLOCATE, Scene, only

NIC = "example.com/nic"
GB = 10**9


@pytest.mark.parametrize(
    ("needed", "what"),
    [
        (Resources(2001, 0, 0), "resources: CPU cores, requested: 2.001, available: 2"),
        (Resources(0, 3 * GB, 0), "resources: memory, requested: 3, available: 2"),
        (Resources(0, 0, 2.5), "resource: GPUs, requested: 2.5, available: 2"),
        (Resources(0, 0, 0, ((NIC, 3),)), f"resource: {NIC}, requested: 3, available: 2"),
        (Resources(0, 0, 0, (("disk", 1),)), "resource: disk, requested: 1, available: 0"),
    ],
)
def test_what_a_domain_lacks_is_named(needed: Resources, what: str) -> None:
    short, long = missing_in_domain("rack", needed, Resources(2000, 2 * GB, 2, ((NIC, 2),)))
    assert long == [f"rack didn't have enough {what}"]
    name = what.partition(": ")[2].partition(",")[0]
    assert short == [f"node-group(s) didn't have enough resources: {name}"]


def test_a_domain_that_has_just_enough_lacks_nothing() -> None:
    amounts = Resources(2000, 2 * GB, 2, ((NIC, 2),))
    assert missing_in_domain("rack", amounts, amounts) == ([], [])


def test_all_that_is_lacking_is_told_in_order() -> None:
    short, _ = missing_in_domain("rack", Resources(1, 1, 1, ((NIC, 1),)), Resources())
    assert [each.rpartition(": ")[2] for each in short] == ["CPU cores", "memory", "GPUs", NIC]


class TestTooLarge:
    def told(self, pod: dict[str, Any], settings: Settings = ALLOCATE) -> str:
        """What is said about a pod for whom a full cluster has no room, apart from that."""
        scene = Scene().node("n", 2, cpu=4, memory=8).node("small", 1, cpu=2, memory=4).queue("q")
        scene.group("x").pod("x", "n", gpu=2, cpu=4, memory=8).pod("x", "small", gpu=1, cpu=2, memory=4)
        report = scene.group("a").pod("a", **pod).run(settings).unschedulable("a")
        return report.pods[0][1].partition("MaxNodePoolResources: ")[2]

    @pytest.mark.parametrize(
        "pod", [{"gpu": 2}, {"cpu": 4}, {"memory": 8}, {"gpu_share": GpuShare(0.5, 0, 4)}]
    )
    def test_as_much_as_the_largest_node_has_is_not_too_large(self, pod: dict[str, Any]) -> None:
        assert self.told(pod) == ""

    def test_the_first_resource_that_is_too_large_is_told(self) -> None:
        assert "Max GPU resources" in self.told({"gpu": 3, "cpu": 5, "memory": 9})
        assert "Max CPU resources" in self.told({"gpu": 2, "cpu": 5, "memory": 9})
        assert "Max memory resources" in self.told({"memory": 9, "scalars": ((NIC, 1),)})

    def test_parts_of_gpus_are_counted_together(self) -> None:
        assert "requires GPU: 2.4, " in self.told({"gpu_share": GpuShare(0.8, 0, 3)})

    def test_the_node_pool_is_named(self) -> None:
        told = self.told({"gpu": 3}, only(Action.ALLOCATE, node_pool="blue"))
        assert told.endswith(" available in a single node in the blue node-pool is topped at 2")
