"""What must hold for any cluster, over random ones.

A few hundred are looked at by default; the environment variable ``QUARTERDECK_CLUSTERS`` says how many, and
`make properties` takes ten thousand.
"""

import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from quarterdeck.api import Key
from quarterdeck.scheduler import Action, CycleResult, PodState, Settings, Snapshot, schedule
from quarterdeck.scheduler.decision import Bind, Evict, Pipeline
from quarterdeck.scheduler.device import DeviceId
from quarterdeck.scheduler.model.cluster import Cluster
from quarterdeck.scheduler.model.job import Job
from quarterdeck.scheduler.model.state import ACTIVE
from quarterdeck.scheduler.model.subgroup import Leaf, SubGroupSet
from quarterdeck.scheduler.resource import Resources
from quarterdeck.scheduler.snapshot import PodInfo
from tests.unit.scheduler.randomclaims import claiming_cluster
from tests.unit.scheduler.randomcluster import bounded_cluster, picky_cluster, random_cluster, uniform_cluster
from tests.unit.scheduler.schedulerscene import ALL

from .settling import after, changes, cycles

CLUSTERS = int(os.environ.get("QUARTERDECK_CLUSTERS", "400"))
KINDS = 5
"""Kinds of clusters."""
PARTS = 4
"""Tests per kind of cluster: they can run side by side."""
PATIENCE = 16
"""Cycles after which a cluster must have come to rest."""

HOLDS_NODE = (PodState.BINDING, PodState.BOUND, PodState.RUNNING, PodState.RELEASING)
PENDING = PodState.PENDING

Make = Callable[[int], tuple[Snapshot, Settings]]


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


def occupants(snapshot: Snapshot, result: CycleResult) -> dict[str, list[PodInfo]]:
    """The pods on each node when what was decided is done and nobody who must leave has left."""
    binds = {each.pod: each for each in result.decisions if isinstance(each, Bind)}
    found = defaultdict(list)
    for pod in snapshot.pods:
        bind = binds.get(pod.key)
        if bind is not None:
            assert not pod.node
            found[bind.node].append(replace(pod, node=bind.node, gpu_groups=bind.gpu_groups))
        elif pod.node:
            found[pod.node].append(pod)
    return found


def nodes_are_not_overcommitted(snapshot: Snapshot, result: CycleResult) -> None:
    there = occupants(snapshot, result)
    for node in snapshot.nodes:
        pods = there[node.name]
        held = sum((pod.request for pod in pods), Resources())
        shared = Counter[str]()
        for pod in pods:
            if pod.gpu_share is not None:
                assert len(pod.gpu_groups) == pod.gpu_share.devices
                units = pod.gpu_share.memory or pod.gpu_share.portion * (node.gpu_memory or 100)
                shared.update(dict.fromkeys(pod.gpu_groups, int(units)))
        assert held.cpu <= node.allocatable.cpu
        assert held.memory <= node.allocatable.memory
        assert held.gpu + len(shared) <= node.allocatable.gpu
        assert all(units <= (node.gpu_memory or 100) for units in shared.values())
        assert len(pods) <= node.pods


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


def limits_hold(snapshot: Snapshot, result: CycleResult) -> None:
    """No queue exceeds a bound that it did not exceed before, not even until those who leave are gone."""
    before = Cluster(snapshot, ALL)
    there: dict[str, list[list[float]]] = defaultdict(lambda: [[0, 0, 0], [0, 0, 0]])
    for node, pods in occupants(snapshot, result).items():
        for pod in pods:
            job = before.jobs.get(Key(pod.namespace, pod.pod_group))
            task = before.tasks.get(pod.key)
            if job is None or task is None or job.queue is None or task.state not in (*HOLDS_NODE, PENDING):
                continue
            charge = before.nodes[node].charge(task.shape) if node in before.nodes else task.wanted
            for queue in job.queue.chain:
                for account in there[queue.name][: 1 if job.is_preemptible else 2]:
                    for index, amount in enumerate(charge):
                        account[index] += amount
    for name, queue in before.queues.items():
        everything, fixed = there[name]
        for index in range(3):
            had = queue.allocated[index] + queue.leaving.all[index]
            bound = queue.limit[index]
            assert bound == -1 or everything[index] <= max(bound, had) + 1e-6, f"{name} exceeds its limit"
            had = queue.non_preemptible[index] + queue.leaving.non_preemptible[index]
            bound = queue.quota[index]
            assert bound == -1 or fixed[index] <= max(bound, had) + 1e-6, f"{name} exceeds its quota"


