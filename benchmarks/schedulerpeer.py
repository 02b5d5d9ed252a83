"""The scheduling cycle written for reading: what the scheduler is measured and checked against.

Everything is computed from the list of pods whenever it is needed, every node is scored for every pod, and
the whole state is copied wherever something may have to be taken back. It knows whole GPUs, CPU, memory, gangs,
topologies and queues, and nothing else: no shared GPUs, no constraints on nodes, no minimum runtimes, no messages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cmp_to_key

from quarterdeck.api import Key
from quarterdeck.scheduler.fairshare import Claim, divide
from quarterdeck.scheduler.job import is_preemptible, priority_of
from quarterdeck.scheduler.settings import Action, Settings
from quarterdeck.scheduler.snapshot import PodGroupInfo, PodInfo, QueueInfo, Snapshot, TopologyConstraint
from quarterdeck.scheduler.subgroup import Leaf, SubGroupSet, build_tree
from quarterdeck.scheduler.task import task_order

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


State = dict[Key, Pod]


def add(left: Vector, right: Vector, sign: int = 1) -> Vector:
    return (left[0] + sign * right[0], left[1] + sign * right[1], round(left[2] + sign * right[2], 6))


def within(left: Vector, right: Vector) -> bool:
    """``left`` ≤ ``right`` everywhere; -1 is infinite."""
    return all(b == -1 or (a != -1 and a <= b) for a, b in zip(left, right, strict=True))


class Peer:
    """One cycle."""

    def __init__(self, snapshot: Snapshot, settings: Settings) -> None:
        self.snapshot, self.settings = snapshot, settings
        self.nodes = {node.name: node for node in snapshot.nodes}
        self.infos: dict[Key, PodInfo] = {}
        self.state: State = {}
        self.queues = {queue.name: queue for queue in snapshot.queues}
        self.jobs = {group.key: group for group in snapshot.pod_groups}
        self.priority = {key: priority_of(job, snapshot.priority_classes) for key, job in self.jobs.items()}
        self.trees = {key: build_tree(job) for key, job in self.jobs.items()}
        self.leaves = {key: {leaf.name: leaf for leaf in tree.all_leaves()} for key, tree in self.trees.items()}
        self.members: dict[Key, list[Key]] = {key: [] for key in self.jobs}
        for pod in sorted(snapshot.pods, key=lambda pod: (task_order(pod), pod.key)):
            self.add_pod(pod)
        self.shares = self.fair_shares()
        self.levels = {topology.name: topology.levels for topology in snapshot.topologies}

    def add_pod(self, pod: PodInfo) -> None:
        group = Key(pod.namespace, pod.pod_group)
        if group not in self.jobs or (pod.subgroup or "default") not in self.leaves[group]:
            return
        state = pod.phase
        if pod.is_deleted:
            state = "Releasing"
        elif state == "Pending":
            state = "Bound" if pod.node else "Gated" if pod.is_gated else "Pending"
        self.infos[pod.key] = pod
        self.state[pod.key] = Pod(state, pod.node)
        self.members[group].append(pod.key)

    # -- what there is --------------------------------------------------------------------------------

    def request(self, pod: Key) -> Vector:
        request = self.infos[pod].request
        return (request.cpu, request.memory, request.gpu)

    def left(self, node: str, *, eventually: bool) -> tuple[float, float, float, float]:
        """CPU, memory, GPUs and pod slots: idle now, or free once everyone has come and gone."""
        info = self.nodes[node]
        cpu, memory, gpu = info.allocatable.cpu, info.allocatable.memory, info.allocatable.gpu
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
            if queue in {each.name for each in self.chain(info.queue)} and not (fixed and self.preemptible(job)):
                for pod in self.members[job]:
                    if self.state[pod].state in ACTIVE:
                        total = add(total, self.request(pod))
        return total

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

    # -- gangs ----------------------------------------------------------------------------------------

    def pods_of(self, job: Key, leaf: str) -> list[Key]:
        return [pod for pod in self.members[job] if (self.infos[pod].subgroup or "default") == leaf]

    def active(self, job: Key, leaf: str) -> int:
        return sum(self.state[pod].state in ACTIVE for pod in self.pods_of(job, leaf))

    def used(self, job: Key, leaf: str) -> int:
        return sum(self.state[pod].state in (*ACTIVE, "Releasing") for pod in self.pods_of(job, leaf))

    def ready(self, job: Key) -> bool:
        return all(
            sum(self.state[pod].state in (*ACTIVE, "Pending") for pod in self.pods_of(job, leaf)) >= each.minimum
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

    # -- whose turn it is -----------------------------------------------------------------------------

    def job_key(self, job: Key, counts: dict[str, int] | None = None, *, below: bool = False) -> tuple[object, ...]:
        rank = 1
        for leaf, each in self.leaves[job].items():
            count = counts[leaf] if counts is not None else self.active(job, leaf)
            if count < each.minimum or below:
                rank = 0
                break
            if count > each.minimum:
                rank = 2
        info = self.jobs[job]
        return (-self.priority[job], rank, info.created, job.name, job.namespace)

    def dominant(self, queue: str, has: Vector) -> float:
        largest = 0.0
        for amount, may, everything in zip(has, self.allocatable(queue), self.total(), strict=True):
            base = everything if may == -1 else may
            largest = max(largest, amount / base if base else amount * 1000)
        return largest

    def compare(self, left: str, right: str, change: dict[str, Vector], *, victims: bool) -> int:
        """Which queue comes first; ``change`` is what the next job of each adds, or takes away."""

        def key(queue: str) -> tuple[object, ...]:
            has = self.allocated(queue)
            after = add(has, change[queue])
            asked = has if victims else after
            return (
                all(share < amount for share, amount in zip(self.shares[queue], has, strict=True)),
                not within(asked, self.bound(queue, "quota")),
                -self.queues[queue].priority,
                any(a > 0 and may == 0 for a, may in zip(asked, self.allocatable(queue), strict=True)),
                self.dominant(queue, after),
                self.dominant(queue, has),
            )

        one, other = key(left), key(right)
        if one != other:
            return -1 if one < other else 1  # type: ignore[operator]
        mine, theirs = self.allocatable(left), self.allocatable(right)
        if mine != theirs:
            if within(mine, theirs):
                return -1
            if within(theirs, mine):
                return 1
        ages = [(self.queues[each].created, each) for each in (left, right)]
        return -1 if ages[0] < ages[1] else 1

    def next_leaf(self, heads: dict[str, Vector], *, victims: bool) -> str:
        """The leaf queue to take from; ``heads`` has what the next job of each leaf changes."""

        def best(names: list[str]) -> tuple[str, dict[str, str]]:
            leaf_of = {}
            for name in names:
                if name in heads:
                    leaf_of[name] = name
                elif any(self.has_head(child, heads) for child in self.children(name)):
                    leaf_of[name] = best(self.children(name))[0]
            change = {name: heads[leaf] for name, leaf in leaf_of.items()}
            sign = -1 if victims else 1
            ordered = sorted(
                leaf_of,
                key=cmp_to_key(lambda a, b: sign * self.compare(a, b, change, victims=victims)),
            )
            return leaf_of[ordered[0]], leaf_of

        return best([name for name in self.children("") if self.has_head(name, heads)])[0]

    def has_head(self, queue: str, heads: dict[str, Vector]) -> bool:
        return queue in heads or any(self.has_head(child, heads) for child in self.children(queue))

    # -- placing --------------------------------------------------------------------------------------

    def within_capacity(self, job: Key, pods: list[Key]) -> bool:
        need = self.wanted(pods)
        for queue in self.chain(self.jobs[job].queue):
            checks = [(self.bound(queue.name, "limit"), self.allocated(queue.name))]
            if not self.preemptible(job):
                checks.append((self.bound(queue.name, "quota"), self.allocated(queue.name, fixed=True)))
            for bound, has in checks:
                for limit, amount, more in zip(bound, has, need, strict=True):
                    if more and limit != -1 and limit < amount + more:
                        return False
        return True

    def place(self, job: Key, pods: list[Key], nodes: list[str], *, real: bool) -> bool:
        if not self.within_capacity(job, pods):
            return False
        return self.place_set(job, self.trees[job], pods, nodes, {}, real=real)

    def place_set(
        self,
        job: Key,
        group: SubGroupSet | Leaf,
        pods: list[Key],
        nodes: list[str],
        scores: dict[str, int],
        *,
        real: bool,
    ) -> bool:
        names = {leaf.name for leaf in group.all_leaves()} if isinstance(group, SubGroupSet) else {group.name}
        mine = [pod for pod in pods if (self.infos[pod].subgroup or "default") in names]
        if not mine:
            return True
        for node_set, own in self.node_sets(job, group.constraint, sorted(names), mine, nodes):
            saved = {key: replace(pod) for key, pod in self.state.items()}
            if isinstance(group, Leaf):
                placed = all(self.place_pod(pod, node_set, own or scores, real=real) for pod in mine)
            else:
                leaves = {leaf.name: leaf for leaf in group.leaves}
                ordered = [
                    leaves[name]
                    for name in self.leaf_order(job, lambda leaf: self.active(job, leaf))
                    if name in leaves
                ]
                parts: list[SubGroupSet | Leaf] = [*group.sets, *ordered]
                placed = all(
                    self.place_set(job, part, mine, node_set, own or scores, real=real) for part in parts
                )
            if placed:
                return True
            self.state = saved
        return False

    def place_pod(self, pod: Key, nodes: list[str], scores: dict[str, int], *, real: bool) -> bool:
        gpu = self.request(pod)[2] > 0
        free = {name: self.left(name, eventually=True)[2 if gpu else 0] for name in nodes}
        have = [
            free[name]
            for name in nodes
            if (self.nodes[name].allocatable.gpu if gpu else self.nodes[name].allocatable.cpu) > 0
        ]

        def score(name: str) -> float:
            total = float(scores.get(name, 0))
            if self.fits(pod, name, eventually=False):
                total += 100
            if not gpu and not self.nodes[name].allocatable.gpu:
                total += 10
            info = self.nodes[name].allocatable
            if have and (info.gpu if gpu else info.cpu) and max(have) > 0:
                low, high = min(have), max(have)
                total += 9 * (1 - (free[name] - low) / (high - low)) if high > low else 9
            return total

        for name in sorted(nodes, key=lambda name: (-score(name), name)):
            if not self.fits(pod, name, eventually=True):
                continue
            each = self.state[pod]
            if each.state == "Releasing" and each.node == name:
                each.state, each.node, each.evicted = each.before
                each.virtual = False
                return True
            if each.state == "Releasing" and each.before[0] in RUNNING:
                each.leaving = each.node
            now = self.fits(pod, name, eventually=False) and real
            each.state, each.node, each.virtual = "Allocated" if now else "Pipelined", name, True
            return True
        return False

    # -- topology -------------------------------------------------------------------------------------

    def domain(self, node: str, levels: tuple[str, ...], depth: int) -> str | None:
        labels = self.nodes[node].labels
        if not all(level in labels for level in levels):
            return None
        return ".".join(labels[level] for level in levels[:depth]) or "root"

    def node_sets(
        self,
        job: Key,
        constraint: TopologyConstraint | None,
        leaves: list[str],
        pods: list[Key],
        nodes: list[str],
    ) -> list[tuple[list[str], dict[str, int]]]:
        if constraint is None or not constraint.topology:
            return [(nodes, {})]
        levels = self.levels.get(constraint.topology)
        if levels is None:
            return []
        required = levels.index(constraint.required_level) + 1 if constraint.required_level else None
        preferred = levels.index(constraint.preferred_level) + 1 if constraint.preferred_level else None
        inside = [name for name in self.nodes if self.domain(name, levels, 0) is not None]
        mine = [name for name in nodes if name in inside]
        start = 0
        while start < (preferred if preferred is not None else len(levels)):
            if len({self.domain(name, levels, start + 1) for name in mine}) != 1:
                break
            start += 1

        def of(depth: int, identity: str) -> list[str]:
            return [name for name in inside if self.domain(name, levels, depth) == identity]

        need = self.wanted(pods)

        def tightness(members: list[str]) -> float:
            free = [sum(self.left(name, eventually=True)[i] for name in members) for i in range(3)]
            ratios = [n / f if f > 0 else math.inf for n, f in zip(need, free, strict=True) if n]
            return max(ratios, default=0.0)

        def fits(members: list[str]) -> bool:
            requests = [self.request(pod) for pod in pods]
            if len({request[2] > 0 for request in requests}) > 1:
                return tightness(members) <= 1
            largest = [max(request[i] for request in requests) for i in range(3)]
            count = 0
            for name in members:
                left = self.left(name, eventually=True)
                copies = [int(left[i] // largest[i]) for i in range(3) if largest[i]]
                count += max(0, min([*copies, int(left[3])]))
            return count >= len(pods)

        home = self.domain(mine[0], levels, start) if mine else "root"
        assert home is not None
        if not fits(of(start, home)):
            return []
        by_depth: dict[int, list[str]] = {}
        for depth in range(len(levels) + 1):
            if depth <= start:
                found = {self.domain(name, levels, depth) for name in mine}
                by_depth[depth] = [each for each in found if each is not None]
                continue
            row = []
            for parent in by_depth[depth - 1]:
                below = {
                    self.domain(name, levels, depth) or "" for name in of(depth - 1, parent)
                }
                row += sorted(below, key=lambda each: (-tightness(of(depth, each)), each))  # noqa: B023
            by_depth[depth] = row
        scores = {}
        if preferred is not None:
            for index, each in enumerate(by_depth[preferred]):
                for name in of(preferred, each):
                    scores[name] = 10000 * math.floor((index + 1) / len(by_depth[preferred]) * 10)
        occupied = set()
        for leaf in leaves:
            for pod in self.pods_of(job, leaf):
                if self.state[pod].state in ACTIVE and required is not None:
                    occupied.add(self.domain(self.state[pod].node, levels, required))
        found_sets = []
        for depth in range(max(required or 0, preferred or 0), (required or 0) - 1, -1):
            for each in by_depth[depth]:
                members = of(depth, each)
                if occupied and self.domain(members[0], levels, required or 0) not in occupied:
                    continue
                if fits(members):
                    found_sets.append(([name for name in members if name in mine], scores))
        return found_sets

    # -- actions --------------------------------------------------------------------------------------

    def run(self) -> State:
        for action in self.settings.actions:
            if action is Action.ALLOCATE:
                self.allocate()
            elif action is Action.STALE_GANG_EVICTION:
                self.evict_stale()
            else:
                self.evict_for(action)
        return self.state

    def considered(self) -> list[Key]:
        return [
            job
            for job, info in self.jobs.items()
            if info.queue in self.queues
            and not self.children(info.queue)
            and self.waits(job)
            and self.ready(job)
        ]

    def in_turn(self, jobs: Iterable[Key]) -> Iterator[Key]:
        waiting = set(jobs)
        while waiting:
            job = self.pop(waiting)
            waiting.discard(job)
            again = yield job
            if again:
                waiting.add(job)

    def pop(
        self, waiting: Iterable[Key], special: dict[Key, list[Key]] | None = None, *, with_evicted: bool = False
    ) -> Key:
        special = special or {}
        heads: dict[str, Key] = {}
        for job in waiting:
            queue = self.jobs[job].queue
            if queue not in heads or self.job_key(job, below=job in special) < self.job_key(
                heads[queue], below=heads[queue] in special
            ):
                heads[queue] = job

        def pods(job: Key) -> list[Key]:
            return special.get(job) or self.next_tasks(job, with_evicted=with_evicted)

        change = {queue: self.wanted(pods(job)) for queue, job in heads.items()}
        return heads[self.next_leaf(change, victims=False)]

    def allocate(self) -> None:
        waiting = set(self.considered())
        while waiting:
            job = self.pop(waiting)
            waiting.discard(job)
            saved = {key: replace(pod) for key, pod in self.state.items()}
            if not self.place(job, self.next_tasks(job, with_evicted=False), sorted(self.nodes), real=True):
                self.state = saved
                continue
            if self.must_wait(job):
                for pod in self.members[job]:
                    if self.state[pod].state == "Allocated" and saved[pod].state == "Pending":
                        self.state[pod].state = "Pipelined"
            self.settle()
            if self.waits(job):
                waiting.add(job)

    def must_wait(self, job: Key) -> bool:
        for leaf, each in self.leaves[job].items():
            states = [self.state[pod].state for pod in self.pods_of(job, leaf)]
            promised = states.count("Pipelined")
            if promised and sum(state in RUNNING for state in states) < each.minimum:
                return True
        return False

    def settle(self) -> None:
        """What was tried is decided; pods that this cycle placed and then evicted only wait again."""
        for pod in self.state.values():
            state, _, was_evicted = pod.before
            if pod.virtual and pod.evicted and state in ("Allocated", "Pipelined") and not was_evicted:
                pod.leaving, pod.evicted = "", False
                if pod.state == "Releasing":
                    pod.state, pod.node = "Pending", ""
            if pod.virtual and pod.state == "Releasing" and pod.leaving:
                pod.node, pod.leaving = pod.leaving, ""
            pod.virtual = False
            pod.before = ("", "", False)

    def evict(self, pod: Key) -> None:
        each = self.state[pod]
        each.before = (each.state, each.node, each.evicted)
        each.state, each.virtual, each.evicted = "Releasing", True, True

    def evict_for(self, action: Action) -> None:
        if action is Action.CONSOLIDATION and not self.settings.max_consolidation_preemptees:
            return
        waiting = set(self.considered())
        while waiting:
            job = self.pop(waiting)
            waiting.discard(job)
            if self.may_try(job, action):
                saved = {key: replace(pod) for key, pod in self.state.items()}
                if self.search(job, action):
                    self.settle()
                else:
                    self.state = saved

    def may_try(self, job: Key, action: Action) -> bool:
        pods = self.next_tasks(job, with_evicted=False)
        queue = self.jobs[job].queue
        need = self.wanted(pods)
        if action is Action.CONSOLIDATION:
            spare = sum(self.left(name, eventually=True)[2] for name in self.nodes)
            return self.preemptible(job) and spare >= need[2]
        if action is Action.RECLAIM:
            if not within(add(self.allocated(queue), need), self.shares[queue]):
                return False
            fixed = add(self.allocated(queue, fixed=True), need)
            return self.preemptible(job) or within(fixed, self.bound(queue, "quota"))
        if self.preemptible(job):
            return True
        for each in self.chain(queue):
            bound, has = self.bound(each.name, "quota"), self.allocated(each.name, fixed=True)
            if any(more and q != -1 and q < a + more for q, a, more in zip(bound, has, need, strict=True)):
                return False
        return True

    def candidates(self, job: Key, action: Action) -> list[Key]:
        found = []
        for other, info in self.jobs.items():
            if other == job or not self.preemptible(other):
                continue
            if not any(self.state[pod].state in ACTIVE for pod in self.members[other]):
                continue
            same = info.queue == self.jobs[job].queue
            if action is Action.RECLAIM and same:
                continue
            if action is Action.PREEMPT and not (same and self.priority[other] < self.priority[job]):
                continue
            found.append(other)
        most = self.settings.max_consolidation_preemptees
        if action is Action.CONSOLIDATION and most >= 0:
            return [each for each, _ in zip(self.victim_jobs(found), range(most), strict=False)]
        return found

    def victim_jobs(self, jobs: list[Key]) -> Iterator[Key]:
        for job, _ in self.victims(jobs, frozenset(), whole=True):
            yield job

    def victims(
        self, jobs: list[Key], recorded: frozenset[Key], *, whole: bool = False
    ) -> Iterator[tuple[Key, list[Key]]]:
        """Steps in victim order."""
        left = {job: [p for p in self.members[job] if self.state[p].state in ACTIVE] for job in jobs}
        taken: dict[str, Vector] = {}

        def held(pods: list[Key]) -> Vector:
            return self.wanted(pod for pod in pods if self.state[pod].state in RUNNING)

        def counts(job: Key) -> dict[str, int]:
            return {
                leaf: sum((self.infos[pod].subgroup or "default") == leaf for pod in left[job])
                for leaf in self.leaves[job]
            }

        while left:
            heads: dict[str, Key] = {}
            for job in left:
                queue = self.jobs[job].queue
                if queue not in heads or self.job_key(job, counts(job)) > self.job_key(
                    heads[queue], counts(heads[queue])
                ):
                    heads[queue] = job
            gone = {
                queue: add((0, 0, 0), add(taken.get(queue, (0, 0, 0)), held(left[job])), -1)
                for queue, job in heads.items()
            }
            queue = self.next_leaf(gone, victims=True)
            job = heads[queue]
            taken[queue] = add(taken.get(queue, (0, 0, 0)), held(left[job]))
            if whole:
                yield job, left.pop(job)
                continue
            step = self.next_victims(job, left[job], counts(job))
            known = any(pod in recorded for pod in step)
            left[job] = [pod for pod in left[job] if pod not in (recorded if known else step)]
            if not left[job]:
                del left[job]
            if not known:
                yield job, step

    def next_victims(self, job: Key, pods: list[Key], counts: dict[str, int]) -> list[Key]:
        ordered = self.leaf_order(job, lambda leaf: counts[leaf])[::-1]
        above = any(counts[leaf] > each.minimum for leaf, each in self.leaves[job].items())
        found = []
        for leaf in ordered:
            mine = [pod for pod in pods if (self.infos[pod].subgroup or "default") == leaf][::-1]
            if above:
                return mine[:1]
            found += mine
        return found

    def search(self, job: Key, action: Action) -> bool:
        tasks = self.next_tasks(job, with_evicted=False)
        before = sum(self.used(job, leaf) for leaf in self.leaves[job])
        usable = sorted(self.nodes)
        if all(self.request(pod)[2] > 0 for pod in self.members[job]):
            usable = [
                name
                for name in usable
                if self.left(name, eventually=True)[2] > 0 or self.left(name, eventually=False)[2] > 0
            ]
        candidates = self.candidates(job, action)
        had = {queue: (self.allocated(queue), self.allocated(queue, fixed=True)) for queue in self.queues}
        recorded: list[tuple[Key, list[Key]]] = []
        start = self.state
        for count in range(1, len(tasks) + 1):
            self.state = {key: replace(pod) for key, pod in start.items()}
            result = self.solve(job, action, tasks[:count], candidates, recorded, usable, had)
            if result is None:
                return False
            recorded = result
        after = sum(self.used(job, leaf) for leaf in self.leaves[job])
        return self.satisfied(job) and after > before

    def solve(
        self,
        job: Key,
        action: Action,
        tasks: list[Key],
        candidates: list[Key],
        recorded: list[tuple[Key, list[Key]]],
        usable: list[str],
        had: dict[str, tuple[Vector, Vector]],
    ) -> list[tuple[Key, list[Key]]] | None:
        if recorded and self.attempt(job, action, tasks, recorded, usable, had):
            return self.disturbed(recorded)
        known = frozenset(pod for _, step in recorded for pod in step)
        steps: list[tuple[Key, list[Key]]] = []
        start = self.state
        for victim, step in self.victims(candidates, known):
            steps.append((victim, step))
            places = sorted({start[pod].node for pod in self.members[victim] if start[pod].node})
            for place in places:
                here = {each for each, pods in steps if any(start[pod].node == place for pod in pods)}
                chosen = [*recorded, *(each for each in steps if each[0] in here)]
                if self.attempt(job, action, tasks, chosen, usable, had):
                    return self.disturbed(chosen)
        return None

    def disturbed(self, steps: list[tuple[Key, list[Key]]]) -> list[tuple[Key, list[Key]]]:
        return [each for each in steps if any(self.state[pod].evicted for pod in each[1])]

    def attempt(
        self,
        job: Key,
        action: Action,
        tasks: list[Key],
        steps: list[tuple[Key, list[Key]]],
        usable: list[str],
        had: dict[str, tuple[Vector, Vector]],
    ) -> bool:
        saved = self.state
        self.state = {key: replace(pod) for key, pod in saved.items()}
        nodes = sorted({*usable, *(saved[pod].node for _, step in steps for pod in step)})
        for _, step in steps:
            for pod in step:
                self.evict(pod)
        special = {job: tasks}
        evicted = {each for each, _ in steps}
        waiting = {each for each, info in self.jobs.items() if self.waits(each) and info.queue in self.queues}
        waiting |= {job, *evicted}
        good = True
        while waiting and good:
            each = self.pop(waiting, special, with_evicted=True)
            waiting.discard(each)
            if each == job:
                good = self.place(job, tasks, nodes, real=False)
            elif each in evicted:
                kept = {key: replace(pod) for key, pod in self.state.items()}
                if not self.place(each, self.next_tasks(each, with_evicted=True), nodes, real=False):
                    self.state = kept
        if good and self.allowed(job, action, tasks, steps, had):
            return True
        self.state = saved
        return False

    def allowed(
        self,
        job: Key,
        action: Action,
        tasks: list[Key],
        steps: list[tuple[Key, list[Key]]],
        had: dict[str, tuple[Vector, Vector]],
    ) -> bool:
        lost = [pod for _, step in steps for pod in step if self.state[pod].state == "Releasing"]
        if action is Action.CONSOLIDATION:
            return not lost
        if action is Action.PREEMPT:
            return True
        return self.reclaimable(job, tasks, steps, had)

    def reclaimable(
        self,
        job: Key,
        tasks: list[Key],
        steps: list[tuple[Key, list[Key]]],
        had: dict[str, tuple[Vector, Vector]],
    ) -> bool:
        request = self.wanted(tasks)
        mine = [each.name for each in self.chain(self.jobs[job].queue)][::-1]
        remaining = {queue: amounts[0] for queue, amounts in had.items()}
        touched: dict[str, set[int]] = {}
        pods_of: dict[Key, list[Key]] = {}
        for victim, step in steps:
            pods_of.setdefault(victim, []).extend(step)
        for victim, pods in pods_of.items():
            surplus, core = [], []
            for leaf, each in self.leaves[victim].items():
                here = [pod for pod in pods if (self.infos[pod].subgroup or "default") == leaf]
                core += here[: each.minimum]
                surplus += here[each.minimum :]
            blocks = [[pod] for pod in pods if pod in surplus] + [core]
            theirs = [each.name for each in self.chain(self.jobs[victim].queue)][::-1]
            parted = next(pair for pair in zip(mine, theirs, strict=False) if pair[0] != pair[1])
            for block in blocks:
                gone = self.wanted(pod for pod in block if self.state[pod].state == "Releasing")
                if not any(gone):
                    continue
                over_share = not within(remaining[parted[1]], self.allocatable(parted[1]))
                starved = within(add(had[parted[0]][0], request), self.bound(parted[0], "quota"))
                over_quota = not within(remaining[parted[1]], self.bound(parted[1], "quota"))
                if not over_share and not (starved and over_quota):
                    return False
                for queue in theirs:
                    remaining[queue] = add(remaining[queue], gone, -1)
                    touched.setdefault(queue, set()).update(i for i in range(3) if gone[i] > 0)
        for queue in mine:
            after = add(remaining[queue], request)
            for sibling, involved in touched.items():
                if self.queues[sibling].parent != self.queues[queue].parent or sibling == queue:
                    continue
                for i in involved | {i for i in range(3) if request[i] > 0}:
                    own, other = self.shares[queue][i], self.shares[sibling][i]
                    if own == other == -1:
                        continue
                    ratio, rival = saturation(after[i], own), saturation(remaining[sibling][i], other)
                    if ratio > 1 and other > 0 and ratio >= rival:
                        return False
            fixed = add(had[queue][1], request)
            if not self.preemptible(job) and not within(fixed, self.bound(queue, "quota")):
                return False
        return True

    def evict_stale(self) -> None:
        for job, info in self.jobs.items():
            states = [self.state[pod].state for pod in self.members[job]]
            if "Succeeded" in states or not any(state in (*ACTIVE, "Releasing") for state in states):
                continue
            since = info.stale_since if info.stale_since is not None else self.snapshot.now
            grace = self.settings.staleness_grace_period
            if not self.satisfied(job) and 0 <= grace <= self.snapshot.now - since:
                for pod in self.members[job]:
                    if self.state[pod].state in ACTIVE:
                        self.evict(pod)
        self.settle()


def saturation(has: float, share: float) -> float:
    if share == 0:
        return math.inf if has > 0 else 0.0
    return 0.0 if share == -1 else has / share


def schedule(snapshot: Snapshot, settings: Settings) -> State:
    """What becomes of every pod."""
    return Peer(snapshot, settings).run()


def group_of(info: PodGroupInfo) -> Key:
    return info.key
