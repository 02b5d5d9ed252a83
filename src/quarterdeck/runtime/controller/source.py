"""Where a controller's keys come from.

A source runs as a task of its controller until it is cancelled, which is also how it is removed. It tells
its controller when the keys of the present state have been enqueued (``synced``): workers start after
that. The everyday source is ``KindSource``, a watch; the others bring in what is not in the cluster.
"""

import asyncio
import inspect
import itertools
import random
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeAlias

from quarterdeck.api import Key, Writable
from quarterdeck.client.clock import Clock
from quarterdeck.client.representation import AnyKind, MetadataKind
from quarterdeck.runtime.cache.cache import Cache
from quarterdeck.runtime.cache.informer import Informer
from quarterdeck.runtime.cache.registration import HANDLER_TIMEOUT, retry_wait
from quarterdeck.runtime.cache.store import Change, Delta
from quarterdeck.runtime.controller.change import ObjectEvent, generic_event
from quarterdeck.runtime.controller.handler import KeyMapper, MapContext, for_object
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.log.field import get_logger
from quarterdeck.runtime.loop.supervision import contained
from quarterdeck.runtime.loop.taskerror import unwrapped
from quarterdeck.runtime.queue.workqueue import LOW_PRIORITY

Delay: TypeAlias = Callable[[Key], float]
_Pending: TypeAlias = dict[Key, ObjectEvent[Any]]
"""The newest event of each object that a mapper has failed on."""

CHANNEL_BUFFER: Final = 1024
_PLAIN: Final = (tuple, dict, list)
_log: Final = get_logger(__name__)


class Enqueue(Protocol):
    """Asks for attention to a key."""

    def __call__(self, key: Key, priority: int, *, after: float = 0.0) -> None:
        """Now, or in ``after`` seconds; a key without a cluster is one of the source's own."""
        ...


class SourceContext:
    """What a controller gives to its sources, one per cluster."""

    __slots__ = ("_synced", "cache", "clock", "cluster", "enqueue", "predicates", "rng")

    def __init__(
        self,
        *,
        cache: Cache,
        cluster: str,
        enqueue: Enqueue,
        predicates: Sequence[Predicate],
        clock: Clock,
        rng: random.Random,
        synced: Callable[[], None],
    ) -> None:
        self.cache: Final = cache
        self.cluster: Final = cluster
        self.enqueue: Final = enqueue
        self.predicates: Final = tuple(predicates)
        self.clock: Final = clock
        self.rng: Final = rng
        self._synced: Final = synced

    def synced(self) -> None:
        """The present state has been enqueued; call it once."""
        self._synced()


class Source(Protocol):
    """Something that enqueues keys."""

    @property
    def name(self) -> str:
        """For logs: what is watched."""
        ...

    async def run(self, context: SourceContext) -> None:
        """Enqueue until cancelled."""
        ...


class _Enqueuer:
    """Predicates, then the mapper, then the queue: the event handler of an informer."""

    def __init__(
        self,
        context: SourceContext,
        mapper: KeyMapper,
        predicates: Sequence[Predicate],
        decode: Callable[[Any], Any],
        *,
        initial_priority: int,
        resync_priority: int,
        delay: Delay | None = None,
    ) -> None:
        self._context: Final = context
        self._mapper: Final = mapper
        self._predicates: Final = (*context.predicates, *predicates)
        self._decode: Final = decode
        self._initial: Final = initial_priority
        self._resync: Final = resync_priority
        self._delay: Final = delay
        self._map_context: Final = MapContext(context.cache, context.cluster)

    @property
    def wants_initial(self) -> bool:
        """Whether objects that are there from the beginning may matter."""
        return not any(predicate.refuses(Change.ADDED) for predicate in self._predicates)

    def handle(self, delta: Delta) -> Awaitable[None] | None:
        return self.take(ObjectEvent(delta, self._decode, cluster=self._context.cluster))

    def take(self, event: ObjectEvent[Any]) -> Awaitable[None] | None:
        for predicate in self._predicates:
            if not predicate(event):
                return None
        keys = self._mapper.keys(event, self._map_context)
        priority = self._initial if event.is_initial else self._resync if event.is_resync else 0
        # Asked in this order, because most mappers answer with plain keys and the second question is dear.
        if isinstance(keys, _PLAIN) or not inspect.isawaitable(keys):
            self._enqueue(keys, priority)
            return None
        return self._later(keys, priority)

    async def _later(self, keys: Awaitable[Iterable[Key]], priority: int) -> None:
        self._enqueue(await keys, priority)

    def _enqueue(self, keys: Iterable[Key], priority: int) -> None:
        enqueue, delay = self._context.enqueue, self._delay
        for key in dict.fromkeys(keys) if not isinstance(keys, dict) else keys:
            if not isinstance(key, Key):
                raise TypeError(f"a mapper names keys, not {type(key).__name__}: {key!r}"[:200])
            enqueue(key, priority, after=delay(key) if delay is not None else 0.0)