def required_topology_holds(snapshot: Snapshot, result: CycleResult) -> None:
    """Pods that are bound to a part of a gang are in the domain of those that are there, or in one."""
    cluster = Cluster(snapshot, ALL)
    binds = {each.pod: each.node for each in result.decisions if isinstance(each, Bind)}
    evicted = {each.pod for each in result.decisions if isinstance(each, Evict)}
    levels = {each.name: each.levels for each in snapshot.topologies}
    for job in cluster.jobs.values():
        for group, leaves in parts_of(job):
            constraint = group.constraint
            if constraint is None or not constraint.required_level:
                continue
            order = levels[constraint.topology]
            above = order[: order.index(constraint.required_level) + 1]
            tasks = [task for leaf in leaves for task in leaf.tasks]
            new = {binds[task.key] for task in tasks if task.key in binds}
            old = {task.node.name for task in tasks if task.node is not None and task.state in ACTIVE}
            labels = {name: cluster.nodes[name].info.labels for name in new | old}

            place = {name: tuple(labels[name].get(level) for level in above) for name in labels}

            if len({place[name] for name in old}) > 1:
                continue  # it was in pieces before
            assert len({place[name] for name in new}) <= 1
            left = {task.node.name for task in tasks if task.node is not None and task.key not in evicted}
            if new and left & old:
                assert {place[name] for name in new} == {place[name] for name in left & old}


def devices_have_one_owner(snapshot: Snapshot, result: CycleResult) -> None:
    """No device is given to two claims, nor to a claim that has others, nor away from its node."""
    owners: dict[DeviceId, Key] = {}
    claims = {claim.key: claim for claim in snapshot.claims}
    for claim in snapshot.claims:
        if claim.allocation is not None:
            owners.update((each.device, claim.key) for each in claim.allocation.devices)
    devices = {device.id: device for device in snapshot.devices.devices}
    pods = {pod.key: pod for pod in snapshot.pods}
    for bind in result.decisions:
        if not isinstance(bind, Bind):
            continue
        used = {each.reference: Key(bind.pod.namespace, each.claim) for each in pods[bind.pod].claims}
        assert {reference for reference, _ in bind.claims} == set(used)
        for reference, allocation in bind.claims:
            key = used[reference]
            asked = claims[key].requests
            had = claims[key].allocation
            assert had is None or had == allocation
            for each in allocation.devices:
                assert owners.setdefault(each.device, key) == key
                assert devices[each.device].node in ("", bind.node)
            given = Counter(each.request for each in allocation.devices)
            assert len(given) == len(asked)
            assert all(any(given[choice.name] == choice.count for choice in choices) for choices in asked)


def parts_of(job: Job) -> Iterator[tuple[SubGroupSet | Leaf, list[Leaf]]]:
    ahead = [job.root]
    while ahead:
        group = ahead.pop()
        yield group, [*group.all_leaves()]
        yield from ((leaf, [leaf]) for leaf in group.leaves)
        ahead += group.sets


def nobody_waits_beside_free_room(snapshot: Snapshot, result: CycleResult) -> None:
    """At rest nothing is promised, and no single pod that needs nothing but whole resources finds room."""
    assert not any(isinstance(each, Pipeline) for each in result.decisions)
    cluster = Cluster(snapshot, ALL)
    there = occupants(snapshot, result)
    for job in cluster.jobs.values():
        tasks = job.tasks_to_allocate()
        if len(tasks) != 1 or not job.is_ready or not job.is_plain or job.queue is None:
            continue
        pod = tasks[0].info
        if pod.gpu_share is not None or pod.claims or pod.constraints != type(pod.constraints)():
            continue
        if any(each.constraints.affinity for each in snapshot.pods) or not passes(job, pod.request):
            continue
        for node in snapshot.nodes:
            held = sum((each.request for each in there[node.name]), Resources())
            devices = {group for each in there[node.name] for group in each.gpu_groups}
            left = node.allocatable - held - pod.request
            fits = min(left.cpu, left.memory, left.gpu - len(devices)) >= 0
            assert not fits or len(there[node.name]) >= node.pods, f"{pod.key} fits on {node.name}"


