"""The client: Kubernetes verbs on typed, dynamic and metadata-only objects.

One class for all three representations. What comes back follows what is asked for::

    pod = await client.get(Pod, "web-0", "shop")                              # Pod
    queue = await client.get(GroupVersionKind("kai.io", "v1", "Queue"), "q")  # DynamicObject
    meta = await client.get(metadata_of(Pod), "web-0", "shop")                # PartialObjectMetadata

Reads always go to the server; caching is the runtime's business. Writes return the object as the server
stored it. Errors are those of ``quarterdeck.errors``. A client is cheap: the functions of ``wrapper``
(``dry_run``, ``field_owner``, ``namespaced`` …) give changed copies that share the connection.

Typed classes need no discovery. A dynamic kind is looked up in the scheme, if one was given, then on
the server.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Final, Self, TypeVar, Unpack, cast, overload

from quarterdeck.api import (
    DynamicObject,
    GroupVersionKind,
    PartialObjectMetadata,
    Resource,
    Scheme,
    Writable,
    decode,
    encode,
)
from quarterdeck.api.codec import decode_json
from quarterdeck.api.meta import Status
from quarterdeck.api.resource import ObjectList
from quarterdeck.client.call import Call, Interceptor, Layer, StreamInterceptor, Verb, encode_query
from quarterdeck.client.clock import Clock, Random
from quarterdeck.client.config import Config
from quarterdeck.client.discovery import RestMapper
from quarterdeck.client.option import (
    ApplyOptions,
    DeleteAllOptions,
    DeleteCallOptions,
    ListOptions,
    Query,
    WatchOptions,
    WriteOptions,
    apply_query,
    delete_all_query,
    delete_body,
    delete_query,
    list_query,
    watch_query,
    write_query,
)
from quarterdeck.client.patch import Patch
from quarterdeck.client.representation import (
    AnyKind,
    MetadataKind,
    RawPage,
    Representation,
    read_items,
    read_page,
    represent,
)
from quarterdeck.client.rest import Observer, RestClient
from quarterdeck.client.sender import Sender
from quarterdeck.client.subresource import Subresource
from quarterdeck.client.transport import Response, Stream, Transport
from quarterdeck.client.warning import WarningHandler
from quarterdeck.client.watch import Watch

R = TypeVar("R", bound=Resource)
W = TypeVar("W", bound=Writable)

_JSON: Final = "application/json"
_APPLY: Final = "application/apply-patch+yaml"  # JSON is YAML


class Client:
    """Talks to one API server."""

    def __init__(
        self,
        rest: RestClient,
        *,
        scheme: Scheme | None = None,
        mapper: RestMapper | None = None,
        layers: tuple[Layer, ...] = (),
        interceptors: Mapping[Verb, Interceptor] | None = None,
        stream_interceptor: StreamInterceptor | None = None,
    ) -> None:
        """For those who built a ``RestClient``; everybody else calls ``connect`` or ``over``."""
        self.rest: Final = rest
        self.scheme: Final = scheme
        self.mapper: Final = mapper if mapper is not None else RestMapper(rest)
        self._sender: Final = Sender(rest, self.mapper, layers, interceptors or {}, stream_interceptor)
        self._representations: dict[AnyKind, Representation[Any]] = {}
        self.status: Final = Subresource(self, "status")

    @classmethod
    def connect(
        cls,
        config: Config,
        *,
        scheme: Scheme | None = None,
        on_warning: WarningHandler | None = None,
        observer: Observer | None = None,
        on_resolved: Callable[[str, float], None] | None = None,
    ) -> Self:
        """A client over HTTP with the settings of ``config``; close it, or use ``async with``.

        ``observer`` is told of every answer, ``on_resolved`` of every look-up of a host name.
        """
        transport = config.transport(on_resolved=on_resolved)
        return cls.over(transport, config=config, scheme=scheme, on_warning=on_warning, observer=observer)

    @classmethod
    def over(
        cls,
        transport: Transport,
        *,
        config: Config | None = None,
        scheme: Scheme | None = None,
        on_warning: WarningHandler | None = None,
        observer: Observer | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> Self:
        """A client over any transport, the embedded server itself included."""
        settings = config if config is not None else Config(server="http://in-process")
        rest = RestClient(
            transport,
            headers=settings.headers(),
            max_in_flight=settings.max_in_flight,
            qps=settings.qps,
            burst=settings.burst,
            on_warning=on_warning,
            observer=observer,
            clock=clock,
            random=random,
        )
        return cls(rest, scheme=scheme)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection; every client that shares it is closed with it."""
        await self.rest.aclose()

    @overload
    async def get(self, kind: type[R], name: str, namespace: str = "") -> R: ...
    @overload
    async def get(self, kind: GroupVersionKind, name: str, namespace: str = "") -> DynamicObject: ...
    @overload
    async def get(self, kind: MetadataKind, name: str, namespace: str = "") -> PartialObjectMetadata: ...
    async def get(self, kind: AnyKind, name: str, namespace: str = "") -> object:
        """Read one object; raises ``NotFound``."""
        how = self.represent(kind)
        call = await self.call("get", how, namespace=namespace, name=name, accept=how.accept)
        return how.read((await self.send(call)).body)

    @overload
    async def list(self, kind: type[R], **options: Unpack[ListOptions]) -> ObjectList[R]: ...
    @overload
    async def list(
        self, kind: GroupVersionKind, **options: Unpack[ListOptions]
    ) -> ObjectList[DynamicObject]: ...
    @overload
    async def list(
        self, kind: MetadataKind, **options: Unpack[ListOptions]
    ) -> ObjectList[PartialObjectMetadata]: ...
    async def list(self, kind: AnyKind, **options: Unpack[ListOptions]) -> ObjectList[Any]:
        """Read a collection: all of it, or a page of ``limit`` objects."""
        page = await self.list_raw(kind, **options)
        return ObjectList(await read_items(page.items, self.represent(kind).read), page.metadata)

    async def list_raw(self, kind: AnyKind, **options: Unpack[ListOptions]) -> RawPage:
        """Like ``list``, with items left undecoded: for caches, which keep bytes."""
        how = self.represent(kind)
        call = await self.call(
            "list",
            how,
            namespace=options.get("namespace", ""),
            query=list_query(options),
            accept=how.accept_list,
        )
        return read_page((await self.send(call)).body)

    @overload
    def pages(self, kind: type[R], **options: Unpack[ListOptions]) -> AsyncIterator[ObjectList[R]]: ...
    @overload
    def pages(
        self, kind: GroupVersionKind, **options: Unpack[ListOptions]
    ) -> AsyncIterator[ObjectList[DynamicObject]]: ...
    @overload
    def pages(
        self, kind: MetadataKind, **options: Unpack[ListOptions]
    ) -> AsyncIterator[ObjectList[PartialObjectMetadata]]: ...
    async def pages(self, kind: AnyKind, **options: Unpack[ListOptions]) -> AsyncIterator[ObjectList[Any]]:
        """A collection in pages (of 500 by default), all at the version of the first.

        Raises ``Expired`` when the server has forgotten that version before the last page.
        """
        read = self.represent(kind).read
        async for page in self.raw_pages(kind, **options):
            yield ObjectList(await read_items(page.items, read), page.metadata)

    async def raw_pages(self, kind: AnyKind, **options: Unpack[ListOptions]) -> AsyncIterator[RawPage]:
        """Like ``pages``, with items left undecoded."""
        options.setdefault("limit", 500)
        while True:
            page = await self.list_raw(kind, **options)
            yield page
            if not page.metadata.continue_:
                return
            options["continue_token"] = page.metadata.continue_

    @overload
    def watch(self, kind: type[R], **options: Unpack[WatchOptions]) -> Watch[R]: ...
    @overload
    def watch(self, kind: GroupVersionKind, **options: Unpack[WatchOptions]) -> Watch[DynamicObject]: ...
    @overload
    def watch(self, kind: MetadataKind, **options: Unpack[WatchOptions]) -> Watch[PartialObjectMetadata]: ...
    def watch(self, kind: AnyKind, **options: Unpack[WatchOptions]) -> Watch[Any]:
        """Watch a collection: ``async with client.watch(Pod) as events: async for event in events``."""
        how = self.represent(kind)
        query = watch_query(options)

        async def open() -> Stream:
            call = await self.call(
                "watch", how, namespace=options.get("namespace", ""), query=query, accept=how.accept
            )
            return await self.open(call)

        return Watch(open, str(how.gvk), how.read)

    async def create(self, obj: W, **options: Unpack[WriteOptions]) -> W:
        """Create an object (``generateName`` works); raises ``AlreadyExists``, ``Invalid`` …"""
        _refuse_partial(obj, "created")
        how = self.represent_object(obj)
        call = await self.call(
            "create",
            how,
            namespace=obj.metadata.namespace,
            query=write_query(options),
            body=obj.to_bytes(),
            object_name=obj.metadata.name or obj.metadata.generate_name,
        )
        return cast("W", how.read((await self.send(call)).body))

    async def update(self, obj: W, **options: Unpack[WriteOptions]) -> W:
        """Replace an object; with a resource version in it, ``Conflict`` if it changed meanwhile."""
        _refuse_partial(obj, "updated")
        how = self.represent_object(obj)
        call = await self.object_call("update", how, obj, obj.to_bytes(), write_query(options))
        return cast("W", how.read((await self.send(call)).body))

    async def patch(self, obj: W, patch: Patch, **options: Unpack[WriteOptions]) -> W:
        """Patch an object; a patch without content is not sent and gives back ``obj`` itself."""
        return await self.send_patch(obj, patch, "", write_query(options))

    async def apply(self, obj: W, **options: Unpack[ApplyOptions]) -> W:
        """Server-side apply: what ``obj`` holds is what the manager wants to own.

        ``field_manager`` is mandatory, here or through ``field_owner``. Raises ``ApplyConflict`` if
        another manager owns a field with another value, unless ``force`` is given.
        """
        return await self.send_apply(obj, "", apply_query(options))

    async def delete(
        self,
        target: Writable | AnyKind,
        name: str = "",
        namespace: str = "",
        **options: Unpack[DeleteCallOptions],
    ) -> DynamicObject | Status:
        """Delete an object, given itself or as kind, name and namespace; raises ``NotFound``.

        Given itself, exactly this object goes: one that took its name meanwhile stays (``Conflict``).
        The answer is the object if it is still there (finalizers, graceful deletion), else a ``Status``.
        """
        if isinstance(target, type | GroupVersionKind | MetadataKind):
            how = self.represent(target)
        else:
            how = self.represent_object(target)
            name, namespace = target.metadata.name, target.metadata.namespace
            if target.metadata.uid:
                options.setdefault("uid", target.metadata.uid)
        if not name:
            raise ValueError(f"{how.gvk.kind} has no name: delete needs one")
        call = await self.call(
            "delete",
            how,
            namespace=namespace,
            name=name,
            query=delete_query(options),
            body=delete_body(options),
        )
        document = decode_json((await self.send(call)).body)
        if document.get("kind") == "Status":
            return decode(encode(document), Status)
        return DynamicObject.adopt(document)

    async def delete_all_of(self, kind: AnyKind, **options: Unpack[DeleteAllOptions]) -> None:
        """Delete every object of a kind that the selectors match; pass ``labels=""`` to mean all."""
        call = await self.call(
            "deletecollection",
            self.represent(kind),
            namespace=options.get("namespace", ""),
            query=delete_all_query(options),
            body=delete_body(options),
        )
        await self.send(call)

    def subresource(self, name: str) -> Subresource:
        """A subresource by name: ``scale``, ``eviction``, ``binding``, ``token``, ``log`` …"""
        return Subresource(self, name)

    async def raw(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Response:
        """Any request (``/version``, ``/readyz``, ``/metrics``); layers and interceptors do not apply."""
        headers = (("accept", "*/*"), ("content-type", _JSON)) if body else (("accept", "*/*"),)
        pairs = tuple((query or {}).items())
        return await self.rest.request(
            method, path, verb="raw", query=encode_query(pairs), headers=headers, body=body
        )

    def wrapped(
        self,
        *layers: Layer,
        interceptors: Mapping[Verb, Interceptor] | None = None,
        stream_interceptor: StreamInterceptor | None = None,
    ) -> "Client":
        """A copy of this client with more layers, sharing the connection; see ``wrapper``."""
        return Client(
            self.rest,
            scheme=self.scheme,
            mapper=self.mapper,
            layers=(*self._sender.layers, *layers),
            interceptors={**self._sender.interceptors, **(interceptors or {})},
            stream_interceptor=stream_interceptor or self._sender.stream_interceptor,
        )

    def represent(self, kind: AnyKind) -> Representation[Any]:
        """How a kind is addressed and decoded."""
        how = self._representations.get(kind)
        if how is None:
            how = self._representations[kind] = represent(kind, self.scheme)
            if isinstance(kind, MetadataKind):
                # Such objects do not say which class they are the head of: they need not be looked up.
                self._representations.setdefault(MetadataKind(kind.gvk), how)
        return how

    def represent_object(self, obj: Writable) -> Representation[Any]:
        """How the kind of an object is addressed and decoded."""
        if isinstance(obj, Resource):
            return self.represent(type(obj))
        gvk = GroupVersionKind.parse(obj.api_version, obj.kind)
        return self.represent(MetadataKind(gvk) if isinstance(obj, PartialObjectMetadata) else gvk)

    async def call(
        self,
        verb: Verb,
        how: Representation[Any],
        *,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
        query: Query = (),
        body: bytes = b"",
        content_type: str = _JSON,
        accept: str = _JSON,
        object_name: str = "",
    ) -> Call:
        """Build a call; asks the server for the resource of a kind that has no class."""
        gvr, is_namespaced = how.gvr, how.is_namespaced
        if gvr is None:
            mapping = await self.mapper.mapping(how.gvk)
            gvr, is_namespaced = mapping.gvr, mapping.is_namespaced
        return Call(
            verb=verb,
            gvk=how.gvk,
            gvr=gvr,
            is_namespaced=is_namespaced,
            namespace=namespace,
            name=name,
            subresource=subresource,
            query=query,
            body=body,
            content_type=content_type,
            accept=accept,
            object_name=object_name or name,
        )

    async def object_call(
        self,
        verb: Verb,
        how: Representation[Any],
        obj: Writable,
        body: bytes,
        query: Query,
        *,
        content_type: str = _JSON,
        subresource: str = "",
    ) -> Call:
        """Build a call on an existing object."""
        metadata = obj.metadata
        if not metadata.name:
            raise ValueError(f"{how.gvk.kind} has no name: {verb} needs one")
        return await self.call(
            verb,
            how,
            namespace=metadata.namespace,
            name=metadata.name,
            subresource=subresource,
            query=query,
            body=body,
            content_type=content_type,
            accept=how.accept,
        )

    async def send_patch(self, obj: W, patch: Patch, subresource: str, query: Query) -> W:
        """Patch an object or a subresource of it."""
        answer = await self.send_patch_raw(obj, patch, subresource, query)
        return cast("W", self.represent_object(obj).read(answer)) if answer else obj

    async def send_patch_raw(self, obj: Writable, patch: Patch, subresource: str, query: Query) -> bytes:
        """Like ``send_patch``, with the answer left undecoded; empty if there was nothing to send."""
        body = patch.body(obj)
        if not body:
            return b""
        call = await self.object_call(
            "patch",
            self.represent_object(obj),
            obj,
            body,
            query,
            content_type=patch.content_type,
            subresource=subresource,
        )
        return (await self.send(call)).body

    async def send_apply(self, obj: W, subresource: str, query: Query) -> W:
        """Apply an object or a subresource of it."""
        _refuse_partial(obj, "applied")
        how = self.represent_object(obj)
        call = await self.object_call(
            "apply", how, obj, _apply_body(obj), query, content_type=_APPLY, subresource=subresource
        )
        return cast("W", how.read((await self.send(call)).body))

    def send(self, call: Call) -> Coroutine[Any, Any, Response]:
        """Send a call through layers and interceptors."""
        return self._sender.send(call)

    def open(self, call: Call) -> Coroutine[Any, Any, Stream]:
        """Open a stream through layers and interceptors."""
        return self._sender.open(call)


def _refuse_partial(obj: Writable, what: str) -> None:
    if isinstance(obj, PartialObjectMetadata):
        raise TypeError(f"metadata-only objects can be read, patched and deleted, not {what}")


def _apply_body(obj: Writable) -> bytes:
    """What is applied must not carry managed fields; the server refuses them."""
    if not obj.metadata.managed_fields:
        return obj.to_bytes()
    document = obj.to_dict()
    document["metadata"].pop("managedFields", None)
    return encode(document)