class KindSource:
    """Changes of one kind, by way of the cache.

    - ``optional``: do not wait for the kind and do not fail without it; the watch attaches when its CRD
      shows up and goes quiet when it leaves.
    - ``initial_priority``, ``resync_priority``: band of keys from the first list and from resyncs; −100.
    - ``delay``: seconds for which changes that concern a key are gathered, none unless set. Most things
      happen to many objects at once, and one look at all of them is as good as a look after each.
    """

    def __init__(
        self,
        kind: AnyKind,
        mapper: KeyMapper = for_object,
        *,
        predicates: Sequence[Predicate] = (),
        optional: bool = False,
        initial_priority: int = LOW_PRIORITY,
        resync_priority: int = LOW_PRIORITY,
        delay: Delay | None = None,
    ) -> None:
        self.kind: Final = kind
        self.mapper: Final = mapper
        self.predicates: Final = tuple(predicates)
        self.is_optional: Final = optional
        self._initial: Final = initial_priority
        self._resync: Final = resync_priority
        self._delay: Final = delay

    @property
    def name(self) -> str:
        """The kind."""
        kind = self.kind
        if isinstance(kind, MetadataKind):
            return f"kind source: {kind.gvk.kind} (metadata)"
        gvk = kind.type_info.gvk if isinstance(kind, type) else kind
        return f"kind source: {gvk.kind}"

    def prepare(self, cache: Cache) -> Informer:
        """Declare the informer, so that it is listed with the others when the cache starts."""
        return cache.informer(self.kind, optional=self.is_optional)

    async def run(self, context: SourceContext) -> None:
        """Follow the informer of the kind until cancelled."""
        informer = self.prepare(context.cache)
        await _follow(
            informer,
            _Enqueuer(
                context,
                self.mapper,
                self.predicates,
                informer.decoder(self.kind),
                initial_priority=self._initial,
                resync_priority=self._resync,
                delay=self._delay,
            ),
            context,
            name=self.name,
            optional=self.is_optional,
        )

    def __repr__(self) -> str:
        return f"KindSource({self.name}, {self.mapper!r})"


async def _follow(
    informer: Informer, enqueuer: _Enqueuer, context: SourceContext, *, name: str, optional: bool
) -> None:
    registration = informer.add_handler(enqueuer, name=name, initial=enqueuer.wants_initial)
    try:
        if not optional:
            await registration.wait_synced()
        context.synced()
        await asyncio.get_running_loop().create_future()
    finally:
        informer.remove_handler(registration)


class Channel:
    """Events from outside the cluster, for any number of controllers.

    Every consumer has a buffer of 1024; ``send`` waits for the slowest of them.
    """

    def __init__(self, *, buffer: int = CHANNEL_BUFFER) -> None:
        self._buffer: Final = buffer
        self._consumers: list[asyncio.Queue[Key | Writable]] = []

    async def send(self, item: Key | Writable) -> None:
        """Tell every consumer about a key or an object."""
        for consumer in tuple(self._consumers):
            await consumer.put(item)

    def offer(self, item: Key | Writable) -> bool:
        """Tell every consumer without waiting; if one has no room nobody is told, and the answer is no."""
        if any(consumer.full() for consumer in self._consumers):
            return False
        for consumer in self._consumers:
            consumer.put_nowait(item)
        return True

    @property
    def has_consumers(self) -> bool:
        """Whether anybody listens."""
        return bool(self._consumers)

    def subscribe(self) -> "asyncio.Queue[Key | Writable]":
        """A new consumer's buffer."""
        consumer: asyncio.Queue[Key | Writable] = asyncio.Queue(self._buffer)
        self._consumers.append(consumer)
        return consumer

    def unsubscribe(self, consumer: "asyncio.Queue[Key | Writable]") -> None:
        """Forget a consumer."""
        self._consumers.remove(consumer)


