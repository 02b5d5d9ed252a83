"""A cycle as a whole: what it takes from the snapshot, what it may decide, and that cycles come to rest."""

import random
from collections import Counter, defaultdict

import pytest
from msgspec.structs import replace

from quarterdeck.api import Key
from quarterdeck.scheduler import Action, CycleResult, Settings, Snapshot, schedule
from quarterdeck.scheduler.decision import (
    Bind,
    ClearStale,
    DeleteBindRequest,
    Evict,
    MarkStale,
    PodState,
    SetLastStart,
)
from quarterdeck.scheduler.model.cluster import Cluster
from quarterdeck.scheduler.model.resource import Resources
from quarterdeck.scheduler.model.state import ACTIVE
from quarterdeck.scheduler.settings import ALL_ACTIONS
from quarterdeck.scheduler.snapshot import BindRequestInfo, PodConstraints, QueueResource

from .schedulerscene import ALL, ALLOCATE, GIB, NS, Scene, gpu_node, only, random_cluster, uniform_cluster


def requested(scene: Scene, pod: str = "a-0", node: str = "n0", **fields: object) -> Scene:
    """Add a bind request."""
    request = BindRequestInfo(namespace=NS, name=pod, pod=pod, node=node, **fields)
    scene.extra["bind_requests"] = (*scene.extra.get("bind_requests", ()), request)
    return scene


class TestBindRequests:
    def test_a_pod_with_a_request_is_on_its_way(self):
        outcome = requested(gpu_node(1).job("a", waiting=1, gpu=1)).run(ALLOCATE)
        assert outcome["a-0"] == ("Binding", "n0")
        assert outcome.decisions == ()

    def test_it_holds_its_node(self):
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
    def test_failed_requests_and_those_for_lost_nodes_are_deleted(self, fields: dict, is_deleted: bool):
        outcome = requested(gpu_node(1).job("a", waiting=1, gpu=1), **fields).run(ALLOCATE)
        assert outcome.of(DeleteBindRequest) == ([DeleteBindRequest(Key(NS, "a-0"))] if is_deleted else [])
        assert outcome["a-0"] == ("Allocated" if is_deleted else "Binding", "n0")

    def test_deletions_come_first(self):
        scene = requested(gpu_node(1).job("a", waiting=1, gpu=1), phase="Failed")
        assert [type(each) for each in scene.run(ALLOCATE).decisions] == [
            DeleteBindRequest,
            Bind,
            SetLastStart,
        ]

    def test_a_pod_that_has_its_node_needs_no_request(self):
        scene = requested(gpu_node(1).group("a").pod("a", "n0", gpu=1, phase="Pending"))
        assert scene.run(ALLOCATE)["a-0"] == ("Bound", "n0")


class TestSnapshot:
    def test_groups_of_equal_names_in_two_namespaces_are_two(self):
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

    def test_a_pod_belongs_to_a_group_of_its_own_namespace(self):
        scene = gpu_node(2).group("a")
        scene.pod("a", gpu=1)
        scene.pods[0] = replace(scene.pods[0], namespace="far")
        assert schedule(scene.snapshot(), ALLOCATE).pods == {}

    def test_pods_that_name_no_leaf_are_told_apart(self):
        scene = gpu_node(2).group("a").pod("a", gpu=1).pod("a", gpu=1, subgroup="nowhere")
        outcome = scene.run(ALLOCATE)
        assert outcome.result.ignored_pods == (Key(NS, "a-1"),)
        assert outcome["a-1"] == ("Pending", "")

    def test_pods_of_other_schedulers_are_left_alone(self):
        scene = gpu_node(2).group("a").pod("a", gpu=1, scheduler_name="default-scheduler")
        assert schedule(scene.snapshot(), ALLOCATE).pods == {}
        settings = only(Action.ALLOCATE, scheduler_name="default-scheduler")
        assert scene.run(settings)["a-0"] == ("Allocated", "n0")

    def test_shares_are_divided_without_what_other_schedulers_use(self):
        scene = gpu_node(4).pod("", "n0", gpu=1, name="x", scheduler_name="default-scheduler")
        outcome = scene.job("a", waiting=8, gpu=1).run(ALLOCATE)
        assert outcome.result.queues["q"].fair_share.gpu == 3

    @pytest.mark.parametrize(
        "fields", [{"is_ready": False}, {"is_unschedulable": True}, {"pressures": ("DiskPressure",)}]
    )
    def test_nodes_that_take_no_pods_are_not_shared(self, fields: dict):
        scene = gpu_node(4).node("n1", 4, **fields).job("a", waiting=8, gpu=1)
        assert scene.run(ALLOCATE).result.queues["q"].fair_share.gpu == 4

    def test_a_pod_on_a_node_that_is_gone_counts_for_its_queue_only(self):
        outcome = gpu_node(4).job("a", "q", "gone", gpu=1).run(ALLOCATE)
        assert outcome["a-0"] == ("Running", "gone")
        assert outcome.result.queues["q"].allocated.gpu == 1

    def test_queues_tell_what_they_have_in_the_end(self):
        scene = Scene().node("n0", 4).queue("d", gpu=(4, -1, 1)).queue("q", "d", (2, -1, 1))
        outcome = scene.job("r", "q", "n0", gpu=1, priority=100).job("a", waiting=2, gpu=1).run(ALLOCATE)
        share = outcome.result.queues["d"]
        assert share.allocated == Resources(3000, 3 * GIB, 3)
        assert share.allocated_non_preemptible == Resources(1000, GIB, 1)
        assert share.requested == Resources(3000, 3 * GIB, 3)

    def test_flat_fairness_ignores_departments(self):
        def scene() -> Scene:
            made = Scene().node("n0", 4).queue("d", gpu=(1, 1, 1)).queue("e", gpu=(3, 3, 1))
            return (
                made.queue("x", "d", (0, -1, 1)).queue("y", "e", (0, -1, 1)).job("a", "x", waiting=2, gpu=1)
            )

        assert set(scene().run(ALLOCATE).states("a")) == {"Pending"}
        flat = only(Action.ALLOCATE, full_hierarchy_fairness=False)
        assert set(scene().run(flat).states("a")) == {"Allocated"}

    def test_an_empty_cluster(self):
        assert schedule(Snapshot(now=0.0)).decisions == ()


