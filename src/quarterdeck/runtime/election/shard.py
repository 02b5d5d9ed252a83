"""Sharing the work: one Lease per shard, keys spread over shards, shards over replicas.

``shard_of(key, count)`` says which shard a key belongs to. It is rendezvous hashing: changing the number of
shards moves only the keys that must move. A ``ShardedElector`` campaigns for every shard, so that each has
exactly one leader, and all of the guarantees of ``LeaderElector`` hold per shard.

Replicas share the shards without talking to each other: each keeps a Lease of its own that says it is alive,
and for each shard the same hash names one live replica that should have it. Who should not have a shard does
not campaign for it, and gives it back once the right one has been alive for a lease duration. A replica that
dies stops renewing; its shards move to the others, the rest stay where they are.
"""

import asyncio
import hashlib
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeAlias

import msgspec

from quarterdeck.api import Key, ObjectMeta, encode, value_or
from quarterdeck.api.instant import MicroTime
from quarterdeck.api.k8s import Lease
from quarterdeck.api.k8s.coordination import LeaseSpec
from quarterdeck.client import Client, Clock
from quarterdeck.client.clock import SystemClock
from quarterdeck.errors import NotFound, QuarterdeckError
from quarterdeck.runtime.election.elector import LeaderElector, Tell
from quarterdeck.runtime.election.options import LeaderElection
from quarterdeck.runtime.log.field import get_logger
from quarterdeck.runtime.metrics import RuntimeMetrics

MEMBER_LABEL: Final = "quarterdeck.io/election-member"
"""Label of the Leases by which replicas find each other; its value is the election's name."""
_log: Final = get_logger(__name__)

ShardCallback: TypeAlias = Callable[[int], Awaitable[None]]


def rendezvous(key: str, candidates: Iterable[str]) -> str:
    """The candidate that everybody picks for a key; raises ``ValueError`` without candidates.

    >>> picks = {rendezvous(f"key-{i}", ["a", "b", "c"]) for i in range(50)}
    >>> sorted(picks)
    ['a', 'b', 'c']
    """
    return max(candidates, key=lambda candidate: (_weight(key, candidate), candidate))


def shard_of(key: Key | str, count: int) -> int:
    """The shard of a key, from 0 to ``count`` − 1; the same in every process and version of Python."""
    text = str(key)
    return max(range(count), key=lambda shard: _weight(text, str(shard)))


