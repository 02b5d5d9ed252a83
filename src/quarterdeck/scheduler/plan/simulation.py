"""What would happen if: the cluster runs to its rest, once as it is and once changed."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from quarterdeck.api import Key
from quarterdeck.scheduler.decision import NotReady, Unschedulable
from quarterdeck.scheduler.model.cluster import Cluster
from quarterdeck.scheduler.snapshot import PodInfo, Snapshot

from .change import Change
from .course import MOST_CYCLES, Rest, run_to_rest
from .explanation import cores, gigabytes
from .record import Recorded
from .table import table


class StartRow(msgspec.Struct, frozen=True, kw_only=True):
    """A gang of which pods start."""

    pod_group: str
    queue: str
    pods: int
    nodes: int
    starts_anyway: bool
    """Whether it would start without the changes, too."""


class EvictedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A gang of which pods that run are stopped, for good or to run elsewhere."""

    pod_group: str
    queue: str
    pods: int
    actions: tuple[str, ...]
    """Why: the actions of the scheduler, or ``node removed``."""
    preemptors: tuple[str, ...]
    running_again: int
    """How many of its pods run in the end that were stopped."""


class WaitRow(msgspec.Struct, frozen=True, kw_only=True):
    """A gang that has pods without a node in the end."""

    pod_group: str
    queue: str
    pods: int
    why: str