def test_actions_run_in_this_order_by_default():
    assert [each.value for each in ALL_ACTIONS] == [
        "allocate",
        "consolidation",
        "reclaim",
        "preempt",
        "stalegangeviction",
    ]
    assert Settings().actions == ALL_ACTIONS


def test_only_the_actions_that_are_set_run():
    scene = gpu_node(1).job("low", "q", "n0", gpu=1).job("a", waiting=1, gpu=1, priority=75)
    assert scene.run(Settings(actions=(Action.ALLOCATE, Action.RECLAIM))).evicted() == []
    assert scene.run(Settings()).evicted() == ["low-0"]


def test_room_that_the_cycle_itself_gave_away_and_took_back_is_used_at_once():
    """Were it only promised, the next cycle would give it away and take it back again, for ever."""
    scene = Scene().queue("root").queue("q", "root").node("n0", 1, labels={"host": "n0"}).node("n1", 2)
    scene.job("first", waiting=1, gpu=1).group("bound")
    scene.pod("bound", gpu=1, constraints=PodConstraints(node_selector=(("host", "n0"),)))
    assert scene.run(ALLOCATE)["first-0"] == ("Allocated", "n0")
    outcome = scene.run()
    assert (outcome["first-0"], outcome["bound-0"]) == (("Allocated", "n1"), ("Allocated", "n0"))
    assert outcome.evicted() == []
    assert [each.pod_group.name for each in outcome.of(SetLastStart)] == ["first", "bound"]


# -- what must hold for any cluster -----------------------------------------------------------------------


def after(snapshot: Snapshot, result: CycleResult) -> Snapshot:
    """The next snapshot: pods that were bound run, evicted ones are back and wait."""
    binds = {each.pod: each for each in result.decisions if isinstance(each, Bind)}
    gone = {each.pod for each in result.decisions if isinstance(each, Evict)}
    pods = []
    for pod in snapshot.pods:
        if pod.is_deleted or pod.key in gone:
            pods.append(replace(pod, is_deleted=False, node="", phase="Pending", gpu_groups=()))
        elif pod.key in binds:
            bind = binds[pod.key]
            pods.append(replace(pod, node=bind.node, phase="Running", gpu_groups=bind.gpu_groups))
        else:
            pods.append(pod)
    stale = {group.key: group.stale_since for group in snapshot.pod_groups}
    for each in result.decisions:
        if isinstance(each, MarkStale):
            stale[each.pod_group] = each.time
        elif isinstance(each, ClearStale):
            stale[each.pod_group] = None
    groups = tuple(replace(group, stale_since=stale[group.key]) for group in snapshot.pod_groups)
    return replace(snapshot, pods=tuple(pods), pod_groups=groups, now=snapshot.now + 30)


