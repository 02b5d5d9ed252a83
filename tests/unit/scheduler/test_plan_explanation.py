"""What is told about one gang, and about a simulation."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import Key
from quarterdeck.scheduler import Settings
from quarterdeck.scheduler.plan import Recorded, add_nodes, explain, remove_nodes, simulate
from quarterdeck.scheduler.plan.explanation import Explanation, cores, gigabytes
from quarterdeck.scheduler.plan.table import table
from quarterdeck.scheduler.snapshot import GpuShare, PodInfo

from .schedulerscene import NOW, NS, Scene, gpu_node, near, sub, topology

NO_GPUS = (
    "PodSchedulingErrors: Resources were not found for pod team/{}-0 due to: "
    "no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.."
)


def explained(scene: Scene, name: str, **settings: Any) -> Explanation:
    return explain(Recorded(snapshot=scene.snapshot(), settings=Settings(**settings)), Key(NS, name))


def verdicts(scene: Scene, name: str, **settings: Any) -> dict[str, str]:
    """By the names of the others, in the order in which they are told."""
    found = explained(scene, name, **settings).victims
    return {each.pod_group.partition("/")[2]: each.verdict for each in found}


class TestTable:
    def test_columns_are_as_wide_as_needed_and_numbers_stand_right(self) -> None:
        rows = [("a", 1, "-", "1.5.2"), ("long", 22.5, "∞", "2"), ("", -3, "", "+1")]
        assert table(("name", "n", "bound", "text"), rows) == [
            "  name     n  bound  text",
            "  a        1      -  1.5.2",
            "  long  22.5      ∞  2",
            "          -3         +1",
        ]

    def test_without_rows_heads_stand_left(self) -> None:
        assert table(("a", "b"), [], indent="") == ["a  b"]


@pytest.mark.parametrize(
    ("amount", "in_cores", "in_gigabytes"),
    [(-1, "∞", "∞"), (0, "0", "0"), (1500, "1.5", "0"), (2_500_000_000, "2500000", "2.5")],
)
def test_amounts_as_people_count_them(amount: float, in_cores: str, in_gigabytes: str) -> None:
    assert (cores(amount), gigabytes(amount)) == (in_cores, in_gigabytes)


class TestExplain:
    def test_the_whole_text(self) -> None:
        scene = Scene().node("n0", 1).queue("q", gpu=(1, -1, 1)).job("a", "q", "n0", gpu=1)
        assert explained(scene.job("b", waiting=1, gpu=1), "b").text().splitlines() == [
            "team/b: queue q, priority 50, preemptible",
            "next cycle: 1 waiting",
            "missing: 1 pod, 1 GPU, 1 CPU, 1 GiB of memory",
            f"  {NO_GPUS.format('b')}",
            "subgroups:",
            "  subgroup  minimum  placed  waiting",
            "  default         1       0        1",
            "queues (GPUs):",
            "  queue  quota  limit  fair share  allocated  requested",
            "  q          1      ∞           1          1          2",
            "who could make room:",
            "  pod group  queue  priority  pods  GPUs  verdict",
            "  team/a     q            50     1     1  its priority is not below 50",
        ]

    def test_what_becomes_of_each_pod(self) -> None:
        scene = gpu_node(4).group("a").pod("a", "n0", gpu=1).pod("a", "n0", gpu=1, is_deleted=True)
        scene.pod("a", gpu=1).pod("a", gpu=1).pod("a", gpu=9).pod("a", is_gated=True)
        found = explained(scene, "a")
        assert found.outcome == "1 running, 2 bound, 1 terminating, 1 waiting, 1 gated"

    def test_a_gang_without_pods(self) -> None:
        found = explained(gpu_node().job("x", "q", "n0").group("a", priority=100), "a")
        assert (found.outcome, found.missing, found.message, found.victims) == ("no pods", "", "", ())
        assert found.text().splitlines()[:3] == [
            "team/a: queue q, priority 100, non-preemptible",
            "next cycle: no pods",
            "subgroups:",
        ]

    def test_what_runs_lacks_nothing(self) -> None:
        found = explained(gpu_node().job("x", "q", "n0").job("a", "q", "n0", "n0"), "a")
        assert (found.outcome, found.missing, found.victims) == ("2 running", "", ())

    def test_other_resources_are_named(self) -> None:
        scene = (
            gpu_node().group("a", least=2).pod("a", scalars=(("nic", 1),)).pod("a", scalars=(("disk", 1),))
        )
        assert explained(scene, "a").missing == "2 pods, 2 CPU, 2 GiB of memory, disk, nic"

    def test_the_message_is_its_own(self) -> None:
        scene = gpu_node(1).job("a", waiting=1, gpu=2).job("b", waiting=1, gpu=3).group("c", least=2).pod("c")
        assert "for pod team/b-0 due to" in explained(scene, "b").message
        assert explained(scene, "c").message.startswith("Job is not ready for scheduling.")
        assert explained(gpu_node(1).job("a", waiting=1, gpu=1).job("b", waiting=1, gpu=1), "a").message == ""

    def test_subgroups_are_told_apart(self) -> None:
        scene = gpu_node(1).group("a", subgroups=(sub("l", 1), sub("w", 2)))
        scene.pod("a", "n0", gpu=1, subgroup="l")
        for _ in range(3):
            scene.pod("a", gpu=1, subgroup="w")
        found = explained(scene, "a").leaves
        assert [(each.name, each.minimum, each.active, each.waiting) for each in found] == [
            ("l", 1, 1, 0),
            ("w", 2, 0, 3),
        ]

    def test_queues_up_to_the_root_and_why_they_refuse(self) -> None:
        scene = Scene().node("n0", 8).queue("root").queue("q", "root", (2, 3, 1)).job("x", "q", "n0", gpu=2)
        found = explained(scene.job("a", waiting=2, gpu=1), "a")
        assert [each.name for each in found.queues] == ["q", "root"]
        row = found.queues[0]
        assert (row.quota, row.limit, row.allocated, row.requested, row.fair_share) == (2, 3, 2, 4, 3)
        assert found.refusal.startswith("q quota has reached the allowable limit of GPUs")
        assert f"  {found.refusal}" in found.text().splitlines()

    def test_a_gang_without_a_queue(self) -> None:
        scene = gpu_node(1).job("x", "q", "n0", gpu=1)
        scene.job("a", "nowhere", waiting=1, gpu=1)
        found = explained(scene, "a")
        assert (found.queue, found.queues, found.refusal) == ("nowhere", (), "")
        assert verdicts(scene, "a") == {"x": "has no queue to compare"}
        scene = gpu_node(1).job("x", "nowhere", "n0", gpu=1).job("a", waiting=1, gpu=1)
        assert verdicts(scene, "a") == {"x": "has no queue to compare"}

    @pytest.mark.parametrize(("others", "more"), [(8, []), (9, ["  … and 1 more"])])
    def test_tables_end_after_eight_rows(self, others: int, more: list[str]) -> None:
        scene = gpu_node(others)
        for number in range(others):
            scene.job(f"x{number}", "q", "n0", gpu=1)
        lines = explained(scene.job("a", waiting=1, gpu=1), "a").text().splitlines()
        assert [line for line in lines if line.startswith("  …")] == more


class TestVictims:
    def test_who_is_evicted_comes_first_then_who_could_be(self) -> None:
        scene = gpu_node(5).job("evicted", "q", "n0", gpu=1, priority=40)
        scene.job("d", "q", "n0", gpu=1).job("c", "q", "n0", gpu=1)
        scene.job("b", "q", "n0", gpu=1, priority=100).job("equal", "q", "n0", gpu=1, priority=75)
        could = "could be preempted, but that does not make enough room"
        assert [*verdicts(scene.job("a", waiting=1, gpu=1, priority=75), "a").items()] == [
            ("evicted", "is evicted for it in the next cycle"),
            ("c", could),
            ("d", could),
            ("equal", "its priority is not below 75"),
            ("b", "cannot be preempted"),
        ]

    def test_what_it_holds_is_told(self) -> None:
        scene = gpu_node(1).group("x")
        for _ in range(3):
            scene.pod("x", "n0", gpu_share=GpuShare(0.1), gpu_groups=("g",))
        scene.pod("x", gpu=5).group("ended").pod("ended", "n0", phase="Succeeded")
        [row] = explained(scene.job("a", waiting=1, gpu=1), "a").victims
        assert (row.pods, row.gpus, row.queue, row.priority) == (3, 0.3, "q", 50)

    @pytest.mark.parametrize(("age", "is_protected"), [(99, True), (100, False)])
    def test_protection_from_preemption(self, age: float, is_protected: bool) -> None:
        scene = gpu_node(1).job("x", "q", "n0", gpu=1, last_start=NOW - age)
        told = verdicts(scene.job("a", waiting=1, gpu=1, priority=75), "a", preempt_min_runtime=100.0)
        protected = "started lately: protected by preemptMinRuntime"
        assert told == {"x": protected if is_protected else "is evicted for it in the next cycle"}

    @pytest.mark.parametrize(("age", "is_protected"), [(99, True), (100, False)])
    def test_protection_from_reclaim(self, age: float, is_protected: bool) -> None:
        scene = Scene().node("n0", 1).queue("rich", gpu=(0, -1, 0)).queue("poor", gpu=(1, -1, 1))
        scene.job("x", "rich", "n0", gpu=1, last_start=NOW - age).job("a", "poor", waiting=1, gpu=1)
        protected = "started lately: protected by reclaimMinRuntime"
        told = verdicts(scene, "a", reclaim_min_runtime=100.0)
        assert told == {"x": protected if is_protected else "is evicted for it in the next cycle"}

    def test_a_queue_within_its_share_keeps_what_it_has(self) -> None:
        scene = Scene().node("n0", 2).queue("mine", gpu=(1, -1, 1)).queue("theirs", gpu=(1, -1, 1))
        scene.queue("third", gpu=(1, -1, 1)).job("z", "third", "n0", gpu=1, priority=100)
        scene.job("x", "theirs", "n0", gpu=1).job("a", "mine", waiting=1, gpu=1)
        assert verdicts(scene, "a") == {"x": "queue theirs is within its share", "z": "cannot be preempted"}

    def test_a_queue_beyond_its_share_that_cannot_help(self) -> None:
        scene = (
            Scene().node("n0", 1).node("n1", 1).queue("mine", gpu=(2, -1, 1)).queue("theirs", gpu=(0, -1, 0))
        )
        scene.job("x", "theirs", "n0", gpu=1).job("y", "theirs", "n1", gpu=1)
        could = "could be reclaimed, but that does not make enough room"
        assert verdicts(scene.job("a", "mine", waiting=1, gpu=2), "a") == {"x": could, "y": could}


class TestDomains:
    def rows(self, scene: Scene) -> list[tuple[str, str, float, int, int]]:
        found = explained(scene, "a").domains
        return [(each.subgroup, each.domain, each.free_gpus, each.fits, each.needed) for each in found]

    def racks(self, **more: Any) -> Scene:
        scene = Scene().queue("q")
        scene.extra = topology("zone", "rack")
        for index, gpus in enumerate((1, 2, 2, 4)):
            labels = {"zone": f"z{index // 2}", "rack": f"r{index}"}
            scene.node(f"n{index}", gpus, labels=labels, **(more if index == 3 else {}))
        return scene

    @pytest.mark.parametrize(
        ("constraint", "domains"),
        [
            (near("rack"), [("z1.r3", 4, 4), ("z0.r1", 2, 2), ("z1.r2", 2, 2), ("z0.r0", 1, 1)]),
            (near("zone", "rack"), [("z1", 6, 6), ("z0", 3, 3)]),
            (near("", "zone"), [("z1", 6, 6), ("z0", 3, 3)]),
            (near("floor"), []),
            (near(), []),
        ],
    )
    def test_the_domains_of_the_level_the_best_first(self, constraint: Any, domains: list[Any]) -> None:
        scene = self.racks().job("a", waiting=9, gpu=1, topology_constraint=constraint)
        assert [row[1:4] for row in self.rows(scene)] == domains
        assert all((row[0], row[4]) == ("", 9) for row in self.rows(scene))

    def test_nodes_that_take_no_pods_have_no_room(self) -> None:
        scene = self.racks(is_unschedulable=True)
        found = self.rows(scene.job("a", waiting=9, gpu=1, topology_constraint=near("rack")))
        assert found[-1][1:4] == ("z1.r3", 4, 0)

    def test_the_largest_pod_is_counted(self) -> None:
        scene = self.racks().group("a", least=3, topology_constraint=near("zone"))
        found = self.rows(scene.pod("a", gpu=1).pod("a", gpu=2).pod("a", gpu=9, is_gated=True).pod("a"))
        assert [(row[1], row[3], row[4]) for row in found] == [("z1", 3, 3), ("z0", 1, 3)]

    def test_each_part_with_a_constraint_is_told(self) -> None:
        parts = (sub("l", 1), sub("w", 2, topology_constraint=near("zone")))
        scene = self.racks().group("a", subgroups=parts).pod("a", gpu=1, subgroup="l")
        found = self.rows(scene.pod("a", gpu=2, subgroup="w").pod("a", gpu=2, subgroup="w"))
        assert found == [("w", "z1", 6, 3, 2), ("w", "z0", 3, 1, 2)]

    def test_the_text_says_for_whom(self) -> None:
        scene = self.racks().job("a", waiting=9, gpu=1, topology_constraint=near("zone"))
        lines = explained(scene, "a").text().splitlines()
        place = lines.index("domains:")
        assert lines[place + 1 : place + 3] == [
            "  domain  for       free GPUs  pods that fit  needed",
            "  z1      the gang          6              6       9",
        ]


class TestSimulate:
    def test_the_whole_text(self) -> None:
        scene = Scene().node("n0", 1).queue("q", gpu=(1, -1, 1)).job("low", "q", "n0", gpu=1)
        found = simulate(Recorded(snapshot=scene.job("high", waiting=1, gpu=1, priority=75).snapshot()))
        assert found.text().splitlines() == [
            "after 3 cycles:",
            "starts:",
            "  pod group  queue  pods  nodes  without the change",
            "  team/high  q         1      1  starts",
            "evicted:",
            "  pod group  queue  pods  why      for        running again",
            "  team/low   q         1  preempt  team/high              0",
            "waits:",
            "  pod group  queue  pods  why",
            f"  team/low   q         1  {NO_GPUS.format('low')}",
            "queues:",
            "  queue  GPUs  after  fair share  after  cores  after     GB  after",
            "  q         1      1           1      1      1      1  1.073  1.073",
        ]

    def test_where_nothing_happens_and_nothing_rests(self) -> None:
        assert simulate(Recorded(snapshot=Scene().snapshot())).text().splitlines() == [
            "after 1 cycles:",
            "starts: nothing",
            "evicted: nothing",
            "waits: nothing",
            "queues: nothing",
        ]
        scene = gpu_node(1).job("a", waiting=1, gpu=1)
        found = simulate(Recorded(snapshot=scene.snapshot()), cycles=1)
        assert found.text().startswith("after 1 cycles, and it has not come to rest:")

    def test_gangs_that_are_not_ready_wait(self) -> None:
        scene = gpu_node(4).group("a", least=4).pod("a", "n0", gpu=1).pod("a", gpu=1).pod("a", is_gated=True)
        [row] = simulate(Recorded(snapshot=scene.job("b", "q", "n0").snapshot())).waits
        assert (row.pod_group, row.queue, row.pods) == ("team/a", "q", 2)
        assert row.why.startswith("Job is not ready for scheduling.")

    def test_pods_of_removed_nodes_may_run_again(self) -> None:
        scene = Scene().node("n0", 2).node("n1", 2).queue("q").job("a", "q", "n1", "n1", "n0", gpu=1, least=1)
        found = simulate(Recorded(snapshot=scene.snapshot()), remove_nodes("n1"))
        [row] = found.evicted
        assert (row.pods, row.actions, row.preemptors, row.running_again) == (2, ("node removed",), (), 1)
        assert "  team/a     q         2  node removed    -              1" in found.text().splitlines()

    def test_only_part_of_a_gang_would_start_anyway(self) -> None:
        scene = Scene().node("n0", 1).queue("q").job("a", waiting=2, gpu=1, least=1)
        [row] = simulate(Recorded(snapshot=scene.snapshot()), add_nodes("n0")).starts
        assert (row.pods, row.nodes, row.starts_anyway) == (2, 2, False)

    def test_pods_that_terminate_or_have_no_gang_are_not_told(self) -> None:
        scene = gpu_node(2).group("a").pod("a", "n0", gpu=1, is_deleted=True)
        scene.pods.append(PodInfo(namespace=NS, name="alone", uid="alone", node="n0"))
        found = simulate(Recorded(snapshot=scene.snapshot()))
        assert (found.starts, found.evicted, found.waits) == ((), (), ())
