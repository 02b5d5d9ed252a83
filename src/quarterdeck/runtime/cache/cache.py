"""The cache: informers by kind, and reads that never leave the process.

One informer serves every representation of a kind: typed and dynamic reads are views of the same bytes.
Metadata-only informers are separate, because they save bytes on the wire as well; if a full informer of
the kind exists already, it serves metadata too.

By default a kind must be declared (``informer(kind)``, or a watch of a controller) before it is read. The
alternative, an informer for the whole kind at the first read, is how operators come to hold every Secret
of a cluster; ``fail_on_uncached=False`` chooses it.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar, overload

import msgspec

from quarterdeck.api import (
    DynamicObject,
    GroupVersionKind,
    PartialObjectMetadata,
    Resource,
    Scheme,
    Selector,
    Writable,
)
from quarterdeck.api.selector import FieldSelector
from quarterdeck.client.clock import Clock
from quarterdeck.client.discovery import ResourceMapping, RestMapper
from quarterdeck.client.option import Fields, Labels
from quarterdeck.client.representation import AnyKind, MetadataKind
from quarterdeck.errors import CacheError, NotCached, NotFound, NotSynced
from quarterdeck.runtime.cache.entry import Entry
from quarterdeck.runtime.cache.health import HealthState
from quarterdeck.runtime.cache.index import Index, IndexQuery
from quarterdeck.runtime.cache.informer import Informer, InformerStatistics
from quarterdeck.runtime.cache.objects import IndexView, Objects
from quarterdeck.runtime.cache.options import CacheOptions
from quarterdeck.runtime.cache.sink import Opener
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.loop.taskerror import unwrapped

R = TypeVar("R", bound=Resource)


class CacheStatistics(msgspec.Struct, frozen=True):
    """All informers of a cache."""

    informers: tuple[InformerStatistics, ...]

    @property
    def objects(self) -> int:
        """Objects held."""
        return sum(each.objects for each in self.informers)

    @property
    def bytes(self) -> int:
        """JSON bytes held."""
        return sum(each.bytes for each in self.informers)


class _Slot(NamedTuple):
    gvk: GroupVersionKind
    metadata_only: bool


class Cache:
    """Informers of one cluster.

    ``opener`` opens list and watch streams (a client); ``mapper`` finds resources of kinds without class.
    """

    def __init__(
        self,
        opener: Opener,
        mapper: RestMapper,
        *,
        options: CacheOptions | None = None,
        scheme: Scheme | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._opener: Final = opener
        self._mapper: Final = mapper
        self.options: Final = options if options is not None else CacheOptions()
        self.bypassed: Final = frozenset(map(_gvk_of, self.options.disable_for))
        """Kinds that are read from the server, cached or not."""
        self._scheme: Final = scheme
        self._clock: Final = clock if clock is not None else LoopClock()
        self._random: Final = rng if rng is not None else random.Random()  # noqa: S311  jitter, no secret
        self._informers: dict[_Slot, Informer] = {}
        # What was found for a kind before; every read asks. Forgotten when informers come or go.
        self._found: dict[AnyKind, Informer] = {}
        self._holders: dict[GroupVersionKind, tuple[Informer, ...]] = {}
        self._tasks: dict[_Slot, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._has_stopped = False
        self._lender: Cache | None = None

    def borrow_from(self, lender: "Cache") -> None:
        """Serve metadata from another cache of the same cluster, where that one holds whole kinds anyway.

        So a kind with very many objects is listed and kept once. Whoever borrows must stop before the lender.
        """
        self._lender = lender

    def _lent(self, gvk: GroupVersionKind) -> Informer | None:
        """The informer of a kind if it holds every object with all its metadata.

        One whose CRD was missing looks for it from time to time only: who borrows may know it sooner.
        """
        informer = self._informers.get(_Slot(gvk, False))
        if informer is None or informer.health.state is HealthState.KIND_MISSING:
            return None
        return informer if self.options.holds_whole(gvk) else None

    def informer(self, kind: AnyKind, *, optional: bool | None = None) -> Informer:
        """The informer of a kind, made and (if the cache runs) started when there is none.

        A kind may be absent if everybody who declares it says so (``optional=True``): as long as its CRD is
        not installed, it reads as a kind without objects.
        """
        found = self._found.get(kind) if optional is None else None
        if found is not None:
            return found
        slot, known = self._find(kind)
        if known is not None:
            known.is_needed = known.is_needed or optional is False
            self._found[kind] = known
            return known
        informer = self._informers[slot] = self._make(kind, slot)
        informer.is_needed = not optional
        self._forget_found()
        if self._group is not None:
            self._start(slot, informer)
        return informer

    def has_informer(self, kind: AnyKind) -> bool:
        """Whether reads of a kind are served."""
        return self._find(kind)[1] is not None

    async def remove_informer(self, kind: AnyKind) -> None:
        """Stop caching a kind and forget its objects."""
        slot = _slot(kind)
        self._informers.pop(slot, None)
        self._forget_found()
        task = self._tasks.pop(slot, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    @property
    def informers(self) -> tuple[Informer, ...]:
        """All informers."""
        return tuple(self._informers.values())

    def informers_of(self, gvk: GroupVersionKind) -> tuple[Informer, ...]:
        """The informers that hold a kind: full, metadata-only, both or none."""
        known = self._holders.get(gvk)
        if known is None:
            slots = (_Slot(gvk, False), _Slot(gvk, True))
            known = tuple(self._informers[slot] for slot in slots if slot in self._informers)
            self._holders[gvk] = known
        return known

    def _forget_found(self) -> None:
        self._found.clear()
        self._holders.clear()

    def _find(self, kind: AnyKind) -> tuple[_Slot, Informer | None]:
        slot = _slot(kind)
        known = self._informers.get(slot)
        if known is None and slot.metadata_only:
            known = self._informers.get(_Slot(slot.gvk, False))
            if known is None and self._lender is not None:
                known = self._lender._lent(slot.gvk)
        return slot, known

    def _make(self, kind: AnyKind, slot: _Slot) -> Informer:
        gvk = slot.gvk
        cls = kind.cls if isinstance(kind, MetadataKind) else kind if isinstance(kind, type) else None
        if cls is None and self._scheme is not None:
            cls = self._scheme.get(gvk)
        return Informer(
            gvk=gvk,
            cls=None if slot.metadata_only else cls,
            metadata_only=slot.metadata_only,
            opener=self._opener,
            resolve=self._resolver(gvk, cls),
            settings=lambda mapping: self.options.resolve(gvk, is_namespaced=mapping.is_namespaced),
            remembered_bytes=self.options.remembered(gvk),
            clock=self._clock,
            rng=self._random,
        )

    def _resolver(
        self, gvk: GroupVersionKind, cls: type[Resource] | None
    ) -> Callable[[], Awaitable[ResourceMapping]]:
        async def resolve() -> ResourceMapping:
            if cls is not None:
                info = cls.type_info
                return ResourceMapping(gvk, info.gvr, info.is_namespaced)
            return await self._mapper.mapping(gvk)

        return resolve

    async def run(self) -> None:
        """Run all informers, those that are added later as well, until cancelled."""
        if self._group is not None or self._has_stopped:
            raise CacheError("the cache was started more than once")
        try:
            with unwrapped():
                async with asyncio.TaskGroup() as group:
                    self._group = group
                    for slot, informer in self._informers.items():
                        self._start(slot, informer)
                    await asyncio.get_running_loop().create_future()  # until cancelled
        finally:
            self._group = None
            self._has_stopped = True
            self._tasks.clear()

    def _start(self, slot: _Slot, informer: Informer) -> None:
        assert self._group is not None
        self._tasks[slot] = self._group.create_task(informer.run(), name=f"informer {slot.gvk.kind}")

    @property
    def is_running(self) -> bool:
        """Whether ``run()`` is under way."""
        return self._group is not None

    async def wait_synced(self) -> None:
        """Wait until every informer that exists now holds its first list."""
        for informer in tuple(self._informers.values()):
            await informer.wait_synced()

    @property
    def has_synced(self) -> bool:
        """Whether every informer holds its first list."""
        return all(informer.has_synced for informer in self._informers.values())

    def statistics(self) -> CacheStatistics:
        """What is held, and how the watches are doing."""
        return CacheStatistics(tuple(informer.statistics() for informer in self._informers.values()))

    @overload
    async def get(
        self, kind: type[R], name: str, namespace: str = "", *, min_version: Writable | str | None = None
    ) -> R: ...
    @overload
    async def get(
        self,
        kind: GroupVersionKind,
        name: str,
        namespace: str = "",
        *,
        min_version: Writable | str | None = None,
    ) -> DynamicObject: ...
    @overload
    async def get(
        self, kind: MetadataKind, name: str, namespace: str = "", *, min_version: Writable | str | None = None
    ) -> PartialObjectMetadata: ...
    async def get(
        self, kind: AnyKind, name: str, namespace: str = "", *, min_version: Writable | str | None = None
    ) -> object:
        """One object; raises ``NotFound`` (``from_cache``) if the cache does not hold it.

        ``min_version`` waits until the cache has seen the version of an object, or a version.
        """
        informer = await self.synced(kind)
        if min_version is not None:
            version = min_version if isinstance(min_version, str) else min_version.metadata.resource_version
            shard = informer.shard_for(namespace)
            if shard is not None:
                await shard.wait_version(version)
        entry = informer.get(namespace, name)
        if entry is None:
            raise NotFound.in_cache(informer.gvk.kind, name)
        return informer.decoder(kind)(entry)

    @overload
    async def list(
        self,
        kind: type[R],
        *,
        namespace: str = ...,
        labels: Labels = ...,
        fields: Fields = ...,
        index: IndexQuery[R] | None = ...,
        limit: int = ...,
        continue_token: str = ...,
    ) -> Objects[R]: ...
    @overload
    async def list(
        self,
        kind: GroupVersionKind,
        *,
        namespace: str = ...,
        labels: Labels = ...,
        fields: Fields = ...,
        index: IndexQuery[Any] | None = ...,
        limit: int = ...,
        continue_token: str = ...,
    ) -> Objects[DynamicObject]: ...
    @overload
    async def list(
        self,
        kind: MetadataKind,
        *,
        namespace: str = ...,
        labels: Labels = ...,
        fields: Fields = ...,
        index: IndexQuery[Any] | None = ...,
        limit: int = ...,
        continue_token: str = ...,
    ) -> Objects[PartialObjectMetadata]: ...
    async def list(
        self,
        kind: AnyKind,
        *,
        namespace: str = "",
        labels: Labels = None,
        fields: Fields = None,
        index: IndexQuery[Any] | None = None,
        limit: int = 0,
        continue_token: str = "",
    ) -> Objects[Any]:
        """Objects that match; field selectors only for exact values of a declared ``field`` index."""
        informer = await self.synced(kind)
        if continue_token:
            raise CacheError("continue list option is not supported by the cache")
        entries = select(informer, namespace=namespace, labels=labels, fields=fields, index=index)
        return Objects(entries[:limit] if limit > 0 else entries, informer.decoder(kind))

    @overload
    def index(self, kind: type[R], by: Index[R]) -> IndexView[R]: ...
    @overload
    def index(self, kind: GroupVersionKind, by: Index[Any]) -> IndexView[DynamicObject]: ...
    @overload
    def index(self, kind: MetadataKind, by: Index[Any]) -> IndexView[PartialObjectMetadata]: ...
    def index(self, kind: AnyKind, by: Index[Any]) -> IndexView[Any]:
        """A declared index of a kind; does not wait for the first list."""
        informer = self._require(kind)
        table = informer.table(by.name)
        if table is None:
            raise CacheError(f"index with name {by.name} does not exist")
        return IndexView(table, informer.decoder(kind))

    def lookup(self, kind: AnyKind, query: IndexQuery[Any]) -> Objects[Any]:
        """The objects of an index query, without waiting; raises ``NotSynced`` before the first list."""
        informer = self._require(kind)
        if not informer.has_synced and not informer.is_absent:
            raise NotSynced(f"{informer.gvk} has not been listed yet: {informer.health}")
        return Objects(select(informer, index=query), informer.decoder(kind))

    async def synced(self, kind: AnyKind) -> Informer:
        """The informer of a kind, once it holds its first list.

        Raises ``NotCached`` for a kind nobody declared, ``NotSynced`` if the cache does not run or the kind
        cannot be listed. An optional kind whose CRD is missing is empty, and there is nothing to wait for.
        """
        if self.options.fail_on_uncached:
            informer = self._require(kind)
        else:
            informer = self.informer(kind)
        if not informer.has_synced:
            if self._group is None:
                raise NotSynced("the cache is not started, can not read objects")
            await informer.wait_readable()
        return informer

    def _require(self, kind: AnyKind) -> Informer:
        found = self._found.get(kind)
        if found is not None:
            return found
        slot, known = self._find(kind)
        if known is None:
            raise NotCached(
                f"{slot.gvk} is not cached: declare a watch of it (owns, watches, cache.informer), "
                "or read it with live=True"
            )
        self._found[kind] = known
        return known


def _gvk_of(kind: type[Resource] | GroupVersionKind) -> GroupVersionKind:
    return kind if isinstance(kind, GroupVersionKind) else kind.type_info.gvk


def _slot(kind: AnyKind) -> _Slot:
    if isinstance(kind, MetadataKind):
        return _Slot(kind.gvk, True)
    if isinstance(kind, GroupVersionKind):
        return _Slot(kind, False)
    return _Slot(kind.type_info.gvk, False)


def select(
    informer: Informer,
    *,
    namespace: str = "",
    labels: Labels = None,
    fields: Fields = None,
    index: IndexQuery[Any] | None = None,
) -> Sequence[Entry]:
    """The entries that match everything; indexes are intersected, labels filter what is left."""
    queries = [] if index is None else [index]
    if fields is not None:
        for term in FieldSelector.of(fields).terms:
            if not term.equal:
                raise CacheError("non-exact field matches are not supported by the cache")
            queries.append(IndexQuery(f"field:{term.field}", term.value))
    entries = _by_index(informer, queries, namespace) if queries else tuple(informer.entries(namespace))
    if labels is None:
        return entries
    selector = Selector.of(labels)
    return entries if selector.is_empty else [e for e in entries if selector.matches(e.labels)]


def _by_index(informer: Informer, queries: Sequence[IndexQuery[Any]], namespace: str) -> Sequence[Entry]:
    found: Sequence[Entry] | None = None
    for query in queries:
        space = query.value if query.index == "field:metadata.namespace" else query.namespace
        if space and namespace and space != namespace:
            return ()
        if query.index == "field:metadata.name" and informer.table(query.index) is None:
            part: Sequence[Entry] = [e for e in informer.entries(namespace) if e.name == query.value]
        elif query.index == "field:metadata.namespace" and informer.table(query.index) is None:
            part = tuple(informer.entries(query.value))
        else:
            table = informer.table(query.index)
            if table is None:
                raise CacheError(f"index with name {query.index} does not exist")
            part = table.get(query.value, query.namespace or namespace)
        if found is None:
            found = part
        else:
            both = set(part)
            found = [entry for entry in found if entry in both]
    return found or ()
