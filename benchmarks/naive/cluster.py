"""Pods, nodes, queues and gangs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from quarterdeck.api import Key
from quarterdeck.scheduler.model.fairshare import Claim, divide
from quarterdeck.scheduler.model.job import is_preemptible, priority_of
from quarterdeck.scheduler.model.subgroup import build_tree
from quarterdeck.scheduler.model.task import task_order
from quarterdeck.scheduler.settings import Settings
from quarterdeck.scheduler.snapshot import PodInfo, QueueInfo, Snapshot

RUNNING = ("Bound", "Running", "Allocated")
ACTIVE = (*RUNNING, "Pipelined")
Vector = tuple[float, float, float]


@dataclass
class Pod:
    """Where a pod is."""

    state: str
    node: str = ""
    leaving: str = ""
    """The node it still occupies although it was promised another."""
    virtual: bool = False
    evicted: bool = False
    before: tuple[str, str, bool] = ("", "", False)
    """State, node and whether it was evicted already, before the eviction."""
    turn: int = 0
    """When it was last given or promised a node."""


State = dict[Key, Pod]


def add(left: Vector, right: Vector, sign: int = 1) -> Vector:
    return (left[0] + sign * right[0], left[1] + sign * right[1], round(left[2] + sign * right[2], 6))


def within(left: Vector, right: Vector) -> bool:
    """``left`` ≤ ``right`` everywhere; -1 is infinite."""
    return all(b == -1 or (a != -1 and a <= b) for a, b in zip(left, right, strict=True))


class Cluster:
    """A snapshot, and what a cycle made of its pods."""

    def __init__(self, snapshot: Snapshot, settings: Settings) -> None:
        self.snapshot, self.settings = snapshot, settings
        self.nodes = {node.name: node for node in snapshot.nodes}
        self.infos: dict[Key, PodInfo] = {}
        self.state: State = {}
        self.turns = 0
        self.unopposed: set[Key] = set()
        """Jobs that found a place without sending away anybody who was there."""
        self.queues = {queue.name: queue for queue in snapshot.queues}
        self.jobs = {group.key: group for group in snapshot.pod_groups}
        self.priority = {key: priority_of(job, snapshot.priority_classes) for key, job in self.jobs.items()}
        self.trees = {key: build_tree(job) for key, job in self.jobs.items()}
        self.leaves = {
            key: {leaf.name: leaf for leaf in tree.all_leaves()} for key, tree in self.trees.items()
        }
        self.members: dict[Key, list[Key]] = {key: [] for key in self.jobs}
        for pod in sorted(snapshot.pods, key=lambda pod: (task_order(pod), pod.key)):
            self.add_pod(pod)
        self.shares = self.fair_shares()
        self.levels = {topology.name: topology.levels for topology in snapshot.topologies}

    def add_pod(self, pod: PodInfo) -> None:
        group = Key(pod.namespace, pod.pod_group)
        if group not in self.jobs or (pod.subgroup or "default") not in self.leaves[group]:
            return
        state: str = pod.phase
        if pod.is_deleted:
            state = "Releasing"
        elif state == "Pending":
            state = "Bound" if pod.node else "Gated" if pod.is_gated else "Pending"
        self.infos[pod.key] = pod
        self.state[pod.key] = Pod(state, pod.node)
        self.members[group].append(pod.key)

    def request(self, pod: Key) -> Vector:
        request = self.infos[pod].request
        return (request.cpu, request.memory, request.gpu)

    def left(self, node: str, *, eventually: bool) -> tuple[float, float, float, float]:
        """CPU, memory, GPUs and pod slots: idle now, or free once everyone has come and gone."""
        info = self.nodes[node]
        cpu, memory, gpu = map(float, (info.allocatable.cpu, info.allocatable.memory, info.allocatable.gpu))
        slots = info.pods
        for key, pod in self.state.items():
            takes = 0
            if pod.node == node and pod.state in RUNNING:
                takes += 1
            if eventually:
                takes += pod.node == node and pod.state == "Pipelined"
            else:
                takes += pod.node == node and pod.state == "Releasing" and pod.before[0] != "Pipelined"
                takes += pod.leaving == node
            request = self.request(key)
            cpu, memory, gpu = cpu - takes * request[0], memory - takes * request[1], gpu - takes * request[2]
            slots -= takes
        return (cpu, memory, gpu, slots)

    def fits(self, pod: Key, node: str, *, eventually: bool) -> bool:
        left = self.left(node, eventually=eventually)
        return all(has >= need for has, need in zip(left, (*self.request(pod), 1), strict=True))

    def chain(self, queue: str) -> Iterator[QueueInfo]:
        while queue:
            yield self.queues[queue]
            queue = self.queues[queue].parent

    def children(self, queue: str) -> list[str]:
        return sorted(each.name for each in self.queues.values() if each.parent == queue)

    def preemptible(self, job: Key) -> bool:
        return is_preemptible(self.jobs[job].preemptibility, self.priority[job])

    def allocated(self, queue: str, *, fixed: bool = False) -> Vector:
        total: Vector = (0, 0, 0)
        for job, info in self.jobs.items():
            if queue in {each.name for each in self.chain(info.queue)} and not (
                fixed and self.preemptible(job)
            ):
                for pod in self.members[job]:
                    if self.state[pod].state in ACTIVE:
                        total = add(total, self.request(pod))
        return total

    def has_now(self, pod: Key) -> bool:
        """Whether queues have room for a pod before those that terminate are gone."""
        mine = Key(pod.namespace, self.infos[pod].pod_group)
        for queue in self.chain(self.jobs[mine].queue):
            for fixed in (False, True):
                if fixed and self.preemptible(mine):
                    continue
                bound = self.bound(queue.name, "quota" if fixed else "limit")
                there = leaving = (0.0, 0.0, 0.0)
                for job, info in self.jobs.items():
                    if queue not in self.chain(info.queue) or (fixed and self.preemptible(job)):
                        continue
                    for key in self.members[job]:
                        each = self.state[key]
                        if key != pod and (
                            each.state in RUNNING or (each.state == "Pipelined" and each.virtual)
                        ):
                            there = add(there, self.request(key))
                        if (each.state == "Releasing" and each.node) or each.leaving:
                            leaving = add(leaving, self.request(key))
                total = add(add(there, leaving), self.request(pod))
                for limit, gone, amount in zip(bound, leaving, total, strict=True):
                    if gone and limit != -1 and amount > limit:
                        return False
        return True

    def total(self) -> Vector:
        total: Vector = (0, 0, 0)
        for node in self.nodes.values():
            total = add(total, (node.allocatable.cpu, node.allocatable.memory, node.allocatable.gpu))
        return total

    def bound(self, queue: str, kind: str) -> Vector:
        info = self.queues[queue]
        return (getattr(info.cpu, kind), getattr(info.memory, kind), getattr(info.gpu, kind))

    def fair_shares(self) -> dict[str, Vector]:
        shares: dict[str, Vector] = {}

        def requested(queue: str) -> Vector:
            total = self.allocated(queue)
            for job, info in self.jobs.items():
                if queue in {each.name for each in self.chain(info.queue)}:
                    for pod in self.members[job]:
                        if self.state[pod].state == "Pending":
                            total = add(total, self.request(pod))
            return total

        def share_out(names: list[str], total: Vector) -> None:
            if not names:
                return
            results = []
            for resource in range(3):
                claims = [
                    Claim(
                        name=name,
                        quota=self.bound(name, "quota")[resource],
                        limit=self.bound(name, "limit")[resource],
                        weight=self.bound(name, "over_quota_weight")[resource],
                        request=requested(name)[resource],
                        priority=self.queues[name].priority,
                        created=self.queues[name].created,
                    )
                    for name in names
                ]
                results.append(divide(total[resource], claims, self.settings.k_value))
            for name in names:
                shares[name] = (results[0][name], results[1][name], results[2][name])
                share_out(self.children(name), shares[name])

        share_out(self.children(""), self.total())
        return shares

    def allocatable(self, queue: str) -> Vector:
        amounts = []
        quotas, limits = self.bound(queue, "quota"), self.bound(queue, "limit")
        for quota, limit, share in zip(quotas, limits, self.shares[queue], strict=True):
            entitled = limit if quota == -1 else max(quota, share)
            amounts.append(entitled if quota == -1 or limit == -1 else min(limit, entitled))
        return (amounts[0], amounts[1], amounts[2])

    def pods_of(self, job: Key, leaf: str) -> list[Key]:
        return [pod for pod in self.members[job] if (self.infos[pod].subgroup or "default") == leaf]

    def active(self, job: Key, leaf: str) -> int:
        return sum(self.state[pod].state in ACTIVE for pod in self.pods_of(job, leaf))

    def used(self, job: Key, leaf: str) -> int:
        return sum(self.state[pod].state in (*ACTIVE, "Releasing") for pod in self.pods_of(job, leaf))

    def ready(self, job: Key) -> bool:
        return all(
            sum(self.state[pod].state in (*ACTIVE, "Pending") for pod in self.pods_of(job, leaf))
            >= each.minimum
            for leaf, each in self.leaves[job].items()
        )

    def satisfied(self, job: Key) -> bool:
        return all(self.used(job, leaf) >= each.minimum for leaf, each in self.leaves[job].items())

    def waits(self, job: Key) -> bool:
        return any(self.state[pod].state == "Pending" for pod in self.members[job])

    def leaf_order(self, job: Key, count: Callable[[str], int]) -> list[str]:
        def key(leaf: str) -> tuple[bool, float, str]:
            least = self.leaves[job][leaf].minimum
            enough = count(leaf) >= least
            return (enough, count(leaf) / least if enough else 0.0, leaf)

        return sorted(self.leaves[job], key=key)

    def next_tasks(self, job: Key, *, with_evicted: bool) -> list[Key]:
        def placeable(leaf: str) -> list[Key]:
            found = []
            for pod in self.pods_of(job, leaf):
                each = self.state[pod]
                if each.state == "Pending" or (with_evicted and each.state == "Releasing" and each.virtual):
                    found.append(pod)
            return found

        ordered = self.leaf_order(job, lambda leaf: self.active(job, leaf))
        below = [leaf for leaf in ordered if self.active(job, leaf) < self.leaves[job][leaf].minimum]
        if below:
            return [
                pod
                for leaf in below
                for pod in placeable(leaf)[: self.leaves[job][leaf].minimum - self.active(job, leaf)]
            ]
        return next((placeable(leaf)[:1] for leaf in ordered if placeable(leaf)), [])

    def wanted(self, pods: Iterable[Key]) -> Vector:
        total: Vector = (0, 0, 0)
        for pod in pods:
            total = add(total, self.request(pod))
        return total
