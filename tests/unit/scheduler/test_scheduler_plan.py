"""Asking the scheduler: recorded snapshots, explanations, simulations."""

from collections.abc import Callable
from typing import Any

import pytest

from quarterdeck.api import Key
from quarterdeck.errors import SchemaError
from quarterdeck.scheduler import Settings, Snapshot, schedule
from quarterdeck.scheduler.plan import (
    Recorded,
    add_nodes,
    change_queue,
    decisions_text,
    dump,
    explain,
    load,
    remove_nodes,
    run_to_rest,
    simulate,
    submit_gang,
)
from quarterdeck.scheduler.resource import Resources
from quarterdeck.scheduler.snapshot import BindRequestInfo, TopologyConstraint

from .randomcluster import picky_cluster, random_cluster, uniform_cluster
from .schedulerscene import NS, Scene, gpu_node, near, topology

ONE_GPU = Resources(1000, 1 << 30, 1)


def recorded(scene: Scene) -> Recorded:
    return Recorded(snapshot=scene.snapshot())


def crowded() -> Scene:
    """Two nodes, one queue that has everything and one that waits."""
    scene = Scene().node("n0", 4).node("n1", 4).queue("root")
    scene.queue("busy", "root", (2, -1, 1)).queue("poor", "root", (4, -1, 1))
    scene.job("b", "busy", *["n0"] * 4, *["n1"] * 4, gpu=1, least=1)
    return scene.job("p", "poor", waiting=4, gpu=1)


class TestRecord:
    @pytest.mark.parametrize("make", [random_cluster, uniform_cluster, picky_cluster])
    def test_the_same_file_gives_the_same_decisions_to_the_byte(
        self, make: Callable[[int], tuple[Snapshot, Settings]]
    ) -> None:
        for seed in range(12):
            snapshot, settings = make(seed)
            found = Recorded(snapshot=snapshot, settings=settings)
            again = load(dump(found))
            assert again == found
            first = decisions_text(schedule(found.snapshot, found.settings).decisions)
            assert decisions_text(schedule(again.snapshot, again.settings).decisions) == first

    def test_a_line_says_its_kind(self) -> None:
        scene = Scene().node("n0", 1).queue("q").job("a", waiting=1, gpu=1)
        first = decisions_text(schedule(scene.snapshot()).decisions).splitlines()[0]
        assert first.startswith(b'{"Bind":{')

    @pytest.mark.parametrize("data", [b"", b"{}", b'{"format":"other","settings":{},"snapshot":{"now":1}}'])
    def test_other_files_are_refused(self, data: bytes) -> None:
        with pytest.raises(SchemaError):
            load(data)


class TestExplain:
    def test_what_is_missing_is_told_with_queues_and_victims(self) -> None:
        found = explain(recorded(crowded()), Key(NS, "p"))
        assert found.missing == "4 pods, 4 GPUs, 4 CPU, 4 GiB of memory"
        assert [each.name for each in found.queues] == ["poor", "root"]
        assert (found.queues[0].fair_share, found.queues[0].allocated) == (4, 0)
        (victim,) = found.victims
        assert victim.verdict == "is evicted for it in the next cycle"
        assert found.outcome == "4 promised a node that is being freed"

    @pytest.mark.parametrize(
        ("job", "verdict"),
        [
            ({"priority": 100}, "cannot be preempted"),
            ({"priority": 75}, "its priority is not below 75"),
            ({"priority": 50, "queue": "other"}, "queue q would be beyond its fair share"),
        ],
    )
    def test_why_somebody_is_not_evicted(self, job: dict[str, Any], verdict: str) -> None:
        scene = Scene().node("n0", 1).queue("q", gpu=(0, -1, 0)).queue("other")
        fields = {"queue": "q", **job}
        scene.job("a", fields.pop("queue"), "n0", gpu=1, **fields)
        scene.job("b", "q", waiting=1, gpu=1, priority=75)
        (row,) = explain(recorded(scene), Key(NS, "b")).victims
        assert row.verdict == verdict

    def test_domains_are_told_with_what_fits(self) -> None:
        scene = Scene().queue("q")
        scene.extra = topology("zone")
        for index in range(4):
            scene.node(f"n{index}", 2, labels={"zone": f"z{index // 2}"})
        scene.job("x", "q", "n0", "n2", "n3", gpu=1)
        scene.job("a", waiting=4, gpu=1, topology_constraint=near("zone"))
        found = explain(recorded(scene), Key(NS, "a"))
        assert [(each.domain, each.fits, each.needed) for each in found.domains] == [
            ("z0", 3, 4),
            ("z1", 2, 4),
        ]
        assert "z0" in found.text()

    def test_the_text_fits_a_screen(self) -> None:
        scene = crowded()
        for number in range(40):
            scene.job(f"x{number}", "busy", "n0", gpu=0)
        lines = explain(recorded(scene), Key(NS, "p")).text().splitlines()
        assert len(lines) <= 40
        assert "  … and 33 more" in lines

    def test_a_group_that_is_not_there(self) -> None:
        with pytest.raises(SchemaError, match="there is no pod group team/nobody"):
            explain(recorded(crowded()), Key(NS, "nobody"))


