"""Placing the pods of a job, all or none."""

from __future__ import annotations

import math
from dataclasses import replace

from quarterdeck.api import Key
from quarterdeck.scheduler.model.subgroup import Leaf, SubGroupSet
from quarterdeck.scheduler.snapshot import TopologyConstraint

from .cluster import ACTIVE, RUNNING
from .order import Order


class Placing(Order):
    """Finds nodes for pods."""

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
            now = real and self.fits(pod, name, eventually=False) and self.has_now(pod)
            each.state, each.node, each.virtual = "Allocated" if now else "Pipelined", name, True
            self.turns += 1
            each.turn = self.turns
            return True
        return False

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
                below = {self.domain(name, levels, depth) or "" for name in of(depth - 1, parent)}
                row += sorted(below, key=lambda each: (-tightness(of(depth, each)), each))
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
