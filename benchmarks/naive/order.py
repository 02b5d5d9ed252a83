"""Whose turn it is."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cmp_to_key

from quarterdeck.api import Key

from .cluster import Cluster, Vector, add, within


class Order(Cluster):
    """The order of queues and jobs."""

    def job_key(
        self, job: Key, counts: dict[str, int] | None = None, *, below: bool = False
    ) -> tuple[object, ...]:
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
            return -1 if one < other else 1
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

        def best(names: list[str]) -> str:
            leaf_of: dict[str, str] = {}
            for name in names:
                if name in heads:
                    leaf_of[name] = name
                elif any(self.has_head(child, heads) for child in self.children(name)):
                    leaf_of[name] = best(self.children(name))
            change = {name: heads[leaf] for name, leaf in leaf_of.items()}
            sign = -1 if victims else 1

            def compare(one: str, other: str) -> int:
                return sign * self.compare(one, other, change, victims=victims)

            ordered = sorted(leaf_of, key=cmp_to_key(compare))
            return leaf_of[ordered[0]]

        return best([name for name in self.children("") if self.has_head(name, heads)])

    def has_head(self, queue: str, heads: dict[str, Vector]) -> bool:
        return queue in heads or any(self.has_head(child, heads) for child in self.children(queue))

    def pop(
        self,
        waiting: Iterable[Key],
        special: dict[Key, list[Key]] | None = None,
        *,
        with_evicted: bool = False,
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
