"""Changes to a recorded cluster, and what it looks like when decisions are carried out."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import Key
from quarterdeck.errors import SchemaError
from quarterdeck.scheduler import Action, CycleResult, Settings
from quarterdeck.scheduler.decision import Bind, ClearStale, Decision, Evict, MarkStale, SetLastStart
from quarterdeck.scheduler.device import Allocation, ClaimInfo, PodClaim
from quarterdeck.scheduler.plan import add_nodes, change_queue, remove_nodes, run_to_rest, submit_gang
from quarterdeck.scheduler.plan.course import after
from quarterdeck.scheduler.resource import Resources
from quarterdeck.scheduler.snapshot import (
    BindRequestInfo,
    GpuShare,
    PriorityClassInfo,
    Snapshot,
    TopologyConstraint,
)

from .schedulerscene import NOW, NS, Scene, gpu_node, near

HOST = "kubernetes.io/hostname"


class TestAddNodes:
    def test_names_that_are_taken_are_passed_over(self) -> None:
        snapshot = Scene().node("n", 2).node("n-2").snapshot()
        assert [each.name for each in add_nodes("n", 3)(snapshot).nodes] == ["n", "n-2", "n-1", "n-3", "n-4"]
        assert [each.name for each in add_nodes("n")(snapshot).nodes] == ["n", "n-2", "n-1"]

    def test_they_are_as_large_and_in_good_health(self) -> None:
        scene = Scene().node("n", 2, is_ready=False, is_unschedulable=True, pressures=("DiskPressure",))
        model, made = add_nodes("n")(scene.snapshot()).nodes
        assert made.allocatable == model.allocatable
        assert (made.is_ready, made.is_unschedulable, made.pressures) == (True, False, ())

    @pytest.mark.parametrize(
        ("labels", "wanted"),
        [
            ({HOST: "n", "zone": "a"}, {HOST: "n-1", "zone": "b", "more": "x"}),
            ({"zone": "a"}, {"zone": "b", "more": "x"}),
        ],
    )
    def test_labels_are_its_own_the_host_and_those_given(
        self, labels: dict[str, str], wanted: dict[str, str]
    ) -> None:
        snapshot = Scene().node("n", labels=labels).snapshot()
        changed = add_nodes("n", labels={"zone": "b", "more": "x"})(snapshot)
        assert changed.nodes[1].labels == wanted
        assert changed.nodes[0].labels == labels


def test_pods_and_bind_requests_of_removed_nodes_begin_anew() -> None:
    scene = gpu_node().node("n1", 8).node("n2", 8).group("a").pod("a")
    for node in ("n0", "n1", "n2"):
        scene.pod("a", node, gpu_share=GpuShare(0.5), gpu_groups=(f"group-{node}",))
    scene.extra["bind_requests"] = tuple(
        BindRequestInfo(namespace=NS, name=node, pod="a-0", node=node) for node in ("n0", "n2")
    )
    changed = remove_nodes("n1", "n2")(scene.snapshot())
    assert [each.name for each in changed.nodes] == ["n0"]
    assert [(each.name, each.node, each.phase, each.gpu_groups) for each in changed.pods] == [
        ("a-0", "", "Pending", ()),
        ("a-1", "n0", "Running", ("group-n0",)),
        ("a-2", "", "Pending", ()),
        ("a-3", "", "Pending", ()),
    ]
    assert [each.name for each in changed.bind_requests] == ["n0"]


def test_one_queue_is_changed_and_the_others_stay() -> None:
    snapshot = Scene().queue("root").queue("q", "root").snapshot()
    root, queue = change_queue("q", {"priority": "7", "parentQueue": "new"})(snapshot).queues
    assert root == snapshot.queues[0]
    assert (queue.name, queue.priority, queue.parent) == ("q", 7, "new")
    with pytest.raises(SchemaError, match="priority cannot be 'high'"):
        change_queue("q", {"priority": "high"})(snapshot)
    with pytest.raises(SchemaError, match=r"has no field gpu\.color"):
        change_queue("q", {"gpu.color": 1})(snapshot)
    with pytest.raises(SchemaError, match=r"has no field disk\.quota"):
        change_queue("q", {"disk.quota": 1})(snapshot)


@pytest.mark.parametrize(("count", "told"), [(5, "a, b, c, d, e"), (6, "a, b, c, d, e…"), (0, "none")])
def test_a_few_of_those_there_are_are_named(count: int, told: str) -> None:
    scene = Scene()
    for name in reversed("abcdef"[:count]):
        scene.node(name)
    with pytest.raises(SchemaError) as caught:
        add_nodes("x")(scene.snapshot())
    assert str(caught.value) == f"there is no node x: the snapshot has {told}"


class TestSubmitGang:
    def test_one_pod_of_middle_priority_unless_told_otherwise(self) -> None:
        changed = submit_gang("new", queue="q")(gpu_node().snapshot())
        [group], [pod] = changed.pod_groups, changed.pods
        assert (group.namespace, group.name, group.uid, group.queue) == ("default", "new", "new", "q")
        assert (group.min_member, group.created, group.preemptibility) == (1, NOW, "")
        assert group.topology_constraint == TopologyConstraint()
        assert (pod.namespace, pod.name, pod.uid, pod.pod_group) == ("default", "new-0", "new-0", "new")
        assert (pod.created, pod.request, pod.gpu_share) == (NOW, Resources(), None)
        assert [
            each.value for each in changed.priority_classes if each.name == group.priority_class_name
        ] == [50]

    def test_all_of_it_can_be_told(self) -> None:
        changed = submit_gang(
            "new",
            queue="q",
            pods=3,
            minimum=0,
            request=Resources(1, 2, 3),
            gpu_share=GpuShare(0.5),
            priority=125,
            preemptibility="preemptible",
            topology=near("zone"),
            namespace=NS,
        )(gpu_node().job("old", waiting=1).snapshot())
        group, pods = changed.pod_groups[1], changed.pods[1:]
        assert (group.min_member, group.preemptibility, group.topology_constraint) == (
            0,
            "preemptible",
            near("zone"),
        )
        assert [each.name for each in pods] == ["new-0", "new-1", "new-2"]
        assert {(each.request, each.gpu_share) for each in pods} == {(Resources(1, 2, 3), GpuShare(0.5))}

    def test_its_priority_class_is_there_once(self) -> None:
        first = submit_gang("one", queue="q", priority=7)(gpu_node().snapshot())
        both = submit_gang("two", queue="q", priority=7)(first)
        assert both.priority_classes == first.priority_classes
        assert both.priority_classes[-1] == PriorityClassInfo(name="what-if-7", value=7)

    def test_the_same_name_elsewhere_is_free(self) -> None:
        snapshot = gpu_node().job("a", waiting=1).snapshot()
        assert len(submit_gang("a", queue="q")(snapshot).pod_groups) == 2
        with pytest.raises(SchemaError, match=f"pod group {NS}/a exists"):
            submit_gang("a", queue="q", namespace=NS)(snapshot)
        with pytest.raises(SchemaError, match="there is no queue x"):
            submit_gang("a", queue="x")(snapshot)


def carried_out(snapshot: Snapshot, *decisions: Decision) -> Snapshot:
    return after(snapshot, CycleResult(decisions=decisions, pods={}, queues={}))


class TestAfter:
    def evict(self, name: str) -> Evict:
        return Evict(
            pod=Key(NS, name), pod_group=Key(NS, "a"), node="n0", action=Action.PREEMPT, message="because"
        )

    def bind(self, name: str, **more: Any) -> Bind:
        return Bind(pod=Key(NS, name), pod_group=Key(NS, "a"), node="n0", **more)

    def test_pods_come_and_go(self) -> None:
        scene = gpu_node().group("a").pod("a", "n0", gpu_groups=("old",)).pod("a").pod("a")
        found = carried_out(scene.snapshot(), self.evict("a-0"), self.bind("a-1", gpu_groups=("new",)))
        assert found.now == NOW + 1
        assert [(each.phase, each.node, each.gpu_groups) for each in found.pods] == [
            ("Pending", "", ()),
            ("Running", "n0", ("new",)),
            ("Pending", "", ()),
        ]

    def test_gangs_are_noted(self) -> None:
        scene = gpu_node()
        for name in ("start", "stale", "whole", "same"):
            scene.group(name, last_start=1.0, stale_since=2.0)
        found = carried_out(
            scene.snapshot(),
            SetLastStart(Key(NS, "start"), 5.0),
            MarkStale(Key(NS, "stale"), 6.0),
            ClearStale(Key(NS, "whole")),
        )
        assert [(each.last_start, each.stale_since) for each in found.pod_groups] == [
            (5.0, 2.0),
            (1.0, 6.0),
            (1.0, None),
            (1.0, 2.0),
        ]

    def test_claims_have_devices_as_long_as_a_pod_with_a_node_uses_them(self) -> None:
        old, new = Allocation(node="n0"), Allocation(node="n1")
        scene = gpu_node().group("a").pod("a", "n0", claims=(PodClaim("mine", "left"),))
        scene.pod("a", "n0", claims=(PodClaim("mine", "kept"), PodClaim("theirs", "left")))
        scene.pod("a", claims=(PodClaim("mine", "given"),)).pod("a", claims=(PodClaim("mine", "waiting"),))
        names = ("left", "kept", "given", "waiting")
        scene.extra["claims"] = tuple(
            ClaimInfo(namespace=NS, name=name, allocation=old, consumers=("gone",)) for name in names
        )
        bind = self.bind("a-2", claims=(("mine", new),))
        found = carried_out(scene.snapshot(), self.evict("a-0"), bind)
        assert [(each.name, each.allocation, each.consumers) for each in found.claims] == [
            ("left", old, ("a-1",)),
            ("kept", old, ("a-1",)),
            ("given", new, ("a-2",)),
            ("waiting", None, ()),
        ]


class TestRest:
    def test_terminating_pods_are_gone_and_others_take_their_place(self) -> None:
        scene = gpu_node(1).group("old").pod("old", "n0", gpu=1, is_deleted=True)
        rest = run_to_rest(scene.job("new", waiting=1, gpu=1).snapshot(), Settings())
        assert [(each.name, each.node) for each in rest.snapshot.pods] == [("new-0", "n0")]
        assert (rest.cycles, rest.is_settled, rest.evictions) == (2, True, ())

    @pytest.mark.parametrize(("most", "cycles", "is_settled"), [(1, 1, False), (2, 2, False), (9, 3, True)])
    def test_it_ends_after_so_many_cycles(self, most: int, cycles: int, is_settled: bool) -> None:
        scene = gpu_node(1).job("low", "q", "n0", gpu=1).job("high", waiting=1, gpu=1, priority=75)
        rest = run_to_rest(scene.snapshot(), Settings(), most)
        assert (rest.cycles, rest.is_settled) == (cycles, is_settled)
        assert [each.pod.name for each in rest.evictions] == ([] if most == 1 else ["low-0"])

    def test_a_finished_pod_is_not_bound_again(self) -> None:
        scene = gpu_node(1).group("a").pod("a", gpu=1, phase="Succeeded")
        scene.extra["bind_requests"] = (BindRequestInfo(namespace=NS, name="a-0", pod="a-0", node="n0"),)
        rest = run_to_rest(scene.snapshot(), Settings())
        assert [(each.phase, each.node) for each in rest.snapshot.pods] == [("Succeeded", "")]

    def test_claims_of_bindings_under_way_are_given(self) -> None:
        given = Allocation(node="n0")
        scene = gpu_node(1).group("a").pod("a", gpu=1, claims=(PodClaim("mine", "c"),))
        scene.extra["claims"] = (ClaimInfo(namespace=NS, name="c"),)
        request = BindRequestInfo(
            namespace=NS, name="r", pod="a-0", node="n0", gpu_groups=("g",), claims=(("mine", given),)
        )
        scene.extra["bind_requests"] = (request,)
        rest = run_to_rest(scene.snapshot(), Settings())
        assert rest.snapshot.claims[0].allocation == given
        assert rest.snapshot.pods[0].gpu_groups == ("g",)