@pytest.mark.parametrize("make", [random_cluster, uniform_cluster])
@pytest.mark.parametrize("start", range(0, 90, 30))
def test_cycles_come_to_rest(make, start: int):
    for seed in range(start, start + 30):
        snapshot, _ = make(seed)
        for _ in range(12):
            result = schedule(snapshot, Settings())
            if not any(isinstance(each, Bind | Evict) for each in result.decisions):
                break
            snapshot = after(snapshot, result)
        else:
            pytest.fail(f"cluster {seed} finds no rest")


def evicts_only_whom_it_may(snapshot: Snapshot, result: CycleResult) -> None:
    """Gangs lose surplus or everything; those that cannot be preempted lose nothing; no one evicts itself."""
    cluster = Cluster(snapshot, ALL)
    losers = set()
    for evict in result.decisions:
        if not isinstance(evict, Evict) or evict.action is Action.STALE_GANG_EVICTION:
            continue
        job = cluster.jobs[evict.pod_group]
        assert job.is_preemptible
        assert evict.preemptor != evict.pod_group
        assert result.pods[evict.pod].state in (PodState.RELEASING, PodState.PIPELINED)
        losers.add(job)
        if evict.action is Action.PREEMPT:
            assert evict.preemptor is not None
            assert job.queue is cluster.jobs[evict.preemptor].queue
            assert job.priority < cluster.jobs[evict.preemptor].priority
        elif evict.action is Action.RECLAIM:
            assert evict.preemptor is not None
            assert job.queue is not cluster.jobs[evict.preemptor].queue
    for job in losers:
        left = [
            sum(result.pods[task.key].state in ACTIVE for task in leaf.tasks) - leaf.minimum
            for leaf in job.leaves.values()
            if leaf.active >= leaf.minimum
        ]
        is_gone = not any(result.pods[task.key].state in ACTIVE for task in job.tasks)
        assert is_gone or all(count >= 0 for count in left)


def nodes_are_not_overcommitted(snapshot: Snapshot, result: CycleResult) -> None:
    held: dict[str, Resources] = defaultdict(Resources)
    slots: Counter[str] = Counter()
    for pod in snapshot.pods:
        outcome = result.pods[pod.key]
        node = pod.node or (outcome.node if outcome.state is PodState.ALLOCATED else "")
        if node:
            held[node] += pod.request
            slots[node] += 1
    for node in snapshot.nodes:
        assert held[node.name].cpu <= node.allocatable.cpu
        assert held[node.name].memory <= node.allocatable.memory
        assert held[node.name].gpu <= node.allocatable.gpu
        assert slots[node.name] <= node.pods


def gangs_start_whole(snapshot: Snapshot, result: CycleResult) -> None:
    bound = {each.pod for each in result.decisions if isinstance(each, Bind)}
    cluster = Cluster(snapshot, ALL)
    for job in cluster.jobs.values():
        if not any(task.key in bound for task in job.tasks):
            continue
        for leaf in job.leaves.values():
            there = sum(
                task.key in bound or (task.state in ACTIVE and result.pods[task.key].state in ACTIVE)
                for task in leaf.tasks
            )
            assert there >= leaf.minimum


@pytest.mark.parametrize("make", [random_cluster, uniform_cluster])
@pytest.mark.parametrize("start", range(0, 200, 50))
def test_decisions_keep_the_rules(make, start: int):
    for seed in range(start, start + 50):
        snapshot, settings = make(seed)
        result = schedule(snapshot, settings)
        evicts_only_whom_it_may(snapshot, result)
        nodes_are_not_overcommitted(snapshot, result)
        gangs_start_whole(snapshot, result)


def test_limits_hold_at_every_level():
    for seed in range(60):
        snapshot, _ = random_cluster(seed)
        result = schedule(snapshot, Settings())
        before = Cluster(snapshot, ALL)
        for name, share in result.queues.items():
            queue = before.queues[name]
            for index, (had, has) in enumerate(
                zip(
                    queue.allocated,
                    (share.allocated.cpu, share.allocated.memory, share.allocated.gpu),
                    strict=True,
                )
            ):
                limit = queue.limit[index]
                assert has <= max(limit, had) or limit == -1


def test_equal_snapshots_give_equal_decisions():
    for seed in range(20):
        snapshot, settings = random_cluster(seed)
        chance = random.Random(seed)
        mixed = replace(
            snapshot,
            **{
                name: tuple(chance.sample(values := getattr(snapshot, name), len(values)))
                for name in ("nodes", "pods", "pod_groups", "queues", "priority_classes")
            },
        )
        assert schedule(mixed, settings) == schedule(snapshot, settings)


def test_quotas_of_memory_are_in_bytes():
    scene = Scene().node("n0").queue("q", memory=QueueResource(0, GIB, 1)).job("a", waiting=2)
    assert "workload requested 2.147 GB" in scene.run(ALLOCATE).message("a")
