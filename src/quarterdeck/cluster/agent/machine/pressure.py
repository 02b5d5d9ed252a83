"""Looks after what the machine has left; ends pods one after the other when it is too little."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from quarterdeck.api.k8s import Pod
from quarterdeck.cluster.agent.machine.eviction import (
    SIGNALS,
    PodUse,
    Shortage,
    Supply,
    eviction_text,
    first_to_go,
    shortages,
)
from quarterdeck.cluster.agent.machine.storage import pod_files, pod_storage
from quarterdeck.cluster.agent.machine.usage import UsageWatch
from quarterdeck.cluster.agent.record.folder import PodFolder


class NodePressure:
    """What runs short on a node, and who has to go for it."""

    def __init__(
        self,
        thresholds: Mapping[str, str],
        hold: float,
        *,
        read: Callable[[], Mapping[str, Supply]],
        uses: Callable[[str], list[PodUse]],
        evict: Callable[[PodUse, Shortage, str], bool],
        is_over: Callable[[Pod], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``read`` and ``uses`` are called in threads; ``evict`` begins the end of a pod, and ``is_over``
        says when it is gone. A condition stays for ``hold`` seconds after its cause has gone, so that the
        node does not change its mind all the time."""
        self._thresholds: Final = thresholds
        self._hold: Final = hold
        self._read: Final = read
        self._uses: Final = uses
        self._evict: Final = evict
        self._is_over: Final = is_over
        self._clock: Final = clock
        self._seen: Final[dict[str, float]] = {}
        self._victim: Pod | None = None

    @property
    def conditions(self) -> tuple[str, ...]:
        """The node's conditions that are true."""
        now = self._clock()
        names = dict.fromkeys(each.condition for each in SIGNALS.values())
        return tuple(each for each in names if each in self._seen and now - self._seen[each] <= self._hold)

    async def look(self) -> None:
        """See what is left, and end a pod if that is too little; one at a time, as that may be enough."""
        short = shortages(self._thresholds, await asyncio.to_thread(self._read))
        for each in short:
            self._seen[SIGNALS[each.signal].condition] = self._clock()
        if self._victim is not None and self._is_over(self._victim):
            self._victim = None
        if not short or self._victim is not None:
            return
        first = short[0]
        resource = SIGNALS[first.signal].resource
        use = first_to_go(resource, await asyncio.to_thread(self._uses, resource))
        if use is not None and self._evict(use, first, eviction_text(first, use)):
            self._victim = use.pod


def pod_uses(resource: str, running: Iterable[tuple[Pod, PodFolder]], usage: UsageWatch) -> list[PodUse]:
    """What the pods of a node that run have of a resource. Blocking."""
    if resource == "ephemeral-storage":
        return [pod_storage(pod, folder) for pod, folder in running]
    if resource == "inodes":
        return [pod_files(pod, folder) for pod, folder in running]
    usage.measure()
    samples = usage.samples
    made = []
    for pod, _ in running:
        own = {
            container: sample.memory if resource == "memory" else sample.processes
            for (uid, container), sample in samples.items()
            if uid == pod.metadata.uid
        }
        made.append(PodUse(pod, own))
    return made
