"""The course of a cluster: cycle after cycle until nothing changes any more.

Between cycles what was decided is done: pods that were bound run, evicted ones are made anew at once and
wait, terminating ones are gone. Nobody finishes, and nothing arrives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from quarterdeck.api import Key
from quarterdeck.scheduler.cycle import schedule
from quarterdeck.scheduler.decision import (
    Bind,
    ClearStale,
    CycleResult,
    Evict,
    MarkStale,
    SetLastEviction,
    SetLastStart,
)
from quarterdeck.scheduler.device import Allocation, ClaimInfo
from quarterdeck.scheduler.settings import Settings
from quarterdeck.scheduler.snapshot import PodInfo, Snapshot

MOST_CYCLES = 100
PERIOD = 1.0
"""Seconds from one cycle to the next."""


class Rest(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster that has come to rest."""

    snapshot: Snapshot
    result: CycleResult
    """Of the last cycle, which changed nothing."""
    evictions: tuple[Evict, ...]
    """On the way, in order."""
    cycles: int
    is_settled: bool
    """Whether nothing changed in the end; otherwise the cycles were not enough."""


def after(snapshot: Snapshot, result: CycleResult) -> Snapshot:
    """The cluster when the decisions of a cycle are carried out."""
    binds = {each.pod: each for each in result.decisions if isinstance(each, Bind)}
    evicted = {each.pod for each in result.decisions if isinstance(each, Evict)}
    starts = {each.pod_group: each.time for each in result.decisions if isinstance(each, SetLastStart)}
    losses = {each.pod_group: each.time for each in result.decisions if isinstance(each, SetLastEviction)}
    stale: dict[Key, float | None] = {}
    for each in result.decisions:
        if isinstance(each, MarkStale):
            stale[each.pod_group] = each.time
        elif isinstance(each, ClearStale):
            stale[each.pod_group] = None

    def moved(pod: PodInfo) -> PodInfo:
        if pod.key in evicted:
            return replace(pod, phase="Pending", node="", gpu_groups=())
        bind = binds.get(pod.key)
        if bind is None:
            return pod
        return replace(pod, phase="Running", node=bind.node, gpu_groups=bind.gpu_groups)

    pods = tuple(map(moved, snapshot.pods))
    return replace(
        snapshot,
        now=snapshot.now + PERIOD,
        pods=pods,
        claims=_claims(snapshot.claims, pods, {key: bind.claims for key, bind in binds.items()}),
        pod_groups=tuple(
            replace(
                group,
                last_start=starts.get(group.key, group.last_start),
                last_eviction=losses.get(group.key, group.last_eviction),
                stale_since=stale.get(group.key, group.stale_since),
            )
            for group in snapshot.pod_groups
        ),
    )


def _claims(
    claims: tuple[ClaimInfo, ...],
    pods: Sequence[PodInfo],
    given: Mapping[Key, Sequence[tuple[str, Allocation]]],
) -> tuple[ClaimInfo, ...]:
    """Claims with the devices they were given, as long as pods with a node use them."""
    if not claims:
        return claims
    consumers: dict[Key, list[str]] = {}
    allocations: dict[Key, Allocation] = {}
    for pod in pods:
        devices = dict(given.get(pod.key, ()))
        for used in pod.claims if pod.node else ():
            key = Key(pod.namespace, used.claim)
            consumers.setdefault(key, []).append(pod.uid)
            if used.reference in devices:
                allocations[key] = devices[used.reference]
    return tuple(
        replace(
            claim,
            consumers=tuple(consumers.get(claim.key, ())),
            allocation=allocations.get(claim.key, claim.allocation) if claim.key in consumers else None,
        )
        for claim in claims
    )


def run_to_rest(snapshot: Snapshot, settings: Settings, most: int = MOST_CYCLES) -> Rest:
    """Run cycles until one changes nothing, or so many have been run."""
    snapshot = _without_waiting_for_others(snapshot)
    evictions: list[Evict] = []
    cycles = 0
    while True:
        result = schedule(snapshot, settings)
        cycles += 1
        is_settled = not any(isinstance(each, Bind | Evict) for each in result.decisions)
        if is_settled or cycles >= most:
            return Rest(
                snapshot=snapshot,
                result=result,
                evictions=tuple(evictions),
                cycles=cycles,
                is_settled=is_settled,
            )
        evictions += [each for each in result.decisions if isinstance(each, Evict)]
        snapshot = after(snapshot, result)


def _without_waiting_for_others(snapshot: Snapshot) -> Snapshot:
    """What is under way ends: terminating pods are gone, and those with a bind request have their node."""
    requests = {Key(each.namespace, each.pod): each for each in snapshot.bind_requests}
    nodes = {node.name for node in snapshot.nodes}

    def arrived(pod: PodInfo) -> PodInfo:
        request = requests.get(pod.key)
        if pod.node or pod.phase != "Pending" or request is None or request.node not in nodes:
            return pod
        return replace(pod, phase="Running", node=request.node, gpu_groups=request.gpu_groups)

    pods = tuple(arrived(pod) for pod in snapshot.pods if not pod.is_deleted)
    given = {key: request.claims for key, request in requests.items()}
    return replace(snapshot, pods=pods, bind_requests=(), claims=_claims(snapshot.claims, pods, given))