class ShareRow(msgspec.Struct, frozen=True, kw_only=True):
    """A queue: what it has before and in the end, and what it would be entitled to."""

    queue: str
    gpu_before: float
    gpu_after: float
    gpu_share_before: float
    gpu_share_after: float
    cpu_before: int
    cpu_after: int
    memory_before: int
    memory_after: int


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome."""

    cycles: int
    is_settled: bool
    starts: tuple[StartRow, ...]
    evicted: tuple[EvictedRow, ...]
    waits: tuple[WaitRow, ...]
    shares: tuple[ShareRow, ...]

    def text(self) -> str:
        """Tables for people."""
        end = "" if self.is_settled else ", and it has not come to rest"
        lines = [f"after {self.cycles} cycles{end}:"]
        lines += _part(
            "starts",
            ("pod group", "queue", "pods", "nodes", "without the change"),
            [
                (
                    each.pod_group,
                    each.queue,
                    each.pods,
                    each.nodes,
                    "starts" if each.starts_anyway else "waits",
                )
                for each in self.starts
            ],
        )
        lines += _part(
            "evicted",
            ("pod group", "queue", "pods", "why", "for", "running again"),
            [
                (
                    each.pod_group,
                    each.queue,
                    each.pods,
                    ", ".join(each.actions),
                    ", ".join(each.preemptors) or "-",
                    each.running_again,
                )
                for each in self.evicted
            ],
        )
        lines += _part(
            "waits",
            ("pod group", "queue", "pods", "why"),
            [(each.pod_group, each.queue, each.pods, each.why) for each in self.waits],
        )
        lines += _part(
            "queues",
            ("queue", "GPUs", "after", "fair share", "after", "cores", "after", "GB", "after"),
            [
                (
                    each.queue,
                    f"{each.gpu_before:g}",
                    f"{each.gpu_after:g}",
                    f"{each.gpu_share_before:g}",
                    f"{each.gpu_share_after:g}",
                    cores(each.cpu_before),
                    cores(each.cpu_after),
                    gigabytes(each.memory_before),
                    gigabytes(each.memory_after),
                )
                for each in self.shares
            ],
        )
        return "\n".join(lines)


def simulate(recorded: Recorded, *changes: Change, cycles: int = MOST_CYCLES) -> Simulation:
    """Change a recorded cluster and let it come to rest."""
    before = recorded.snapshot
    changed = before
    for change in changes:
        changed = change(changed)
    baseline = run_to_rest(before, recorded.settings, cycles)
    rest = run_to_rest(changed, recorded.settings, cycles)
    return Simulation(
        cycles=rest.cycles,
        is_settled=rest.is_settled,
        starts=tuple(_starts(before, baseline, rest)),
        evicted=tuple(_evicted(before, changed, rest)),
        waits=tuple(_waits(rest)),
        shares=tuple(_shares(before, recorded, rest)),
    )


def _running(snapshot: Snapshot) -> dict[Key, PodInfo]:
    return {pod.key: pod for pod in snapshot.pods if pod.node and not pod.is_deleted and pod.pod_group}


def _group_of(pod: PodInfo) -> Key:
    return Key(pod.namespace, pod.pod_group)


def _queues(snapshot: Snapshot) -> dict[Key, str]:
    return {group.key: group.queue for group in snapshot.pod_groups}


def _starts(before: Snapshot, baseline: Rest, rest: Rest) -> Iterable[StartRow]:
    had, anyway, queues = _running(before), _running(baseline.snapshot), _queues(rest.snapshot)
    new = [pod for key, pod in _running(rest.snapshot).items() if key not in had]
    for group in sorted({_group_of(pod) for pod in new}):
        pods = [pod for pod in new if _group_of(pod) == group]
        yield StartRow(
            pod_group=str(group),
            queue=queues.get(group, ""),
            pods=len(pods),
            nodes=len({pod.node for pod in pods}),
            starts_anyway=all(pod.key in anyway for pod in pods),
        )


def _evicted(before: Snapshot, changed: Snapshot, rest: Rest) -> Iterable[EvictedRow]:
    had, kept, queues = _running(before), _running(changed), _queues(rest.snapshot)
    end = _running(rest.snapshot)
    stopped: dict[Key, set[Key]] = {}
    actions: dict[Key, set[str]] = {}
    preemptors: dict[Key, set[str]] = {}
    there = {pod.key for pod in changed.pods}  # what is not there any more has ended
    for key in (had.keys() - kept.keys()) & there:
        group = _group_of(had[key])
        stopped.setdefault(group, set()).add(key)
        actions.setdefault(group, set()).add("node removed")
    for each in rest.evictions:
        if each.pod in had:
            stopped.setdefault(each.pod_group, set()).add(each.pod)
            actions.setdefault(each.pod_group, set()).add(each.action.value)
            if each.preemptor is not None:
                preemptors.setdefault(each.pod_group, set()).add(str(each.preemptor))
    for group in sorted(stopped):
        yield EvictedRow(
            pod_group=str(group),
            queue=queues.get(group, ""),
            pods=len(stopped[group]),
            actions=tuple(sorted(actions[group])),
            preemptors=tuple(sorted(preemptors.get(group, ()))),
            running_again=len(stopped[group] & end.keys()),
        )


def _waits(rest: Rest) -> Iterable[WaitRow]:
    queues = _queues(rest.snapshot)
    for each in rest.result.decisions:
        if isinstance(each, Unschedulable):
            yield WaitRow(
                pod_group=str(each.pod_group),
                queue=queues.get(each.pod_group, ""),
                pods=len(each.pods),
                why=" ".join(each.message.split()),
            )
        elif isinstance(each, NotReady):
            waiting = [pod for pod in rest.snapshot.pods if _group_of(pod) == each.pod_group and not pod.node]
            yield WaitRow(
                pod_group=str(each.pod_group),
                queue=queues.get(each.pod_group, ""),
                pods=len(waiting),
                why=each.message,
            )


def _shares(before: Snapshot, recorded: Recorded, rest: Rest) -> Iterable[ShareRow]:
    had = Cluster(before, recorded.settings).queues
    for name, share in sorted(rest.result.queues.items()):
        old = had.get(name)
        cpu, memory, gpu = old.allocated if old is not None else (0, 0, 0)
        yield ShareRow(
            queue=name,
            gpu_before=gpu,
            gpu_after=share.allocated.gpu,
            gpu_share_before=old.fair_share[2] if old is not None else 0,
            gpu_share_after=share.fair_share.gpu,
            cpu_before=int(cpu),
            cpu_after=share.allocated.cpu,
            memory_before=int(memory),
            memory_after=share.allocated.memory,
        )


def _part(title: str, head: tuple[str, ...], rows: list[tuple[object, ...]]) -> list[str]:
    return [f"{title}:", *table(head, rows)] if rows else [f"{title}: nothing"]
