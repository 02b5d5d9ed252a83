"""The search for victims, and what is demanded of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from quarterdeck.api import Key
from quarterdeck.scheduler.settings import Action

from .cluster import ACTIVE, RUNNING, State, Vector, add, within
from .placing import Placing


class Search(Placing):
    """Evicts jobs for others."""

    def evict(self, pod: Key) -> None:
        each = self.state[pod]
        each.before = (each.state, each.node, each.evicted)
        each.state, each.virtual, each.evicted = "Releasing", True, True

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
        self.accepted: list[tuple[Key, list[Key]]] = []
        start = self.state
        for count in range(1, len(tasks) + 1):
            self.state = {key: replace(pod) for key, pod in start.items()}
            result = self.solve(job, action, tasks[:count], candidates, recorded, usable, had)
            if result is None:
                return False
            recorded = result
        after = sum(self.used(job, leaf) for leaf in self.leaves[job])
        return self.satisfied(job) and after > before and self.lasts(job, tasks, start)

    def lasts(self, job: Key, tasks: list[Key], start: State) -> bool:
        """Whether the job gets its place, too, when everyone who waits is served in turn."""
        found, self.state = self.state, {key: replace(pod) for key, pod in start.items()}
        evicted = set()
        for victim, step in self.accepted:
            evicted.add(victim)
            for pod in step:
                self.evict(pod)
        ready = {
            each
            for each, info in self.jobs.items()
            if info.queue in self.queues and self.waits(each) and self.ready(each)
        }
        waiting = {job, *evicted, *(each for each in ready if not self.children(self.jobs[each].queue))}
        while True:
            each = self.pop(waiting, {job: tasks}, with_evicted=True)
            waiting.discard(each)
            pods = tasks if each == job else self.next_tasks(each, with_evicted=each in evicted)
            saved = {key: replace(pod) for key, pod in self.state.items()}
            is_placed = self.place(each, pods, sorted(self.nodes), real=False)
            if not is_placed:
                self.state = saved
            if each == job:
                self.state = found
                return is_placed

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
        self.kept: set[str] = set()
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
        nodes = sorted({*usable, *self.kept, *(saved[pod].node for _, step in steps for pod in step)})
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
            self.accepted = steps
            return True
        if good:
            self.kept |= {saved[pod].node for _, step in steps for pod in step}
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
                lost = [pod for pod in block if self.state[pod].state == "Releasing"]
                if not lost:
                    continue
                gone = self.wanted(lost)
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


def saturation(has: float, share: float) -> float:
    if share == 0:
        return math.inf if has > 0 else 0.0
    return 0.0 if share == -1 else has / share
