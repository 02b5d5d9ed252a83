"""What the page asks the gang scheduler, if there is one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from quarterdeck.client.representation import AnyKind
from quarterdeck.runtime.cache import Cache

ENTRY_POINTS: Final = "quarterdeck.planners"


class Plan(Protocol):
    """The scheduler's view of the cluster at one moment. Pure: it may be asked in a thread."""

    def fair_shares(self) -> Mapping[str, float]:
        """The GPUs each queue is entitled to now."""
        ...

    def explain(self, namespace: str, name: str) -> dict[str, Any]:
        """Why a gang waits and what would start it; raises ``SchemaError`` if there is no such gang."""
        ...


class Planner(Protocol):
    """Makes plans from a cache."""

    def kinds(self) -> Sequence[AnyKind]:
        """What it reads of the cluster."""
        ...

    async def plan(self, cache: Cache) -> Plan:
        """A plan of what the cache holds now; raises ``QuarterdeckError`` where that is not enough."""
        ...


def installed_planner() -> Planner | None:
    """The planner that an installed distribution brings, if there is one; of several, the first by name."""
    from importlib.metadata import entry_points  # slow to load

    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda each: each.name):
        planner: Planner = point.load()()
        return planner
    return None
