"""A cycle as a whole: what it takes from the snapshot, and what it decides."""

from typing import Any

import pytest
from msgspec.structs import replace

from quarterdeck.api import Key
from quarterdeck.scheduler import Action, Settings, Snapshot, schedule
from quarterdeck.scheduler.decision import (
    Bind,
    DeleteBindRequest,
    SetLastStart,
)
from quarterdeck.scheduler.resource import Resources
from quarterdeck.scheduler.settings import ALL_ACTIONS
from quarterdeck.scheduler.snapshot import BindRequestInfo, PodConstraints, QueueResource

from .schedulerscene import ALLOCATE, GIB, NS, Scene, gpu_node, only


def requested(scene: Scene, pod: str = "a-0", node: str = "n0", **fields: Any) -> Scene:
    """Add a bind request."""
    request = BindRequestInfo(namespace=NS, name=pod, pod=pod, node=node, **fields)
    scene.extra["bind_requests"] = (*scene.extra.get("bind_requests", ()), request)
    return scene


class TestBindRequests:
    def test_a_pod_with_a_request_is_on_its_way(self) -> None:
        outcome = requested(gpu_node(1).job("a", waiting=1, gpu=1)).run(ALLOCATE)
        assert outcome["a-0"] == ("Binding", "n0")
        assert outcome.decisions == ()

    def test_it_holds_its_node(self) -> None:
        scene = requested(gpu_node(1).job("a", waiting=1, gpu=1)).job("b", waiting=1, gpu=1)
        assert scene.run(ALLOCATE)["b-0"] == ("Pending", "")

    @pytest.mark.parametrize(
        ("fields", "is_deleted"),
        [
            ({"phase": "Failed"}, True),
            ({"phase": "Failed", "failed_attempts": 3, "backoff_limit": 3}, True),
            ({"phase": "Failed", "failed_attempts": 2, "backoff_limit": 3}, False),
            ({"phase": "Pending", "failed_attempts": 5}, False),
            ({"node": "gone"}, True),
        ],
    )
    def test_failed_requests_and_those_for_lost_nodes_are_deleted(
        self, fields: dict[str, Any], is_deleted: bool
    ) -> None:
        outcome = requested(gpu_node(1).job("a", waiting=1, gpu=1), **fields).run(ALLOCATE)
        assert outcome.of(DeleteBindRequest) == ([DeleteBindRequest(Key(NS, "a-0"))] if is_deleted else [])
        assert outcome["a-0"] == ("Allocated" if is_deleted else "Binding", "n0")

    def test_deletions_come_first(self) -> None:
        scene = requested(gpu_node(1).job("a", waiting=1, gpu=1), phase="Failed")
        assert [type(each) for each in scene.run(ALLOCATE).decisions] == [
            DeleteBindRequest,
            Bind,
            SetLastStart,
        ]

    def test_a_pod_that_has_its_node_needs_no_request(self) -> None:
        scene = requested(gpu_node(1).group("a").pod("a", "n0", gpu=1, phase="Pending"))
        assert scene.run(ALLOCATE)["a-0"] == ("Bound", "n0")


