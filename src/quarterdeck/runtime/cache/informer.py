"""An informer: one kind, cached and watched.

It owns the shards (one list/watch each), the indexes over all of them, the handlers, and the tasks that
run them. Handlers and indexes may come and go while it runs; what is removed leaves nothing behind.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec

from quarterdeck.api import DynamicObject, GroupVersionKind, PartialObjectMetadata, Resource, decode
from quarterdeck.api.codec import decode_json
from quarterdeck.client.call import Call
from quarterdeck.client.clock import Clock
from quarterdeck.client.discovery import ResourceMapping
from quarterdeck.client.representation import AnyKind, MetadataKind
from quarterdeck.errors import CacheError, NoKindMatch, NotSynced, QuarterdeckError
from quarterdeck.runtime.cache.decoding import DecodingStatistics, ObjectDecoder
from quarterdeck.runtime.cache.entry import Entry, EntryFactory
from quarterdeck.runtime.cache.health import Health, HealthState
from quarterdeck.runtime.cache.index import Index, IndexTable
from quarterdeck.runtime.cache.indexset import IndexSet
from quarterdeck.runtime.cache.options import ALL_NAMESPACES, ShardSettings
from quarterdeck.runtime.cache.reflector import MISSING_KIND_PERIOD, Reflector, log_missing
from quarterdeck.runtime.cache.reflectoroption import ReflectorOptions, ReflectorStatistics
from quarterdeck.runtime.cache.registration import EventHandler, Registration
from quarterdeck.runtime.cache.shard import Shard
from quarterdeck.runtime.cache.sink import Opener
from quarterdeck.runtime.cache.store import Change, Delta
from quarterdeck.runtime.cache.verification import find_differences
from quarterdeck.runtime.log.field import get_logger
from quarterdeck.runtime.loop.backoff import EndlessBackoff
from quarterdeck.runtime.loop.taskerror import unwrapped
from quarterdeck.runtime.metrics.definition import INFORMER_BUCKETS
from quarterdeck.runtime.metrics.registry import Histogram

T = TypeVar("T")
_HEALTH_PERIOD: Final = 0.25
"""Seconds after which a waiting reader looks at the health again."""
_METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
_METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"


class InformerStatistics(msgspec.Struct, frozen=True):
    """What an informer holds and how it is doing."""

    gvk: GroupVersionKind
    is_metadata_only: bool
    objects: int
    bytes: int
    """JSON bytes kept."""
    has_synced: bool
    version: str
    """The version seen; of the first shard where there are several."""
    last_event: float | None
    """Loop time of the last event or bookmark of the quietest shard."""
    health: Health
    """The worst of the shards."""
    queued: int
    """Deltas not yet handled, over all handlers."""
    handling: int
    """Deltas that handlers are at work on."""
    handlers: int
    shards: tuple[ReflectorStatistics, ...]
    decoding: tuple[DecodingStatistics, ...]
    differences: int
    """Objects the consistency probe had to repair."""
    handler_failures: int = 0
    """How often a handler raised; the change was handled again each time."""


class Informer:
    """Caches one kind and reports its changes."""

    def __init__(
        self,
        *,
        gvk: GroupVersionKind,
        cls: type[Resource] | None,
        metadata_only: bool,
        opener: Opener,
        resolve: Callable[[], Awaitable[ResourceMapping]],
        settings: Callable[[ResourceMapping], Sequence[ShardSettings]],
        remembered_bytes: int,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self.gvk: Final = gvk
        self.is_metadata_only: Final = metadata_only
        self.is_needed = True
        """Whether somebody cannot do without the kind; see ``Cache.informer``."""
        self._observers: Final[list[Callable[[Entry | None, Entry | None], None]]] = []
        self._opener: Final = opener
        self._resolve: Final = resolve
        self._settings: Final = settings
        self._remembered_bytes: Final = remembered_bytes
        self._clock: Final = clock
        self._random: Final = rng
        self._log: Final = get_logger(__name__).bind(kind=str(gvk.group_kind))
        self._decoders: dict[Any, ObjectDecoder[Any]] = {}
        self._indexes: Final = IndexSet(gvk, decode=lambda: self.decoder(cls or gvk).once)
        self._registrations: list[Registration] = []
        self.processing: Final = Histogram(INFORMER_BUCKETS)
        """Seconds that handlers took, change by change."""
        self._tasks: dict[Registration, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._mapping: ResourceMapping | None = None
        self._shards: dict[str, Shard] = {}
        self._plans: dict[str, ShardSettings] = {}
        self._reflectors: dict[str, Reflector] = {}
        self._synced: Final = asyncio.Event()
        self._health = Health(HealthState.STARTING)
        self._differences = 0
        self._handler_failures = 0
        self._started = False

    @property
    def has_synced(self) -> bool:
        """Whether the first list of every shard is stored (handlers have their own ``has_synced``)."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait for the first list of every shard."""
        await self._synced.wait()

    async def wait_readable(self) -> None:
        """Wait for the first list of every shard; raises ``NotSynced`` if something keeps it from coming.

        What keeps it is a missing permission or CRD, or bad credentials: nothing that a reader should wait
        for without knowing.
        """
        while not self._synced.is_set() and not self.is_absent:
            if self.health.is_blocked:
                raise NotSynced(f"{self.gvk} cannot be read: {self.health}")
            with suppress(TimeoutError):
                async with asyncio.timeout(_HEALTH_PERIOD):
                    await self._synced.wait()

    @property
    def is_absent(self) -> bool:
        """Whether the kind does not exist, and nobody needs it to: it has no objects then."""
        return not self.is_needed and self.health.state is HealthState.KIND_MISSING

    @property
    def is_running(self) -> bool:
        """Whether ``run()`` is under way."""
        return self._group is not None

    @property
    def mapping(self) -> ResourceMapping | None:
        """Resource and scope, once known."""
        return self._mapping

    @property
    def health(self) -> Health:
        """The worst health of the shards."""
        return next(
            (shard.health for shard in self._shards.values() if not shard.health.is_good),
            self._health if not self._shards else next(iter(self._shards.values())).health,
        )

    @property
    def silence_limit(self) -> float:
        """Seconds after which a silent watch is reopened; the longest of the shards, 0 for never."""
        limits = [reflector.silence for reflector in self._reflectors.values()]
        return 0.0 if 0.0 in limits else max(limits, default=0.0)

    @property
    def rewinds(self) -> int:
        """How often the server was seen to go back in time: it was restored from a backup."""
        return sum(shard.rewinds for shard in self._shards.values())

    @property
    def shards(self) -> Iterable[Shard]:
        """The list/watches this informer consists of."""
        return self._shards.values()

    def statistics(self) -> InformerStatistics:
        """Objects, bytes, lag and trouble."""
        shards = tuple(reflector.statistics() for reflector in self._reflectors.values())
        events = [s.last_event for s in shards if s.last_event is not None]
        stores = [shard.store for shard in self._shards.values()]
        handlers = [registration.statistics() for registration in self._registrations]
        return InformerStatistics(
            gvk=self.gvk,
            is_metadata_only=self.is_metadata_only,
            objects=sum(len(store) for store in stores),
            bytes=sum(store.bytes for store in stores),
            has_synced=self.has_synced,
            version=stores[0].version if stores else "",
            last_event=min(events) if events else None,
            health=self.health,
            queued=sum(handler.queued for handler in handlers),
            handling=sum(handler.is_handling for handler in handlers),
            handlers=len(handlers),
            shards=shards,
            decoding=tuple(decoder.statistics() for decoder in self._decoders.values()),
            differences=self._differences,
            handler_failures=self._handler_failures,
        )

    async def run(self) -> None:
        """List, watch and serve handlers until cancelled; may be called once."""
        if self._started:
            raise CacheError(f"the informer of {self.gvk} was started more than once")
        self._started = True
        try:
            mapping = await self._find_mapping()
            self._make_shards(mapping)
            with unwrapped():
                async with asyncio.TaskGroup() as group:
                    self._group = group
                    for registration in self._registrations:
                        self._start_registration(registration, group)
                    for namespace, shard in self._shards.items():
                        self._start_shard(shard, self._plans[namespace], mapping, group)
        finally:
            self._group = None
            self._tasks.clear()
            for registration in self._registrations:
                registration.close()

    async def _find_mapping(self) -> ResourceMapping:
        backoff = EndlessBackoff(base=0.8, cap=30.0, jitter=1.0, clock=self._clock, rng=self._random)
        while True:
            try:
                return await self._resolve()
            except NoKindMatch as error:
                if self._health.state is not HealthState.KIND_MISSING:
                    log_missing(self._log, error, is_needed=self.is_needed)
                self._health = self._trouble(HealthState.KIND_MISSING, error)
                wait = MISSING_KIND_PERIOD
            except QuarterdeckError as error:
                self._log.warning("cannot discover the kind", error)
                self._health = self._trouble(HealthState.RETRYING, error)
                wait = backoff.next()
            await self._clock.sleep(wait)

    def _trouble(self, state: HealthState, error: Exception) -> Health:
        since = self._health.since if self._health.state is state else self._clock.monotonic()
        return Health(state, "get", str(self.gvk.group_kind), str(error), since)

    def _make_shards(self, mapping: ResourceMapping) -> None:
        self._mapping = mapping
        for plan in self._settings(mapping):
            factory = EntryFactory(
                kind=self.gvk.kind,
                api_version=self.gvk.api_version,
                transforms=plan.transforms,
                is_packed=plan.is_packed,
            )
            self._indexes.follow(factory)
            self._plans[plan.namespace] = plan
            self._shards[plan.namespace] = Shard(namespace=plan.namespace, factory=factory, owner=self)
        for registration in self._registrations:
            registration.expect(self._shards)

    def _start_shard(
        self, shard: Shard, plan: ShardSettings, mapping: ResourceMapping, group: asyncio.TaskGroup
    ) -> None:
        reflector = Reflector(
            opener=self._opener,
            mapping=mapping,
            sink=shard,
            options=ReflectorOptions(
                namespace=plan.request_namespace,
                label_selector=str(plan.labels),
                field_selector=str(plan.fields),
                accept_list=_METADATA_LIST if self.is_metadata_only else "application/json",
                accept_watch=_METADATA if self.is_metadata_only else "application/json",
                stream_lists=plan.stream_lists,
                bookmarks=plan.bookmarks,
                silence=plan.silence,
                internal_error_window=plan.internal_error_window,
            ),
            is_needed=lambda: self.is_needed,
            clock=self._clock,
            rng=self._random,
        )
        self._reflectors[plan.namespace] = reflector
        name = f"{self.gvk.kind} {plan.namespace}".strip()
        group.create_task(reflector.run(), name=f"reflector {name}")
        if plan.resync_period > 0:
            group.create_task(self._resync(shard, plan.resync_period), name=f"resync {name}")
        if plan.verify_period > 0:
            group.create_task(self._verify(shard, plan, reflector), name=f"verify {name}")

    async def _resync(self, shard: Shard, period: float) -> None:
        while True:
            await self._clock.sleep(period * self._random.uniform(0.9, 1.1))
            self.dispatch([Delta(Change.UPDATED, entry, entry) for entry in shard.store.entries()])

    async def _verify(self, shard: Shard, plan: ShardSettings, reflector: Reflector) -> None:
        assert self._mapping is not None
        query = [("labelSelector", str(plan.labels)), ("fieldSelector", str(plan.fields))]
        call = Call(
            "list",
            self._mapping.gvk,
            self._mapping.gvr,
            self._mapping.is_namespaced,
            namespace=plan.request_namespace,
            query=tuple(pair for pair in query if pair[1]),
        )
        await shard.wait_synced()
        while True:
            await self._clock.sleep(plan.verify_period * self._random.uniform(0.9, 1.1))
            try:
                async with asyncio.timeout(plan.verify_period):
                    found = await find_differences(opener=self._opener, call=call, store=shard.store)
            except (QuarterdeckError, TimeoutError) as error:
                self._log.warning("cannot verify the cache", error)
                continue
            if found:
                self._differences += len(found)
                self._log.error(
                    "cache differs from the server, listing again",
                    objects=len(found),
                    first=f"{found[0].namespace}/{found[0].name}: {found[0].problem}",
                )
                reflector.request_list("verify")

    def add_handler(self, handler: EventHandler, *, name: str = "", initial: bool = True) -> Registration:
        """Report changes to ``handler``, the present state first (as initial additions) unless unwanted."""
        registration = Registration(
            handler,
            name=name or type(handler).__name__,
            wants_initial=initial,
            observe=self.processing.observe,
            failed=self._handler_failed,
        )
        self._registrations.append(registration)
        if self._mapping is not None:
            registration.expect(self._shards)
            for namespace, shard in self._shards.items():
                if shard.has_synced:
                    registration.present(list(shard.store.entries()))
                    registration.mark(namespace)
        if self._group is not None:
            self._start_registration(registration, self._group)
        return registration

    def _handler_failed(self) -> None:
        self._handler_failures += 1

    def remove_handler(self, registration: Registration) -> None:
        """Stop reporting; queued changes are forgotten."""
        if registration in self._registrations:
            self._registrations.remove(registration)
        registration.close()
        task = self._tasks.pop(registration, None)
        if task is not None:
            task.cancel()

    def _start_registration(self, registration: Registration, group: asyncio.TaskGroup) -> None:
        self._tasks[registration] = group.create_task(registration.run(), name=f"handler {self.gvk.kind}")

    def dispatch(self, deltas: Sequence[Delta]) -> None:
        """Hand changes to every handler's buffer."""
        for registration in self._registrations:
            registration.push(deltas)

    def present(self, entries: Sequence[Entry]) -> None:
        """Tell every handler of objects that are there from the beginning."""
        for registration in self._registrations:
            registration.present(entries)

    def observe(self, observer: Callable[[Entry | None, Entry | None], None]) -> None:
        """Have every entry that leaves and enters a store told in the same moment; it must be quick."""
        self._observers.append(observer)

    def swapped(self, old: Entry | None, new: Entry | None) -> None:
        """Keep indexes and decoded objects in step with the stores."""
        for observer in self._observers:
            observer(old, new)
        if old is not None:
            for decoder in self._decoders.values():
                decoder.forget(old)
        self._indexes.swap(old, new)

    def shard_listed(self, shard: Shard, *, first: bool) -> None:
        """The first list of a shard lets its handlers, and perhaps the informer, become synced."""
        if not first:
            return
        for registration in self._registrations:
            registration.mark(shard.namespace)
        if all(each.has_synced for each in self._shards.values()):
            self._synced.set()

    def shard_health(self, shard: Shard, health: Health) -> None:
        """Remember the last change for ``statistics``."""
        self._health = health

    def declare_index(self, index: Index[Any]) -> None:
        """Keep an index; cheap before the informer has objects, and for label, owner and path indexes.

        An index over a function decodes every object that is there already: with many of them, use
        ``add_index``, which gives way while it builds.
        """
        self._indexes.declare(index, self.entries())

    async def add_index(self, index: Index[Any]) -> None:
        """Keep an index from now on, over the objects that are there as well; gives way while it builds."""
        await self._indexes.build(index, [shard.store for shard in self._shards.values()])

    def remove_index(self, name: str) -> None:
        """Stop keeping an index."""
        self._indexes.remove(name)

    def table(self, name: str) -> IndexTable | None:
        """A filled index by name."""
        return self._indexes.table(name)

    def shard_for(self, namespace: str) -> Shard | None:
        """The shard that holds a namespace; ``None`` if the cache does not hold it."""
        known = self._shards.get(namespace)
        if known is not None:
            return known
        rest = self._shards.get(ALL_NAMESPACES)
        if rest is None:
            return None
        plan = self._plans[ALL_NAMESPACES]
        if plan.request_namespace and namespace != plan.request_namespace:
            return None
        return rest

    def shard_holding(self, namespace: str, labels: Mapping[str, str], body: bytes) -> Shard | None:
        """The shard in which an object is going to be seen, by its labels and fields; ``None`` if in none."""
        shard = self.shard_for(namespace)
        if shard is None or not self._plans[shard.namespace].labels.matches(labels):
            return None
        fields = self._plans[shard.namespace].fields
        if fields.terms:
            document = decode_json(body)
            if not fields.matches(lambda path: _text_at(document, path)):
                return None
        return shard

    def get(self, namespace: str, name: str) -> Entry | None:
        """One entry; raises ``CacheError`` for a namespace the cache does not hold."""
        shard = self.shard_for(namespace)
        if shard is None:
            if self._mapping is None:
                return None  # the kind is not even discovered: there is nothing of it
            key = f"{namespace}/{name}" if namespace else name
            raise CacheError(f"unable to get: {key} because of unknown namespace for the cache")
        return shard.store.get(namespace, name)

    def entries(self, namespace: str = "") -> Iterator[Entry]:
        """Entries of one namespace, or of all."""
        if not namespace:
            for shard in self._shards.values():
                yield from shard.store.entries()
            return
        holder = self.shard_for(namespace)
        if holder is None:
            if self._mapping is None:
                return
            raise CacheError(f"unable to list: {namespace} because of unknown namespace for the cache")
        yield from holder.store.entries(namespace)

    def decoder(self, kind: AnyKind) -> ObjectDecoder[Any]:
        """Turns entries into objects of one representation."""
        known = self._decoders.get(kind)
        if known is None:
            known = self._decoders[kind] = ObjectDecoder(
                self._reader(kind), remembered_bytes=self._remembered_bytes
            )
        return known

    def _reader(self, kind: AnyKind) -> Callable[[bytes], Any]:
        gvk = self.gvk
        if isinstance(kind, MetadataKind) or self.is_metadata_only:
            return lambda raw: decode(raw, PartialObjectMetadata).evolve(
                api_version=gvk.api_version, kind=gvk.kind
            )
        if isinstance(kind, GroupVersionKind):
            return DynamicObject.from_bytes
        return lambda raw: decode(raw, kind)


def _text_at(document: Any, path: str) -> str:
    """A field as field selectors compare it; empty when it is absent."""
    for step in path.split("."):
        document = document.get(step) if isinstance(document, dict) else None
    return "" if document is None else str(document)
