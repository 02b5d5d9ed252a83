"""All changes of a cycle go through the transaction: it can take them back, and it turns them into decisions.

A change is written down with what is needed to undo it. A search tries something, looks at the result and
rolls back to where it was; what proves right is committed. Nothing is ever copied.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, TypeAlias

from msgspec.structs import replace

from quarterdeck.scheduler.decision import Bind, Decision, Evict, Pipeline, PodState
from quarterdeck.scheduler.device import Allocation
from quarterdeck.scheduler.model.cluster import Cluster
from quarterdeck.scheduler.model.hold import Hold
from quarterdeck.scheduler.model.job import Job
from quarterdeck.scheduler.model.node import NodeState
from quarterdeck.scheduler.model.task import Amounts, Task

_GIVEN: Final = frozenset({PodState.ALLOCATED, PodState.PIPELINED})
"""What a cycle makes of pods; the API shows nothing of it yet."""


class _Change(Enum):
    PLACED = "placed"
    EVICTED = "evicted"
    RESTORED = "restored"


_Past: TypeAlias = tuple[
    PodState, NodeState | None, tuple[str, ...], tuple[Allocation | None, ...], Amounts, bool, bool
]
"""What a pod was before a change: state, node, groups, devices, charge, whether virtual, whether evicted."""

_Entry: TypeAlias = tuple[_Change, Task, _Past, int]
"""A change, the pod, what it was before, and the version before."""


def _past_of(task: Task) -> _Past:
    return (
        task.state,
        task.node,
        task.groups,
        task.devices,
        task.charge,
        task.is_virtual,
        task.is_evicted,
    )


def _was_there(past: _Past) -> bool:
    """Whether a pod had its node before the cycle and was not evicted earlier in it."""
    return past[0] not in _GIVEN and not past[-1]


def _hold_of(state: PodState) -> Hold:
    return Hold.COMING if state is PodState.PIPELINED else Hold.RUNNING


class Transaction:
    """The changes since the last commit."""

    __slots__ = ("_before_eviction", "_cluster", "_decided", "_entries", "_unopposed", "_versions", "version")

    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster
        self._entries: list[_Entry] = []
        self._before_eviction: dict[Task, _Past] = {}
        """Pods that are evicted, with what they were before."""
        self._versions: Final = itertools.count(1)
        self.version = 0
        """Two moments with the same version have the same state."""
        self._decided: Final[list[Decision | Task]] = []
        """A pod stands for its placement, whatever that comes to in the end."""
        self._unopposed: Final[set[Job]] = set()
        """Jobs that a search found a place for without sending away anybody who was there."""

    def checkpoint(self) -> int:
        """A position to roll back to."""
        return len(self._entries)

    def place(self, task: Task, node: NodeState, groups: tuple[str, ...], state: PodState) -> None:
        """Give a pod a node, or promise it one."""
        self._write(_Change.PLACED, task, _past_of(task))
        task.devices = ()
        self._cluster.hold(task, node, groups, _hold_of(state), 1)
        task.node, task.groups, task.is_virtual = node, groups, True
        task.charge = node.charge(task.shape)
        self._charge(task, 1)
        self._set_state(task, state)

    def evict(self, task: Task) -> None:
        """Send a pod away; until it is gone it occupies its node."""
        past = _past_of(task)
        self._write(_Change.EVICTED, task, past)
        self._evict(task, past)

    def _evict(self, task: Task, past: _Past) -> None:
        if task.node is None:
            pass  # its node is not in the snapshot
        elif task.state is PodState.PIPELINED:  # one that is only promised the place is not there
            self._cluster.hold(task, task.node, task.groups, Hold.COMING, -1)
        else:
            self._cluster.let_go(task, task.node, task.groups, 1)
        self._charge(task, -1)
        task.is_virtual = task.is_evicted = True
        self._before_eviction[task] = past
        self._set_state(task, PodState.RELEASING)

    def restore(self, task: Task) -> None:
        """Let an evicted pod stay after all."""
        past = self._before_eviction[task]
        self._write(_Change.RESTORED, task, past)
        self._restore(task, past)

    def _restore(self, task: Task, past: _Past) -> None:
        if task.node is None:
            pass
        elif past[0] is PodState.PIPELINED:
            self._cluster.hold(task, task.node, task.groups, Hold.COMING, 1)
        else:
            self._cluster.let_go(task, task.node, task.groups, -1)
        del self._before_eviction[task]
        self._return_to(task, past)
        self._charge(task, 1)

    def rollback(self, position: int) -> None:
        """Undo everything since a checkpoint, latest first."""
        entries = self._entries
        while len(entries) > position:
            change, task, past, version = entries.pop()
            if change is _Change.PLACED:
                self._take_back(task, past)
            elif change is _Change.EVICTED:
                self._restore(task, past)
            else:
                self._evict(task, past)
            self.version = version

    def _take_back(self, task: Task, past: _Past) -> None:
        assert task.node is not None
        self._cluster.hold(task, task.node, task.groups, _hold_of(task.state), -1)
        self._charge(task, -1)
        self._return_to(task, past)

    def _return_to(self, task: Task, past: _Past) -> None:
        self._set_state(task, past[0])
        _, task.node, task.groups, task.devices, task.charge, task.is_virtual, task.is_evicted = past

    def promise_all(self, job: Job) -> None:
        """Turn all that was given to a job since the last commit into promises; to be committed next."""
        for task in self._placed():
            if task.job is job and task.state is PodState.ALLOCATED:
                self._turn_into(task, PodState.PIPELINED)

    def commit(self, eviction: Callable[[Task, int], Evict] | None = None) -> None:
        """Decide what was tried; ``eviction`` makes the decision about one of so many victims."""
        victims = sum(map(_was_there, self._before_eviction.values()))
        for change, task, _, _ in self._entries:
            task.is_virtual = False
            if change is not _Change.PLACED and task in self._before_eviction:
                past = self._before_eviction.pop(task)
                if past[0] is PodState.PIPELINED:
                    _promise(task, past[4], -1)
                if _was_there(past):
                    assert eviction is not None
                    _leave(task, past)
                    self._decided.append(eviction(task, victims))
                elif not past[-1]:
                    self._forget(task, past)
        assert not self._before_eviction
        placed = self._placed()
        for task in placed:
            if task.state is PodState.PIPELINED:
                _promise(task, task.charge, 1)
        if eviction is not None and not victims:
            self._unopposed.update(task.job for task in placed if task.job is not None)
        self._decided.extend(placed)
        self._entries.clear()

    def add(self, decision: Decision) -> None:
        """Decide something that changes nothing in memory."""
        self._decided.append(decision)

    def _placed(self) -> list[Task]:
        """The pods that were placed since the last commit."""
        return [task for change, task, _, _ in self._entries if change is _Change.PLACED]

    def keep_promises(self) -> None:
        """At the end of a cycle, give pods what they were promised if nobody has to leave for it.

        Room that one action of a cycle takes back from pods to which another gave it is idle. If its promise
        were left to the next cycle, that would give the room to the same pods again, for ever. All other
        promises wait: whom they wait for is still there, on the node or in the account of a queue. A gang of
        which only some pods got their place in the end must not be bound in part.
        """
        last = {task: place for place, task in enumerate(self._decided) if isinstance(task, Task)}
        promised = sorted(
            (task for task in last if task.state is PodState.PIPELINED), key=lambda task: last[task]
        )
        for job in dict.fromkeys(task.job for task in promised):
            assert job is not None
            if job in self._unopposed:
                # Those that were evicted run elsewhere until they are gone.
                self._give([t for t in job.tasks if t.state is PodState.PIPELINED and not t.is_evicted])
            if job.must_wait:
                for task in job.tasks:
                    if task.state is PodState.ALLOCATED:
                        self._turn_into(task, PodState.PIPELINED)
                        _promise(task, task.charge, 1)

    def _give(self, tasks: Sequence[Task]) -> None:
        """Let pods have what they were promised as far as it is idle; they may rely on each other."""
        cluster = self._cluster
        for task in tasks:
            assert task.node is not None
            cluster.hold(task, task.node, task.groups, Hold.COMING, -1)
        for task in tasks:
            node, job = task.node, task.job
            assert node is not None
            assert job is not None
            is_idle = (
                node.has_now(task.shape, task.groups)
                and not cluster.predicates.conflict(task, node, is_now=True)
                and (job.queue is None or job.queue.has_now(task.charge, job.is_preemptible))
            )
            if is_idle:
                self._set_state(task, PodState.ALLOCATED)
                _promise(task, task.charge, -1)
            cluster.hold(task, node, task.groups, _hold_of(task.state), 1)

    def _turn_into(self, task: Task, state: PodState) -> None:
        """Make a promise of what a pod was given, or the other way round."""
        assert task.node is not None
        self._cluster.hold(task, task.node, task.groups, _hold_of(task.state), -1)
        self._cluster.hold(task, task.node, task.groups, _hold_of(state), 1)
        self._set_state(task, state)

    def _forget(self, task: Task, past: _Past) -> None:
        """Take back what this cycle gave or promised a pod: nothing was done about it yet."""
        state, node, groups = past[:3]
        if state is PodState.ALLOCATED:
            assert node is not None
            self._cluster.hold(task, node, groups, Hold.LEAVING, -1)
        task.is_evicted = False
        if task.state is PodState.RELEASING:
            task.node, task.groups, task.devices = None, (), ()
            self._set_state(task, PodState.PENDING)

    def decisions(self) -> list[Decision]:
        """What was decided, in order; a pod that was placed more than once is decided when it was last."""
        found: list[Decision] = []
        seen: set[Task] = set()
        for each in reversed(self._decided):
            if not isinstance(each, Task):
                found.append(each)
            elif each not in seen and each.state in _GIVEN:
                seen.add(each)
                found.append(_placement(each))
        return found[::-1]

    def _write(self, change: _Change, task: Task, past: _Past) -> None:
        self._entries.append((change, task, past, self.version))
        self.version = next(self._versions)

    def _charge(self, task: Task, sign: int) -> None:
        job = task.job
        assert job is not None
        if job.queue is not None:
            job.queue.charge(task.charge, job.is_preemptible, sign)

    @staticmethod
    def _set_state(task: Task, state: PodState) -> None:
        leaf, job = task.leaf, task.job
        assert leaf is not None
        assert job is not None
        leaf.move(task.state, state)
        task.state = state
        job.version += 1


def _leave(task: Task, past: _Past) -> None:
    """A pod that was there has to go; its queue is not rid of it before it is gone."""
    job = task.job
    assert job is not None
    if job.queue is not None:
        job.queue.leave(past[4], job.is_preemptible)


def _promise(task: Task, charge: Amounts, sign: int) -> None:
    job = task.job
    assert job is not None
    if job.queue is not None:
        job.queue.promise(charge, job.is_preemptible, sign)


def _placement(task: Task) -> Bind | Pipeline:
    assert task.job is not None
    assert task.node is not None
    if task.state is PodState.PIPELINED:
        return Pipeline(pod=task.key, pod_group=task.job.key, node=task.node.name)
    shape, node = task.shape, task.node
    bind = Bind(
        pod=task.key,
        pod_group=task.job.key,
        node=node.name,
        gpu_count=int(shape.gpu),
        is_mig=shape.instances > 0,
        claims=tuple(
            (used.reference, claim.current)
            for used, claim in zip(task.info.claims, shape.claims, strict=False)
            if claim.current is not None
        ),
    )
    if shape.share is None:
        return bind
    return replace(
        bind,
        gpu_count=shape.share.devices,
        gpu_portion=node.gpus.portion(shape.share),
        is_fraction=True,
        gpu_groups=task.groups,
    )
