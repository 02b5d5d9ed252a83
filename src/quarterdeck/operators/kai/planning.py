"""Answers of the gang scheduler from snapshots of a cache; the dashboard shows them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from quarterdeck.api import Key
from quarterdeck.operators.kai.live import KINDS, read_snapshot
from quarterdeck.operators.kai.settings import KaiSettings
from quarterdeck.scheduler.model.cluster import Cluster
from quarterdeck.scheduler.plan import Recorded, explain, remedies, verdict

if TYPE_CHECKING:
    from quarterdeck.client.representation import AnyKind
    from quarterdeck.runtime.cache import Cache


class SchedulerPlan:
    """One snapshot, to be asked."""

    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded

    def fair_shares(self) -> Mapping[str, float]:
        """The GPUs each queue is entitled to."""
        cluster = Cluster(self._recorded.snapshot, self._recorded.settings)
        return {name: queue.fair_share[2] for name, queue in cluster.queues.items()}

    def explain(self, namespace: str, name: str) -> dict[str, Any]:
        """Why a gang waits, and what would start it."""
        key = Key(namespace, name)
        found: dict[str, Any] = msgspec.to_builtins(explain(self._recorded, key))
        found["verdict"] = verdict(self._recorded, key)
        found["remedies"] = msgspec.to_builtins(remedies(self._recorded, key)) if not found["verdict"] else []
        return found


class SchedulerPlanner:
    """Plans for a cluster whose gangs our scheduler, or KAI's own, looks after."""

    def __init__(self, settings: KaiSettings | None = None) -> None:
        self._settings = settings if settings is not None else KaiSettings()

    def kinds(self) -> Sequence[AnyKind]:
        """What the scheduler reads."""
        return KINDS

    async def plan(self, cache: Cache) -> SchedulerPlan:
        """A plan of what the cache holds now."""
        snapshot = await read_snapshot(cache, self._settings, time.time())
        return SchedulerPlan(Recorded(snapshot=snapshot, settings=self._settings.for_cycle()))