class ChannelSource:
    """Items of a channel, or of any async iterable: keys as they are, objects through the mapper."""

    def __init__(
        self,
        channel: Channel | AsyncIterable[Key | Writable],
        mapper: KeyMapper = for_object,
        *,
        predicates: Sequence[Predicate] = (),
        name: str = "channel",
    ) -> None:
        self._channel: Final = channel
        self._mapper: Final = mapper
        self._predicates: Final = tuple(predicates)
        self.name: Final = f"channel source: {name}"

    async def run(self, context: SourceContext) -> None:
        """Take items until cancelled, or until the iterable ends."""
        enqueuer = _Enqueuer(
            context,
            self._mapper,
            self._predicates,
            lambda entry: entry,
            initial_priority=LOW_PRIORITY,
            resync_priority=LOW_PRIORITY,
        )
        if not isinstance(self._channel, Channel):
            context.synced()
            with unwrapped():
                async with asyncio.TaskGroup() as retries:
                    pending: _Pending = {}
                    async for item in self._channel:
                        await self._take(item, enqueuer, context, retries, pending)
            return
        buffer = self._channel.subscribe()
        try:
            context.synced()
            async with asyncio.TaskGroup() as retries:
                pending = {}
                while True:
                    await self._take(await buffer.get(), enqueuer, context, retries, pending)
        finally:
            self._channel.unsubscribe(buffer)

    async def _take(
        self,
        item: Key | Writable,
        enqueuer: _Enqueuer,
        context: SourceContext,
        retries: asyncio.TaskGroup,
        pending: _Pending,
    ) -> None:
        if isinstance(item, Key):
            context.enqueue(item, 0)
            return
        event = generic_event(item, cluster=context.cluster)
        if event.key in pending:
            pending[event.key] = event
        elif not await self._handled(event, enqueuer, attempt=1):
            pending[event.key] = event
            retries.create_task(self._again(event.key, pending, enqueuer, context), name=f"{self.name} retry")

    async def _again(self, key: Key, pending: _Pending, enqueuer: _Enqueuer, context: SourceContext) -> None:
        """The newest event of an object is not lost to a mapper that failed; those of others go on."""
        for attempt in itertools.count(2):
            await context.clock.sleep(retry_wait(attempt - 1))
            event = pending[key]
            if await self._handled(event, enqueuer, attempt=attempt) and pending[key] is event:
                del pending[key]
                return

    async def _handled(self, event: ObjectEvent[Any], enqueuer: _Enqueuer, *, attempt: int) -> bool:
        try:
            waiting = enqueuer.take(event)
            if waiting is not None:
                async with asyncio.timeout(HANDLER_TIMEOUT):
                    await waiting
        except BaseException as raised:  # noqa: BLE001  supervision point: user code; the event is kept
            _log.error(
                "event handler failed",
                contained(raised),
                handler=self.name,
                change=event.change.value,
                object=str(event.key),
                attempt=attempt,
                retry=retry_wait(attempt),
            )
            return False
        return True


class TimerSource:
    """The same keys again and again: every ``period`` seconds, stretched by up to ``jitter`` of it."""

    def __init__(
        self,
        period: float,
        keys: Iterable[Key] | Callable[[], Iterable[Key]],
        *,
        jitter: float = 0.1,
        at_start: bool = False,
        priority: int = 0,
    ) -> None:
        self._period: Final = period
        self._keys: Final = keys if callable(keys) else tuple(keys)
        self._jitter: Final = jitter
        self._at_start: Final = at_start
        self._priority: Final = priority
        self.name: Final = f"timer source: every {period:g}s"

    async def run(self, context: SourceContext) -> None:
        """Tick until cancelled."""
        context.synced()
        if self._at_start:
            self._tick(context)
        while True:
            await context.clock.sleep(self._period * (1 + context.rng.random() * self._jitter))
            self._tick(context)

    def _tick(self, context: SourceContext) -> None:
        for key in self._keys() if callable(self._keys) else self._keys:
            context.enqueue(key, self._priority)


Starter: TypeAlias = Callable[[SourceContext], Awaitable[None]]


class FunctionSource:
    """Any coroutine function: it calls ``context.synced()`` and enqueues as it sees fit."""

    def __init__(self, function: Starter, *, name: str = "") -> None:
        self._function: Final = function
        self.name: Final = f"func source: {name or getattr(function, '__qualname__', 'function')}"

    async def run(self, context: SourceContext) -> None:
        """Run the function."""
        await self._function(context)
