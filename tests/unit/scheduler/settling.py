"""What happens to a cluster between cycles, and whether it comes to rest."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from quarterdeck.api import Key
from quarterdeck.scheduler import CycleResult, Settings, Snapshot, schedule
from quarterdeck.scheduler.decision import Bind, ClearStale, Evict, MarkStale, SetLastStart
from quarterdeck.scheduler.snapshot import PodInfo


def after(snapshot: Snapshot, result: CycleResult) -> Snapshot:
    """The cluster when the decisions are carried out: bound pods run, evicted ones are made anew at once."""
    binds = {each.pod: each for each in result.decisions if isinstance(each, Bind)}
    evicted = {each.pod for each in result.decisions if isinstance(each, Evict)}
    starts = {each.pod_group: each.time for each in result.decisions if isinstance(each, SetLastStart)}
    stale: dict[Key, float | None] = {
        each.pod_group: each.time for each in result.decisions if isinstance(each, MarkStale)
    }
    stale |= {each.pod_group: None for each in result.decisions if isinstance(each, ClearStale)}

    def moved(pod: PodInfo) -> PodInfo:
        if pod.key in evicted:
            return replace(pod, phase="Pending", node="", gpu_groups=())
        bind = binds.get(pod.key)
        if bind is None:
            return pod
        return replace(pod, phase="Running", node=bind.node, gpu_groups=bind.gpu_groups)

    return replace(
        snapshot,
        now=snapshot.now + 1,
        pods=tuple(map(moved, snapshot.pods)),
        pod_groups=tuple(
            replace(
                group,
                last_start=starts.get(group.key, group.last_start),
                stale_since=stale.get(group.key, group.stale_since),
            )
            for group in snapshot.pod_groups
        ),
    )


def cycles(snapshot: Snapshot, settings: Settings, count: int) -> Iterator[tuple[Snapshot, CycleResult]]:
    """Some cycles: each with what it saw."""
    for _ in range(count):
        result = schedule(snapshot, settings)
        yield snapshot, result
        snapshot = after(snapshot, result)


def changes(result: CycleResult) -> list[Bind | Evict]:
    """What a cycle does to pods."""
    return [each for each in result.decisions if isinstance(each, Bind | Evict)]