class TestSnapshot:
    def test_groups_of_equal_names_in_two_namespaces_are_two(self) -> None:
        scene = gpu_node(2).job("a", waiting=2, gpu=1)
        scene.groups.append(replace(scene.groups[0], namespace="far", created=9.0))
        scene.pods += [replace(pod, namespace="far") for pod in scene.pods]
        result = schedule(scene.snapshot(), ALLOCATE)
        assert {key: each.state.value for key, each in result.pods.items()} == {
            Key(NS, "a-0"): "Allocated",
            Key(NS, "a-1"): "Allocated",
            Key("far", "a-0"): "Pending",
            Key("far", "a-1"): "Pending",
        }

    def test_a_pod_belongs_to_a_group_of_its_own_namespace(self) -> None:
        scene = gpu_node(2).group("a")
        scene.pod("a", gpu=1)
        scene.pods[0] = replace(scene.pods[0], namespace="far")
        assert schedule(scene.snapshot(), ALLOCATE).pods == {}

    def test_pods_that_name_no_leaf_are_told_apart(self) -> None:
        scene = gpu_node(2).group("a").pod("a", gpu=1).pod("a", gpu=1, subgroup="nowhere")
        outcome = scene.run(ALLOCATE)
        assert outcome.result.ignored_pods == (Key(NS, "a-1"),)
        assert outcome["a-1"] == ("Pending", "")

    def test_pods_of_other_schedulers_are_left_alone(self) -> None:
        scene = gpu_node(2).group("a").pod("a", gpu=1, scheduler_name="default-scheduler")
        assert schedule(scene.snapshot(), ALLOCATE).pods == {}
        settings = only(Action.ALLOCATE, scheduler_name="default-scheduler")
        assert scene.run(settings)["a-0"] == ("Allocated", "n0")

    def test_shares_are_divided_without_what_other_schedulers_use(self) -> None:
        scene = gpu_node(4).pod("", "n0", gpu=1, name="x", scheduler_name="default-scheduler")
        outcome = scene.job("a", waiting=8, gpu=1).run(ALLOCATE)
        assert outcome.result.queues["q"].fair_share.gpu == 3

    @pytest.mark.parametrize(
        "fields", [{"is_ready": False}, {"is_unschedulable": True}, {"pressures": ("DiskPressure",)}]
    )
    def test_nodes_that_take_no_pods_are_not_shared(self, fields: dict[str, Any]) -> None:
        scene = gpu_node(4).node("n1", 4, **fields).job("a", waiting=8, gpu=1)
        assert scene.run(ALLOCATE).result.queues["q"].fair_share.gpu == 4

    def test_a_pod_on_a_node_that_is_gone_counts_for_its_queue_only(self) -> None:
        outcome = gpu_node(4).job("a", "q", "gone", gpu=1).run(ALLOCATE)
        assert outcome["a-0"] == ("Running", "gone")
        assert outcome.result.queues["q"].allocated.gpu == 1

    def test_queues_tell_what_they_have_in_the_end(self) -> None:
        scene = Scene().node("n0", 4).queue("d", gpu=(4, -1, 1)).queue("q", "d", (2, -1, 1))
        outcome = scene.job("r", "q", "n0", gpu=1, priority=100).job("a", waiting=2, gpu=1).run(ALLOCATE)
        share = outcome.result.queues["d"]
        assert share.allocated == Resources(3000, 3 * GIB, 3)
        assert share.allocated_non_preemptible == Resources(1000, GIB, 1)
        assert share.requested == Resources(3000, 3 * GIB, 3)

    def test_flat_fairness_ignores_departments(self) -> None:
        def scene() -> Scene:
            made = Scene().node("n0", 4).queue("d", gpu=(1, 1, 1)).queue("e", gpu=(3, 3, 1))
            return (
                made.queue("x", "d", (0, -1, 1)).queue("y", "e", (0, -1, 1)).job("a", "x", waiting=2, gpu=1)
            )

        assert set(scene().run(ALLOCATE).states("a")) == {"Pending"}
        flat = only(Action.ALLOCATE, full_hierarchy_fairness=False)
        assert set(scene().run(flat).states("a")) == {"Allocated"}

    def test_an_empty_cluster(self) -> None:
        assert schedule(Snapshot(now=0.0)).decisions == ()


def test_actions_run_in_this_order_by_default() -> None:
    assert [each.value for each in ALL_ACTIONS] == [
        "allocate",
        "consolidation",
        "reclaim",
        "preempt",
        "stalegangeviction",
    ]
    assert Settings().actions == ALL_ACTIONS


def test_only_the_actions_that_are_set_run() -> None:
    scene = gpu_node(1).job("low", "q", "n0", gpu=1).job("a", waiting=1, gpu=1, priority=75)
    assert scene.run(Settings(actions=(Action.ALLOCATE, Action.RECLAIM))).evicted() == []
    assert scene.run(Settings()).evicted() == ["low-0"]


def test_room_that_the_cycle_itself_gave_away_and_took_back_is_used_at_once() -> None:
    """Were it only promised, the next cycle would give it away and take it back again, for ever."""
    scene = Scene().queue("root").queue("q", "root").node("n0", 1, labels={"host": "n0"}).node("n1", 2)
    scene.job("first", waiting=1, gpu=1).group("bound")
    scene.pod("bound", gpu=1, constraints=PodConstraints(node_selector=(("host", "n0"),)))
    assert scene.run(ALLOCATE)["first-0"] == ("Allocated", "n0")
    outcome = scene.run()
    assert (outcome["first-0"], outcome["bound-0"]) == (("Allocated", "n1"), ("Allocated", "n0"))
    assert outcome.evicted() == []
    assert [each.pod_group.name for each in outcome.of(SetLastStart)] == ["bound", "first"]


def test_quotas_of_memory_are_in_bytes() -> None:
    scene = Scene().node("n0").queue("q", memory=QueueResource(0, GIB, 1)).job("a", waiting=2)
    assert "workload requested 2.147 GB" in scene.run(ALLOCATE).message("a")


@pytest.mark.parametrize("action", list(Action))
def test_pods_on_nodes_that_are_not_there_disturb_nobody(action: Action) -> None:
    """The node was removed, or belongs to another node pool."""
    scene = gpu_node(1).queue("other").job("lost", "other", "gone", gpu=1, least=2, stale_since=0.0)
    scene.job("low", "q", "n0", gpu=1, priority=40).job("a", waiting=1, gpu=1, priority=75)
    outcome = scene.run(only(action))
    stale = action is Action.STALE_GANG_EVICTION
    assert outcome.evicted() == (["lost-0"] if stale else ["low-0"] if action is Action.PREEMPT else [])