def _weight(key: str, candidate: str) -> int:
    digest = hashlib.blake2b(f"{candidate}\0{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


class Members:
    """Who is alive, seen by everybody's own clock."""

    def __init__(self, client: Client, options: LeaderElection, *, clock: Clock) -> None:
        self._client: Final = client
        self._options: Final = options
        self._clock: Final = clock
        self._seen: dict[str, tuple[bytes, float]] = {}
        suffix = hashlib.blake2b(options.identity.encode(), digest_size=6).hexdigest()
        self._name: Final = f"{options.name}-member-{suffix}"
        self.alive: frozenset[str] = frozenset()
        """Identities that renewed within the lease duration."""

    async def refresh(self) -> None:
        """Say that we are alive, and see who else is; raises ``QuarterdeckError``."""
        await self._renew()
        leases = await self._client.list(
            Lease, namespace=self._options.namespace, labels={MEMBER_LABEL: self._options.name}
        )
        now = self._clock.monotonic()
        seen: dict[str, tuple[bytes, float]] = {}
        for lease in leases:
            identity, record = value_or(lease.spec.holder_identity, ""), encode(lease.spec)
            known = self._seen.get(identity)
            seen[identity] = known if known is not None and known[0] == record else (record, now)
        self._seen = {identity: entry for identity, entry in seen.items() if identity}
        limit = now - self._options.lease_duration
        self.alive = frozenset(identity for identity, (_, at) in self._seen.items() if at > limit)

    async def _renew(self) -> None:
        spec = LeaseSpec(
            holder_identity=self._options.identity,
            lease_duration_seconds=int(self._options.lease_duration),
            renew_time=MicroTime.of_timestamp(self._clock.time()),
        )
        namespace = self._options.namespace
        try:
            found = await self._client.get(Lease, self._name, namespace)
        except NotFound:
            labels = {**self._options.labels, MEMBER_LABEL: self._options.name}
            metadata = ObjectMeta(name=self._name, namespace=namespace, labels=labels)
            await self._client.create(Lease(metadata=metadata, spec=spec))
            return
        await self._client.update(found.evolve(spec=spec))

    async def leave(self) -> None:
        """Take our Lease away, so that others need not wait for it to expire."""
        try:
            await self._client.delete(Lease, self._name, self._options.namespace)
        except QuarterdeckError as error:
            _log.debug("membership lease not removed", error=str(error))


class ShardedElector:
    """Campaigns for the shards this replica should have; ``client`` must be the election's own."""

    def __init__(
        self,
        client: Client,
        options: LeaderElection,
        *,
        tell: Tell | None = None,
        metrics: RuntimeMetrics | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """Shard ``i`` has the Lease ``<name>-<i>``; the other options are those of every Lease."""
        self.options: Final = options.checked()
        self.shards: Final = options.shards
        self._clock: Final = clock if clock is not None else SystemClock()
        self._members: Final = Members(client, self.options, clock=self._clock)
        self._electors: Final = tuple(
            LeaderElector(
                client,
                msgspec.structs.replace(self.options, name=f"{self.options.name}-{shard}"),
                tell=tell,
                metrics=metrics.election(f"{self.options.name}-{shard}") if metrics is not None else None,
                clock=self._clock,
                rng=rng,
            )
            for shard in range(self.shards)
        )

    @property
    def held(self) -> tuple[int, ...]:
        """The shards we lead now."""
        return tuple(shard for shard, elector in enumerate(self._electors) if elector.is_leader)

    def shard(self, key: Key | str) -> int:
        """The shard a key belongs to."""
        return shard_of(key, self.shards)

    def owns(self, key: Key | str) -> bool:
        """Whether this replica leads the shard of a key."""
        return self._electors[self.shard(key)].is_leader

    def may_write(self, key: Key | str) -> bool:
        """Whether a write on behalf of a key is safe now."""
        return self._electors[self.shard(key)].may_write()

    def check(self) -> None:
        """A liveness check: raises for a shard whose Lease is late beyond all measure."""
        for elector in self._electors:
            elector.check()

    async def run(self, on_started: ShardCallback, on_stopped: ShardCallback) -> None:
        """Campaign until cancelled; callbacks get the shard that was won, lost or given back."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._follow_members(), name="election members")
                for shard in range(self.shards):
                    group.create_task(self._serve(shard, on_started, on_stopped), name=f"shard {shard}")
        finally:
            await asyncio.shield(self._members.leave())

    async def _follow_members(self) -> None:
        while True:
            try:
                await self._members.refresh()
            except QuarterdeckError as error:
                _log.warning("membership of the election not refreshed", error)
            await self._clock.sleep(self.options.retry_period)

    async def _serve(self, shard: int, on_started: ShardCallback, on_stopped: ShardCallback) -> None:
        elector = self._electors[shard]
        while True:
            await self._until(lambda: self._should_have(shard))
            await elector.acquire()
            try:
                await self._lead(shard, elector, on_started)
            finally:
                await on_stopped(shard)
                if self.options.release_on_cancel:
                    await asyncio.shield(elector.release())

    async def _lead(self, shard: int, elector: LeaderElector, on_started: ShardCallback) -> None:
        """Renew until the shard is lost, or should be somebody else's for a whole lease duration."""
        # Renewed from the first moment: whoever is told that the shard is ours may take a while to answer.
        renewing = asyncio.create_task(elector.renew(), name=f"renew shard {shard}")
        yielding = asyncio.create_task(self._until_unwanted(shard), name=f"yield shard {shard}")
        starting = asyncio.ensure_future(on_started(shard))
        try:
            await asyncio.wait({starting, renewing, yielding}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                await asyncio.wait({renewing, yielding}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (starting, renewing, yielding):
                task.cancel()
            await asyncio.gather(starting, renewing, yielding, return_exceptions=True)

    async def _until_unwanted(self, shard: int) -> None:
        since: float | None = None
        while True:
            await self._clock.sleep(self.options.retry_period)
            now = self._clock.monotonic()
            if self._should_have(shard):
                since = None
            elif since is None:
                since = now
            elif now - since >= self.options.lease_duration:
                return

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._clock.sleep(self.options.retry_period)

    def _should_have(self, shard: int) -> bool:
        alive = self._members.alive
        return bool(alive) and rendezvous(f"shard-{shard}", alive) == self.options.identity