def passes(job: Job, request: Resources) -> bool:
    assert job.queue is not None
    wanted = (request.cpu, request.memory, request.gpu)
    for queue in job.queue.chain:
        for index, amount in enumerate(wanted):
            if amount and queue.limit[index] != -1 and queue.allocated[index] + amount > queue.limit[index]:
                return False
            over = queue.non_preemptible[index] + amount > queue.quota[index] != -1
            if amount and not job.is_preemptible and over:
                return False
    return True


def is_the_same_in_any_order(snapshot: Snapshot, settings: Settings, chance: random.Random) -> None:
    names = ("nodes", "pods", "pod_groups", "queues", "priority_classes", "bind_requests")
    mixed = {
        name: (values := getattr(snapshot, name)) and chance.sample(values, len(values)) for name in names
    }
    shuffled = replace(snapshot, **{name: tuple(values) for name, values in mixed.items()})
    assert schedule(shuffled, settings) == schedule(snapshot, settings)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(
    "make", [random_cluster, uniform_cluster, picky_cluster, claiming_cluster, bounded_cluster]
)
def test_every_cluster_comes_to_rest_and_no_rule_is_broken_on_the_way(make: Make, part: int) -> None:
    for seed in range(part, CLUSTERS // KINDS, PARTS):
        snapshot, settings = make(seed)
        if seed % 8 == part:
            is_the_same_in_any_order(snapshot, settings, random.Random(seed))
        try:
            no_rule_is_broken(snapshot, settings)
        except AssertionError as error:
            raise AssertionError(f"{make.__name__}({seed}): {error}") from error


def test_a_shared_claim_that_moves_takes_all_its_pods_along() -> None:
    """A cluster in which three of four pods stayed on a device that another claim was given."""
    no_rule_is_broken(*claiming_cluster(1667))


def no_rule_is_broken(snapshot: Snapshot, settings: Settings) -> None:
    one_cycle(snapshot, schedule(snapshot, settings))
    victims_take_their_time(snapshot, replace(settings, actions=tuple(Action)))
    # Nobody would finish the termination of pods that terminate, nor remove a gate.
    gone = tuple(pod for pod in snapshot.pods if not pod.is_deleted)
    comes_to_rest(replace(snapshot, pods=gone), replace(settings, actions=tuple(Action)))


def victims_take_their_time(snapshot: Snapshot, settings: Settings) -> None:
    """What is decided while pods terminate; every third cycle they are gone and made anew."""
    for number in range(PATIENCE):
        result = schedule(snapshot, settings)
        one_cycle(snapshot, result)
        if not changes(result):
            return
        evicted = {each.pod for each in result.decisions if isinstance(each, Evict)}
        others = tuple(each for each in result.decisions if not isinstance(each, Evict))
        snapshot = after(snapshot, replace(result, decisions=others))
        pods = tuple(replace(pod, is_deleted=pod.is_deleted or pod.key in evicted) for pod in snapshot.pods)
        if number % 3 == 2:
            pods = tuple(made_anew(pod) if pod.is_deleted else pod for pod in pods)
        snapshot = replace(snapshot, pods=pods)


def made_anew(pod: PodInfo) -> PodInfo:
    return replace(pod, is_deleted=False, phase="Pending", node="", gpu_groups=())


def one_cycle(snapshot: Snapshot, result: CycleResult) -> None:
    evicts_only_whom_it_may(snapshot, result)
    nodes_are_not_overcommitted(snapshot, result)
    gangs_start_whole(snapshot, result)
    limits_hold(snapshot, result)
    required_topology_holds(snapshot, result)
    devices_have_one_owner(snapshot, result)


def comes_to_rest(snapshot: Snapshot, settings: Settings) -> None:
    for seen, result in cycles(snapshot, settings, PATIENCE):
        one_cycle(seen, result)
        if not changes(result):
            nobody_waits_beside_free_room(seen, result)
            return
    raise AssertionError(f"no rest after {PATIENCE} cycles")
