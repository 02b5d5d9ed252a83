"""Leader election on a Lease: who may act.

What it guarantees, given clocks that run at about the same speed (their dates do not matter):

- A candidate takes the Lease only after it has seen no renewal for the holder's lease duration, measured by
  its own clock from the moment it saw the last *change*. Dates in the record are for humans.
- A leader that could not renew for ``renew_deadline`` has lost, and ``may_write()`` says no from then on,
  also if nothing else in the process has noticed yet. The time counts from *sending* the last renewal that
  succeeded: whoever saw it saw it later.

What it does not guarantee: that a request sent before the deadline has not been delayed on its way. The
difference between lease duration and renew deadline (5 s) is there for those.

The class runs on any event loop. In a manager it runs on a thread of its own; see ``thread``.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Final

from quarterdeck.api import UNSET, ObjectMeta, encode, value_or
from quarterdeck.api.instant import MicroTime
from quarterdeck.api.k8s import Lease
from quarterdeck.api.k8s.coordination import LeaseSpec
from quarterdeck.client import Client, Clock
from quarterdeck.client.clock import SystemClock
from quarterdeck.errors import ApiError, Conflict, NotFound, QuarterdeckError, TransportError
from quarterdeck.runtime.election.options import JITTER, LeaderElection
from quarterdeck.runtime.log.field import get_logger
from quarterdeck.runtime.metrics import ElectionMetrics

OVERDUE_GRACE: Final = 10.0
"""Seconds beyond the lease duration after which a leader that did not notice is a case for liveness."""

Tell = Callable[[Lease, str], None]
"""Takes the Lease and what happened to it (``<identity> became leader``)."""


class LeaseOverdue(QuarterdeckError):
    """We still believe to lead, and have not renewed for far too long."""


class LeaderElector:
    """One candidate for one Lease."""

    def __init__(
        self,
        client: Client,
        options: LeaderElection,
        *,
        tell: Tell | None = None,
        metrics: ElectionMetrics | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """``client`` must not be shared with reconcilers: a slow queue must not lose the Lease."""
        self.options: Final = options.checked()
        self.identity: Final = self.options.identity
        self._client: Final = client
        self._tell: Final = tell
        self._metrics: Final = metrics
        # Not the loop's time: uvloop reads its clock once per turn, and the fence must see a long turn.
        self._clock: Final = clock if clock is not None else SystemClock()
        self._random: Final = rng if rng is not None else random.Random()  # noqa: S311  jitter, no secret
        self._log: Final = get_logger(__name__).bind(lock=f"{self.options.namespace}/{self.options.name}")
        self._lease: Lease | None = None
        self._record = b""
        self._observed_at = 0.0
        self._renewed_at: float | None = None
        self._leads = False
        self._has_tried = False
        if metrics is not None:
            metrics.leading(False)

    @property
    def is_leader(self) -> bool:
        """Whether the Lease was won and not lost since; ask ``may_write`` before acting on it."""
        return self._leads

    @property
    def holder(self) -> str:
        """Who holds the Lease as far as we have seen; empty if nobody does."""
        return _holder(self._lease) if self._lease is not None else ""

    def may_write(self) -> bool:
        """Whether a write sent now is safe; may be called from any thread."""
        renewed = self._renewed_at
        return self._leads and renewed is not None and self._age(renewed) <= self.options.renew_deadline

    def check(self) -> None:
        """A liveness check: raises ``LeaseOverdue`` for a leader that is late beyond all measure."""
        renewed = self._renewed_at
        if self._leads and renewed is not None:
            late = self._age(renewed) - self.options.lease_duration
            if late > OVERDUE_GRACE:
                raise LeaseOverdue(f"failed election to renew leadership on lease {self.options.name}")

    def _age(self, since: float) -> float:
        return self._clock.monotonic() - since

    async def acquire(self) -> None:
        """Campaign until the Lease is ours."""
        self._log.info("Attempting to acquire leader lease...")
        period = self.options.retry_period
        while not await self.try_acquire_or_renew():
            await self._clock.sleep(period * (1 + self._random.random() * JITTER))
        self._leads = True
        if self._metrics is not None:
            self._metrics.leading(True)
        self._log.info("Successfully acquired lease", identity=self.identity)
        self._report("became leader")

    async def renew(self) -> None:
        """Keep the Lease; returns when it is lost. Cancelling leaves it held: see ``release``."""
        try:
            while await self._renew_once():
                await self._clock.sleep(self.options.retry_period)
            self._log.info("Failed to renew lease", identity=self.identity)
        finally:
            # Whatever ended it, nobody renews any more: from here on time runs against us.
            self._leads = False
            if self._metrics is not None:
                self._metrics.leading(False)
            self._report("stopped leading")

    async def _renew_once(self) -> bool:
        """One series of tries within the renew deadline."""
        deadline = self._clock.monotonic() + self.options.renew_deadline
        while True:
            try:
                async with asyncio.timeout(max(deadline - self._clock.monotonic(), 0.0)):
                    if await self.try_acquire_or_renew():
                        return True
            except TimeoutError:
                return False
            wait = min(self.options.retry_period, deadline - self._clock.monotonic())
            if wait <= 0:
                return False
            await self._clock.sleep(wait)

    async def release(self) -> bool:
        """Give the Lease back, after everything that needed it has stopped; returns whether it was ours."""
        if not self._has_tried:
            return False  # never even asked for it: nothing to look up while the process stops
        try:
            async with asyncio.timeout(self.options.renew_deadline):
                while True:
                    try:
                        return await self._release_once()
                    except Conflict:
                        continue
        except (QuarterdeckError, TimeoutError) as error:
            self._log.error("Failed to release lease", error, trace=False)
            return False

    async def _release_once(self) -> bool:
        lease = await self._client.get(Lease, self.options.name, self.options.namespace)
        if _holder(lease) != self.identity:
            return False
        now = self._now()
        spec = lease.spec.evolve(
            holder_identity="",
            lease_duration_seconds=1,
            acquire_time=now,
            renew_time=now,
            lease_transitions=value_or(lease.spec.lease_transitions, 0),
        )
        self._see(await self._client.update(lease.evolve(spec=spec)))
        self._renewed_at = None
        return True

    async def try_acquire_or_renew(self) -> bool:
        """Take or renew the Lease if that is allowed; returns whether it is ours now."""
        started = self._clock.monotonic()
        known = self._lease
        if known is not None and _holder(known) == self.identity and self._is_valid(known, started):
            # Fast path: we know the version, so one request is enough.
            try:
                return await self._put(known, started)
            except (ApiError, TransportError) as error:
                self._log.debug(
                    "Failed to update lease optimistically, falling back to slow path", error=str(error)
                )
        try:
            return await self._slow_path()
        except (ApiError, TransportError) as error:
            self._log.warning("Error retrieving or updating lease lock", error)
            return False

    async def _slow_path(self) -> bool:
        name, namespace = self.options.name, self.options.namespace
        started = self._clock.monotonic()
        try:
            lease = await self._client.get(Lease, name, namespace)
        except NotFound:
            if self._went_back(None):
                return False
            made = Lease(
                metadata=ObjectMeta(name=name, namespace=namespace, labels=self.options.labels),
                spec=self._mine(None),
            )
            self._has_tried = True
            self._won(await self._client.create(made), started)
            return True
        if self._went_back(lease):
            return False
        if encode(lease.spec) != self._record:
            self._see(lease)
        else:
            self._lease = lease  # same record, perhaps a newer version (somebody labelled it)
        holder = _holder(lease)
        if holder != self.identity:
            self._renewed_at = None  # whatever we thought: somebody else was faster, or took it by force
        if holder and holder != self.identity and self._is_valid(lease, self._clock.monotonic()):
            self._log.debug("Lease is held by and has not yet expired", holder=holder)
            return False
        if holder == self.identity and self._metrics is not None:
            self._metrics.slow_path()
        return await self._put(lease, self._clock.monotonic())

    def _went_back(self, lease: Lease | None) -> bool:
        """Whether somebody else leads who is in no record any more.

        A Lease that was deleted, or is older than the one we have seen because the server was restored from a
        backup, does not say so: its holder goes on until it notices, or until its time is over.
        """
        known = self._lease
        if known is None or _holder(known) in ("", self.identity):
            return False
        if lease is not None and _renewed(lease) >= _renewed(known):
            return False
        return self._is_valid(known, self._clock.monotonic())

    async def _put(self, lease: Lease, started: float) -> bool:
        self._has_tried = True
        self._won(await self._client.update(lease.evolve(spec=self._mine(lease.spec))), started)
        return True

    def _mine(self, before: LeaseSpec | None) -> LeaseSpec:
        """The record with us as holder; acquire time and transitions stay if it was ours."""
        now = self._now()
        was_mine = before is not None and value_or(before.holder_identity, "") == self.identity
        transitions = value_or(before.lease_transitions, 0) if before is not None else 0
        if before is not None and not was_mine:
            transitions += 1
        acquired = before.acquire_time if before is not None and was_mine else UNSET
        base = before if before is not None else LeaseSpec()
        return base.evolve(
            holder_identity=self.identity,
            lease_duration_seconds=int(self.options.lease_duration),
            acquire_time=acquired or now,
            renew_time=now,
            lease_transitions=transitions,
        )

    def _won(self, lease: Lease, started: float) -> None:
        self._see(lease)
        self._observed_at = started
        self._renewed_at = started

    def _see(self, lease: Lease) -> None:
        self._lease = lease
        self._record = encode(lease.spec)
        self._observed_at = self._clock.monotonic()

    def _is_valid(self, lease: Lease, now: float) -> bool:
        return self._observed_at + value_or(lease.spec.lease_duration_seconds, 0) > now

    def _now(self) -> MicroTime:
        return MicroTime.of_timestamp(self._clock.time())

    def _report(self, what: str) -> None:
        if self._tell is not None and self._lease is not None:
            self._tell(self._lease, f"{self.identity} {what}")


def _renewed(lease: Lease) -> float:
    """When a Lease was renewed, by its holder's clock."""
    found = lease.spec.renew_time
    return found.timestamp() if isinstance(found, MicroTime) else 0.0


def _holder(lease: Lease) -> str:
    return value_or(lease.spec.holder_identity, "")
