"""The actions of a cycle."""

from __future__ import annotations

from dataclasses import replace

from quarterdeck.api import Key
from quarterdeck.scheduler.settings import Action

from .cluster import ACTIVE, RUNNING, State, add, within
from .search import Search


class Actions(Search):
    """One cycle."""

    def run(self) -> State:
        for action in self.settings.actions:
            if action is Action.ALLOCATE:
                self.allocate()
            elif action is Action.STALE_GANG_EVICTION:
                self.evict_stale()
            else:
                self.evict_for(action)
        self.keep_promises()
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

    def keep_promises(self) -> None:
        """What was promised to those for whom nobody has to go is given at once; gangs get all or nothing."""
        promised = sorted(
            (key for key, pod in self.state.items() if pod.state == "Pipelined"),
            key=lambda key: self.state[key].turn,
        )
        groups = [Key(key.namespace, self.infos[key].pod_group) for key in promised]
        for job in dict.fromkeys(groups):
            mine = [self.state[pod] for pod in self.members[job]]
            for key, pod in zip(self.members[job], mine, strict=True):
                if (
                    job in self.unopposed
                    and pod.state == "Pipelined"
                    and not pod.evicted
                    and self.fits(key, pod.node, eventually=False)
                    and self.has_now(key)
                ):
                    pod.state = "Allocated"
            if self.must_wait(job):
                for pod in mine:
                    if pod.state == "Allocated":
                        pod.state = "Pipelined"

    def evict_for(self, action: Action) -> None:
        if action is Action.CONSOLIDATION and not self.settings.max_consolidation_preemptees:
            return
        waiting = set(self.considered())
        while waiting:
            job = self.pop(waiting)
            waiting.discard(job)
            if self.ready(job) and self.may_try(job, action):
                saved = {key: replace(pod) for key, pod in self.state.items()}
                if self.search(job, action):
                    changed = [key for key, pod in self.state.items() if pod.virtual]
                    if not any(self.was_there(key) for key in changed if self.state[key].evicted):
                        groups = [Key(key.namespace, self.infos[key].pod_group) for key in changed]
                        self.unopposed.update(groups)
                    self.settle()
                else:
                    self.state = saved

    def was_there(self, pod: Key) -> bool:
        """Whether an evicted pod had its node before the cycle, and was not evicted earlier in it."""
        state, _, was_evicted = self.state[pod].before
        return state in ("Bound", "Running") and not was_evicted

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
