"""The schedulers of a cluster: one for each SchedulingShard, or a single one where there is none.

Each has its nodes, groups and queues, told by the node pool label, and its settings. They take turns in one
process; what goes wrong in one does not keep the others from theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quarterdeck.api import Time, to_dict
from quarterdeck.errors import ignore_not_found
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.logic.shard import Pool, ShardPlan, plan_of
from quarterdeck.operators.kai.settings import KaiSettings
from quarterdeck.operators.kai.types import SchedulingShard
from quarterdeck.runtime.cache import Cache
from quarterdeck.runtime.cache.entry import Entry
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.predicate import generation_changed
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.statuswrite import write_status

from .cycle import SchedulingCycle

CONDITION: Final = "Reconciled"
MakeCycle = Callable[[str, ShardPlan], SchedulingCycle]
"""Makes the cycle of a shard, by its name."""


class Shards:
    """Runs the cycles of all shards in turn."""

    def __init__(self, cache: Cache, base: KaiSettings, make: MakeCycle) -> None:
        self._informer: Final = cache.informer(SchedulingShard)
        self._decode: Final = self._informer.decoder(SchedulingShard)
        self._base: Final = base
        self._make: Final = make
        self._cycles: dict[str, tuple[Entry | None, SchedulingCycle]] = {}

    async def run_once(self) -> None:
        """One cycle of every shard; raises the failures of those that failed when all had their turn."""
        failures: list[Exception] = []
        for cycle in self._current():
            try:
                await cycle.run_once()
            except Exception as error:  # noqa: BLE001  supervision point: the other shards go on
                failures.append(error)
        if len(failures) == 1:
            raise failures[0]
        if failures:
            raise ExceptionGroup("scheduling cycles failed", failures)

    def _current(self) -> list[SchedulingCycle]:
        entries: dict[str, Entry | None] = {
            entry.name: entry for entry in sorted(self._informer.entries(), key=lambda entry: entry.name)
        }
        if not entries:
            entries = {"": None}
        self._cycles = {name: self._cycle(name, entry) for name, entry in entries.items()}
        return [cycle for _, cycle in self._cycles.values()]

    def _cycle(self, name: str, entry: Entry | None) -> tuple[Entry | None, SchedulingCycle]:
        known = self._cycles.get(name)
        if known is not None and known[0] is entry:
            return known
        if entry is None:
            return None, self._make(name, whole_cluster(self._base))
        return entry, self._make(name, plan_of(self._decode(entry), self._base))


def whole_cluster(settings: KaiSettings) -> ShardPlan:
    """The plan where nobody divides the cluster, unless the settings name one node pool."""
    return ShardPlan(pool=Pool(settings.node_pool_label, settings.node_pool or None), settings=settings)


class ShardStatus(Reconciler[SchedulingShard]):
    """Says in the status of a shard what of it is not done."""

    def __init__(self, base: KaiSettings) -> None:
        self._base: Final = base

    async def reconcile(self, ctx: Context[SchedulingShard]) -> None:
        """Look at one shard."""
        shard = ctx.obj
        problems = plan_of(shard, self._base).problems
        wanted = {
            "type": CONDITION,
            "status": "False" if problems else "True",
            "reason": "NotHonoured" if problems else "Honoured",
            "message": "; ".join(problems),
            "observedGeneration": shard.metadata.generation,
        }
        known = next((each for each in shard.status.conditions if each.type == CONDITION), None)
        since: Time = ctx.now()
        if known is not None and known.status == wanted["status"] and known.last_transition_time:
            since = known.last_transition_time
            if (known.message, known.observed_generation) == (
                wanted["message"],
                wanted["observedGeneration"],
            ):
                return
        present = to_dict(shard.status.conditions)
        others = [each for each in present if each["type"] != CONDITION]
        ours = {**wanted, "lastTransitionTime": str(since)}
        with ignore_not_found():
            await write_status(ctx.client, shard, {"conditions": present}, {"conditions": [*others, ours]})


def shard_status_controller(settings: KaiSettings) -> Controller[SchedulingShard]:
    """The controller, for ``manager.add``."""
    return (
        Builder(name=names.SHARDS)
        .for_(SchedulingShard, predicates=[generation_changed])
        .options(field_manager=names.FIELD_MANAGER)
        .build(ShardStatus(settings))
    )
