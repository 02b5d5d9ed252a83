"""The health checks every manager comes with.

Readiness: webhooks served, all caches synced, no kind blocked by a missing permission or CRD (optional
watches excepted), and everything that should run does: workers, sources, runnables. Only the manager's own
cluster counts: one of a fleet that is away must not take the others' webhooks with it. Liveness: the event
loop runs, and no watch has been silent beyond its watchdog. Each check gives ``None`` when all is well and
otherwise the reason, in words that name the kind, the verb and the resource.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import Final, TypeAlias

from quarterdeck.client.clock import Clock
from quarterdeck.runtime.cache.informer import Informer
from quarterdeck.runtime.loop.lag import LoopLag
from quarterdeck.runtime.manager.cluster import Cluster

Check: TypeAlias = Callable[[], Awaitable[str | None] | str | None]
"""``None`` when all is well, otherwise the reason; it may also raise."""

BLOCKED_LOOP: Final = 5.0
"""Seconds without a tick after which the process should be restarted."""


class BuiltinChecks:
    """Readiness and liveness of one manager."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        trouble: Callable[[], str | None],
        loop_lag: LoopLag,
        webhooks: object | None,
        elector: object | None,
        clock: Clock,
        blocked_kinds_are_ready: bool,
    ) -> None:
        self._cluster: Final = cluster
        self._trouble: Final = trouble
        self._loop_lag: Final = loop_lag
        self._webhooks: Final = webhooks
        self._elector: Final = elector
        self._clock: Final = clock
        self._blocked_kinds_are_ready: Final = blocked_kinds_are_ready

    def readiness(self) -> dict[str, Check]:
        """Checks that say whether this replica can do its work."""
        checks = {"caches": self.unsynced, "informers": self.blocked, "loops": self._trouble}
        return {**checks, **_own("webhook", self._webhooks)}

    def liveness(self) -> dict[str, Check]:
        """Checks that say whether a restart would help."""
        checks = {"event-loop": self._loop, "watches": self._silent}
        return {**checks, **_own("leader-election", self._elector)}

    def _needed(self) -> Iterator[Informer]:
        """Informers, without those of kinds that may be absent."""
        yield from (informer for informer in self._cluster.cache.informers if informer.is_needed)

    def unsynced(self) -> str | None:
        """Which caches are not filled yet."""
        late = [f"{i.gvk.group_kind} ({i.health})" for i in self._needed() if not i.has_synced]
        return f"not synced: {', '.join(late)}" if late else None

    def blocked(self) -> str | None:
        """Which kinds are missing or forbidden."""
        blocked = [f"{i.gvk.group_kind}: {i.health}" for i in self._needed() if i.health.is_blocked]
        return "; ".join(blocked) if blocked and not self._blocked_kinds_are_ready else None

    def _loop(self) -> str | None:
        lag = self._loop_lag.lag
        return f"the event loop is blocked for {lag:.1f}s" if lag > BLOCKED_LOOP else None

    def _silent(self) -> str | None:
        now = self._clock.monotonic()
        silent = []
        for informer in self._needed():
            limit, last = informer.silence_limit, informer.statistics().last_event
            # The watchdog has had its chance more than once.
            if informer.health.is_good and limit and last is not None and now - last > 3 * limit:
                silent.append(f"{informer.gvk.group_kind} for {now - last:.0f}s")
        return f"silent: {', '.join(silent)}" if silent else None


def _own(name: str, part: object | None) -> dict[str, Check]:
    """The check that a part of the manager brings along, if it does."""
    check: Check | None = getattr(part, "check", None)
    return {name: check} if check is not None else {}