class TestSimulate:
    def test_nodes_are_added(self) -> None:
        scene = Scene().node("n0", 2).queue("q").job("a", waiting=6, gpu=1)
        before = simulate(recorded(scene))
        assert [(each.pod_group, each.pods) for each in before.waits] == [("team/a", 6)]
        after = simulate(recorded(scene), add_nodes("n0", 2))
        assert [(each.pods, each.nodes, each.starts_anyway) for each in after.starts] == [(6, 3, False)]
        assert after.waits == ()
        (share,) = after.shares
        assert (share.gpu_before, share.gpu_after) == (0, 6)

    def test_nodes_are_removed(self) -> None:
        scene = Scene().node("n0", 1).node("n1", 1).queue("q").job("a", "q", "n0", "n1", gpu=1, least=1)
        found = simulate(recorded(scene), remove_nodes("n1"))
        assert [(each.pods, each.actions, each.running_again) for each in found.evicted] == [
            (1, ("node removed",), 0)
        ]
        assert [each.pods for each in found.waits] == [1]

    def test_a_queue_is_changed(self) -> None:
        scene = crowded()
        found = simulate(recorded(scene), change_queue("poor", {"gpu.limit": "0"}))
        assert found.evicted == ()
        assert found.waits[0].why.startswith("OverLimit: poor quota has reached")
        found = simulate(recorded(scene))
        assert [(each.pods, each.actions, each.preemptors) for each in found.evicted] == [
            (4, ("reclaim",), ("team/p",))
        ]
        assert [(each.pod_group, each.starts_anyway) for each in found.starts] == [("team/p", True)]

    @pytest.mark.parametrize(
        ("field", "value", "wanted"),
        [
            ("memory.quota", "5", 5_000_000.0),
            ("memory.limit", "-1", -1.0),
            ("memory.overQuotaWeight", "5", 5.0),
            ("gpu.quota", "5", 5.0),
            ("cpu.limit", "5", 5.0),
        ],
    )
    def test_amounts_of_memory_are_megabytes_and_others_as_they_are(
        self, field: str, value: str, wanted: float
    ) -> None:
        changed = change_queue("poor", {field: value})(crowded().snapshot())
        queue = next(each for each in changed.queues if each.name == "poor")
        resource, _, amount = field.partition(".")
        share = getattr(queue, resource)
        assert getattr(share, {"overQuotaWeight": "over_quota_weight"}.get(amount, amount)) == wanted

    def test_a_gang_is_submitted(self) -> None:
        scene = Scene().node("n0", 2, labels={"zone": "a"}).queue("q")
        scene.extra = topology("zone")
        gang = submit_gang(
            "new",
            queue="q",
            pods=2,
            request=ONE_GPU,
            topology=TopologyConstraint(topology="t", required_level="zone"),
        )
        found = simulate(recorded(scene), gang)
        assert [(each.pod_group, each.pods) for each in found.starts] == [("default/new", 2)]
        assert "default/new" in found.text()

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            (add_nodes("x"), "there is no node x"),
            (remove_nodes("x"), "there is no node x"),
            (change_queue("x", {}), "there is no queue x"),
            (change_queue("poor", {"color": "red"}), "has no field color"),
            (change_queue("poor", {"gpu.quota": "many"}), "give a number"),
            (submit_gang("p", queue="poor", namespace=NS), "exists"),
        ],
    )
    def test_what_cannot_be_changed_is_told(self, change: Any, text: str) -> None:
        with pytest.raises(SchemaError, match=text):
            simulate(recorded(crowded()), change)


def test_a_pod_whose_binding_is_under_way_has_its_node() -> None:
    scene = gpu_node(1).group("early").pod("early", gpu=1).job("late", waiting=1, gpu=1)
    scene.extra["bind_requests"] = (BindRequestInfo(namespace=NS, name="early-0", pod="early-0", node="n0"),)
    rest = run_to_rest(scene.snapshot(), Settings())
    found = {pod.name: (pod.phase, pod.node) for pod in rest.snapshot.pods}
    assert found == {"early-0": ("Running", "n0"), "late-0": ("Pending", "")}
    assert rest.snapshot.bind_requests == ()


@pytest.mark.parametrize("case", ["elsewhere", "running", "none"])
def test_other_pods_stay_as_they_are(case: str) -> None:
    scene = gpu_node(0).group("a").pod("a", "n0" if case == "running" else "", gpu=1)
    if case != "none":
        node = "gone" if case == "elsewhere" else "n0"
        scene.extra["bind_requests"] = (BindRequestInfo(namespace=NS, name="a-0", pod="a-0", node=node),)
    rest = run_to_rest(scene.snapshot(), Settings())
    assert rest.snapshot.pods == scene.snapshot().pods
