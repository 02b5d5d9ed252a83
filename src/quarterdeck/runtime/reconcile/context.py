"""What a reconcile works with: the object, reads, writes, its status, and ways to end.

Reads come from the cache unless ``live=True``; within one run ``get`` also sees what the run itself
wrote. Every write made through the context or its client is remembered under the key, so that the next
run of the key does not start before the cache has seen it (``consistency``).
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Final, Generic, Literal, NoReturn, ParamSpec, TypeVar, Unpack, cast, overload

from quarterdeck.api import (
    DynamicObject,
    GroupVersionKind,
    Key,
    PartialObjectMetadata,
    Resource,
    Time,
    Writable,
    is_controlled_by,
)
from quarterdeck.api.draft import Draft
from quarterdeck.api.meta import Status
from quarterdeck.client import AnyKind, Call, MetadataKind, Patch, Response, metadata_of
from quarterdeck.client.option import DeleteCallOptions, Labels, WriteOptions
from quarterdeck.client.representation import read_items
from quarterdeck.errors import (
    AlreadyExists,
    ConfigError,
    Conflict,
    Invalid,
    NotFound,
    Terminal,
)
from quarterdeck.runtime.cache import IndexQuery, Objects
from quarterdeck.runtime.cache.entry import EntryFactory
from quarterdeck.runtime.log.field import FieldLogger
from quarterdeck.runtime.loop.clock import time_now
from quarterdeck.runtime.loop.execution import call_from_thread
from quarterdeck.runtime.reconcile.finalizer import FinalizerScope
from quarterdeck.runtime.reconcile.ownership import for_incarnation, if_absent, is_ours, owned, require_ours
from quarterdeck.runtime.reconcile.recording import head_of
from quarterdeck.runtime.reconcile.services import ContextServices
from quarterdeck.runtime.reconcile.statusedit import ConditionEdit, StatusEdit
from quarterdeck.runtime.reconcile.statuswrite import write_status

T = TypeVar("T", bound=Resource)
R = TypeVar("R", bound=Resource)
W = TypeVar("W", bound=Writable)
V = TypeVar("V")
P = ParamSpec("P")


class DeleteContext:
    """The context of ``deleted``: the key of an object that is gone."""

    def __init__(self, key: Key, tools: ContextServices, log: FieldLogger, *, uid: str = "") -> None:
        self.key: Final = key
        self.uid: Final = uid
        """Of the object that is gone, if it was ever seen here: another may have its name by now."""
        self.client: Final = tools.client
        self.cache: Final = tools.cache
        self.log: Final = log


class Context(Generic[T]):
    """One run of one key."""

    def __init__(
        self,
        *,
        key: Key,
        obj: T | None,
        tools: ContextServices,
        log: FieldLogger,
        reconcile_id: str,
        priority: int = 0,
        attempt: int = 0,
    ) -> None:
        self.key: Final = key
        self.log: Final = log
        self.reconcile_id: Final = reconcile_id
        """Fresh for every run; on every log line of it."""
        self.priority: Final = priority
        """Priority the key was taken with."""
        self.attempt: Final = attempt
        """Failures of this key since its last success."""
        self.client: Final = tools.client
        """Talks to the key's cluster; its reads go to the server."""
        self.cache: Final = tools.cache
        self._tools: Final = tools
        self._loop: Final = asyncio.get_running_loop()
        self._kind: Final = type(obj) if obj is not None else None
        self._obj = obj
        self._answer = b""  # to the last write of the status: the object, while `_obj` is None
        self._edit: StatusEdit[T] | None = None
        self._has_expired = False
        self._overlay: dict[tuple[GroupVersionKind, str, str], bytes | None] = {}
        self._doubtful: set[tuple[GroupVersionKind, str, str]] = set()

    @property
    def obj(self) -> T:
        """The object, frozen; as the cache had it when the run began, or as a finalizer change left it."""
        if self._obj is None:
            self._obj = self._read_answer()
        return self._obj

    def _read_answer(self) -> T:
        if self._kind is None:
            raise RuntimeError("this controller has no kind of its own (for_): there is only ctx.key")
        return cast("T", self.client.represent(self._kind).read(self._answer))

    def replace(self, obj: T) -> None:
        """Go on with a newer state of the object, as a write has returned it."""
        self._obj = obj
        if self._edit is not None and not self._edit.is_touched:
            self._edit = None

    def _status_edit(self) -> StatusEdit[T]:
        if self._edit is None:
            info = getattr(type(self.obj), "type_info", None)
            if info is None:
                raise ConfigError(f"{self.obj.kind} is watched by its metadata only: no status to edit")
            if not info.status:
                raise ConfigError(
                    f"{info.kind} has no status subresource to write: declare its class with status=True"
                )
            self._edit = StatusEdit(self.obj, now=self.now)
        return self._edit

    def now(self) -> Time:
        """The present date, for status fields."""
        return time_now(self._tools.clock)

    @overload
    async def get(
        self,
        kind: type[R],
        name: str,
        namespace: str = "",
        *,
        live: bool = False,
        min_version: Writable | str | None = None,
    ) -> R: ...
    @overload
    async def get(
        self,
        kind: GroupVersionKind,
        name: str,
        namespace: str = "",
        *,
        live: bool = False,
        min_version: Writable | str | None = None,
    ) -> DynamicObject: ...
    @overload
    async def get(
        self,
        kind: MetadataKind,
        name: str,
        namespace: str = "",
        *,
        live: bool = False,
        min_version: Writable | str | None = None,
    ) -> PartialObjectMetadata: ...
    async def get(
        self,
        kind: AnyKind,
        name: str,
        namespace: str = "",
        *,
        live: bool = False,
        min_version: Writable | str | None = None,
    ) -> object:
        """One object; raises ``NotFound``.

        What this run has written is seen at once. After ``create`` met ``AlreadyExists`` the next read of
        that object goes to the server: the cache is behind. ``min_version`` waits until the cache has seen
        the version of an object, or a version; ``live`` asks the server.
        """
        slot = (_gvk(kind), namespace, name)
        if not live and slot in self._overlay:
            written = self._overlay[slot]
            if written is None:
                raise NotFound.in_cache(slot[0].kind, name)
            return self.client.represent(kind).read(written)
        if live or slot in self._doubtful or slot[0] in self.cache.bypassed:
            return await self.client.get(cast("Any", kind), name, namespace)
        return await self.cache.get(cast("Any", kind), name, namespace, min_version=min_version)

    @overload
    async def list(
        self,
        kind: type[R],
        *,
        namespace: str = ...,
        labels: Labels = ...,
        index: IndexQuery[R] | None = ...,
        live: bool = ...,
    ) -> Objects[R]: ...
    @overload
    async def list(
        self,
        kind: GroupVersionKind,
        *,
        namespace: str = ...,
        labels: Labels = ...,
        index: IndexQuery[Any] | None = ...,
        live: bool = ...,
    ) -> Objects[DynamicObject]: ...
    @overload
    async def list(
        self,
        kind: MetadataKind,
        *,
        namespace: str = ...,
        labels: Labels = ...,
        index: IndexQuery[Any] | None = ...,
        live: bool = ...,
    ) -> Objects[PartialObjectMetadata]: ...
    async def list(
        self,
        kind: AnyKind,
        *,
        namespace: str = "",
        labels: Labels = None,
        index: IndexQuery[Any] | None = None,
        live: bool = False,
    ) -> Objects[Any]:
        """Cached objects that match; with ``live`` those the server has, which knows no ``index``."""
        if live or _gvk(kind) in self.cache.bypassed:
            if index is not None:
                raise ValueError(f"index {index.index} is known to the cache only: list without live")
            return await self._list_live(kind, namespace, labels)
        found: Objects[Any] = await self.cache.list(
            cast("type[Resource]", kind), namespace=namespace, labels=labels, index=index
        )
        return found

    async def _list_live(self, kind: AnyKind, namespace: str, labels: Labels) -> Objects[Any]:
        how = self.client.represent(kind)
        page = await self.client.list_raw(kind, namespace=namespace, labels=labels)
        factory = EntryFactory(kind=how.gvk.kind, api_version=how.gvk.api_version)
        entries = await read_items(page.items, factory.make)
        return Objects(entries, lambda entry: how.read(entry.raw))

    @overload
    def index(self, kind: type[R], query: IndexQuery[R]) -> Objects[R]: ...
    @overload
    def index(self, kind: GroupVersionKind, query: IndexQuery[Any]) -> Objects[DynamicObject]: ...
    @overload
    def index(self, kind: MetadataKind, query: IndexQuery[Any]) -> Objects[PartialObjectMetadata]: ...
    def index(self, kind: AnyKind, query: IndexQuery[Any]) -> Objects[Any]:
        """Cached objects of an index query: ``ctx.index(Pod, owned_by(job))``."""
        return self.cache.lookup(kind, query)

    async def create(self, obj: W, *, owner: Writable | None = None, **options: Unpack[WriteOptions]) -> W:
        """Create an object, owned by ``owner`` if given.

        Raises ``AlreadyExists`` if our own is there, ``ForeignObject`` if somebody else's is.
        """
        obj = owned(obj, owner)
        try:
            return await self.client.create(obj, **options)
        except AlreadyExists:
            self._doubtful.add((_gvk_of(obj), obj.metadata.namespace, obj.metadata.name))
            if obj.metadata.owner_references:
                await self.require_ours(obj)
            raise

    async def update(self, obj: W, **options: Unpack[WriteOptions]) -> W:
        """Replace an object; raises ``Conflict`` if it changed since it was read."""
        return await self.client.update(obj, **options)

    async def patch(self, obj: W, patch: Patch, **options: Unpack[WriteOptions]) -> W:
        """Patch an object; an empty patch is not sent."""
        return await self.client.patch(obj, patch, **options)

    async def apply(
        self, obj: W, *, owner: Writable | None = None, force: bool = True, **options: Unpack[WriteOptions]
    ) -> W:
        """Server-side apply, owned by ``owner`` if given; not sent if it would change nothing.

        The cached object is what comes back then. ``force`` takes fields over from other managers. An object
        with owners is created, or changed if it is theirs; else ``ForeignObject`` is raised.
        """
        obj = owned(obj, owner)
        tools, metadata = self._tools, obj.metadata
        manager = options.get("field_manager") or tools.field_manager
        kind = cast("AnyKind", type(obj) if isinstance(obj, Resource) else _gvk_of(obj))
        sent, is_new, rewinds = obj, False, 0
        if (_gvk_of(obj), metadata.namespace, metadata.name) not in self._overlay:
            if self.cache.has_informer(kind):
                informer = await self.cache.synced(kind)
                entry = informer.get(metadata.namespace, metadata.name)
                rewinds = informer.rewinds
                if entry is not None and tools.applied.is_unchanged(
                    obj, entry, manager, tools.cluster, rewinds=rewinds
                ):
                    return cast("W", informer.decoder(kind)(entry))
            if metadata.owner_references:
                uid = await self._uid_if_ours(obj)
                is_new = not uid
                sent = for_incarnation(obj, uid) if uid else if_absent(obj)
        try:
            answer = await self.client.apply(sent, force=force, **options)
        except Conflict:
            if is_new:
                await self.require_ours(obj)
            raise
        except Invalid as error:
            if any(cause.field == "metadata.uid" for cause in error.details.causes):
                raise Conflict(f"{obj.kind} {metadata.name} is another one by now") from error
            raise
        if not options.get("dry_run"):
            tools.applied.applied(obj, answer, manager, tools.cluster, rewinds=rewinds)
        return answer

    async def _uid_if_ours(self, wanted: Writable) -> str:
        """The UID of our object of that name, empty if there is none; raises ``ForeignObject``."""
        metadata, kind = wanted.metadata, metadata_of(_gvk_of(wanted))
        if self.cache.has_informer(kind):
            informer = await self.cache.synced(kind)
            entry = informer.get(metadata.namespace, metadata.name)
            if entry is not None and is_ours(metadata.owner_references, entry.owner_references):
                return entry.uid
            if entry is None and informer.shard_holding(metadata.namespace, {}, b"{}") is not None:
                return ""  # the cache would show it, whoever made it
        return await self.require_ours(wanted)

    async def require_ours(self, wanted: Writable) -> str:
        """The UID of our object of that name on the server, empty if there is none.

        Raises ``ForeignObject`` if it is not of the owners that ``wanted`` has.
        """
        kind = metadata_of(_gvk_of(wanted))
        try:
            present = await self.client.get(kind, wanted.metadata.name, wanted.metadata.namespace)
        except NotFound:
            return ""
        require_ours(wanted, present, manager=self._tools.field_manager)
        return present.metadata.uid

    async def delete(
        self,
        target: Writable | AnyKind,
        name: str = "",
        namespace: str = "",
        **options: Unpack[DeleteCallOptions],
    ) -> DynamicObject | Status:
        """Delete an object, given itself (then exactly this incarnation) or by kind and name."""
        return await self.client.delete(target, name, namespace, **options)

    async def prune(
        self, kind: type[Resource], *, labels: Labels = None, keep: Collection[str] = ()
    ) -> tuple[Key, ...]:
        """Delete the objects of a kind that this object controls, except those named in ``keep``."""
        doomed = [
            child
            for child in await self.cache.list(kind, namespace=self.key.namespace, labels=labels)
            if child.metadata.name not in keep
            and is_controlled_by(self.obj, child.metadata)
            and not child.metadata.is_deleting
        ]
        for child in doomed:
            with suppress(NotFound):
                await self.delete(child, propagation="Background")
        return tuple(child.key for child in doomed)

    def note_write(self, call: Call, response: Response) -> None:
        """A write of this run succeeded: remember it for later reads and for the next run."""
        if call.has_query("dryRun") or call.verb == "deletecollection":
            return
        head = head_of(response)
        metadata = head.metadata
        name = metadata.name or call.name
        namespace = metadata.namespace or call.namespace
        slot = (call.gvk, namespace, name)
        tracker = self._tools.tracker
        if head.kind == call.gvk.kind:
            gone = call.verb == "delete" and metadata.deletion_timestamp is None
            self._overlay[slot] = None if gone else response.body
            if tracker is not None and not gone:
                for informer in self.cache.informers_of(call.gvk):
                    shard = informer.shard_holding(namespace, metadata.labels or {}, response.body)
                    if shard is not None:
                        tracker.wrote(self.key, shard, metadata.resource_version)
                return
        elif call.verb != "delete":
            return  # a subresource that answers with something else: nothing is known about the object
        self._overlay[slot] = None
        if tracker is not None:
            for informer in self.cache.informers_of(call.gvk):
                shard = informer.shard_for(namespace)
                entry = shard.store.get(namespace, name) if shard is not None else None
                if shard is not None and entry is not None:
                    tracker.deleted(self.key, shard, namespace, name, entry.uid)

    def note_gone(self) -> None:
        """The server does not have our object any more: the next run waits until the cache shows it.

        Otherwise a cache that is behind would have us make children that the garbage collector takes away,
        each of which wakes us again.
        """
        tracker, metadata = self._tools.tracker, self.obj.metadata
        if tracker is None:
            return
        for informer in self.cache.informers_of(_gvk_of(self.obj)):
            shard = informer.shard_for(metadata.namespace)
            if shard is not None:
                tracker.deleted(self.key, shard, metadata.namespace, metadata.name, metadata.uid)

    @property
    def status(self) -> Draft[Any]:
        """The status to edit; written once at the end of the run, if it differs."""
        return self._status_edit().draft

    @property
    def conditions(self) -> ConditionEdit:
        """The conditions to edit: ``ctx.conditions.set("Ready", True, reason="AllUp")``."""
        return self._status_edit().conditions

    async def write_status(self) -> bool:
        """Write the edited status now; happens by itself at the end. Returns whether it differed.

        What others wrote meanwhile stays; raises ``NotFound`` if the object is gone, or another one by now.
        """
        change = self._edit.change() if self._edit is not None else None
        answer = await write_status(self.client, self.obj, *change) if change is not None else None
        if answer is None:
            return False
        self._answer = answer
        self._obj = None  # mostly the run is over and nobody looks at it again: decoded when somebody does
        self._edit = None
        return True

    def finalizer(self, name: str) -> FinalizerScope[T]:
        """``async with ctx.finalizer("example.com/clean") as scope``: see ``FinalizerScope``."""
        return FinalizerScope(name, self)

    def event(
        self,
        type: Literal["Normal", "Warning"],
        reason: str,
        note: str,
        *,
        action: str = "Reconcile",
        related: Writable | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Record an event about the object."""
        self._tools.recorder.event(
            self.obj, type, reason, action, note, related=related, annotations=annotations
        )

    def fail(self, reason: str, message: str, *, condition: str = "Ready") -> NoReturn:
        """Say that this object cannot be reconciled: a false condition, a warning event, and no retry.

        Raises ``Terminal``: the key rests until something about it changes.
        """
        self.conditions.set(condition, False, reason=reason, message=message)
        self.event("Warning", reason, message)
        raise Terminal(f"{reason}: {message}")

    async def run_blocking(self, function: Callable[P, V], *args: P.args, **kwargs: P.kwargs) -> V:
        """Run a blocking function in the manager's thread pool."""
        return await self._tools.execution.run_blocking(function, *args, **kwargs)

    def block_on(self, coroutine: Coroutine[Any, Any, V]) -> V:
        """For plain ``def`` reconcilers, which run in a thread: wait for a coroutine of this context."""
        if self._has_expired:
            coroutine.close()
            raise TimeoutError("this run has used up its time: nothing of it is written any more")
        return call_from_thread(self._loop, coroutine)

    def expire(self) -> None:
        """The run has used up its time, and its thread cannot be stopped: it shall not write any more."""
        self._has_expired = True


def _gvk(kind: AnyKind) -> GroupVersionKind:
    if isinstance(kind, GroupVersionKind):
        return kind
    return kind.gvk if isinstance(kind, MetadataKind) else kind.type_info.gvk


def _gvk_of(obj: Writable) -> GroupVersionKind:
    return GroupVersionKind.parse(obj.api_version, obj.kind)
