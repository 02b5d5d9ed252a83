"""Subresources: the same verbs on a part of an object.

``client.status`` is one; any other is ``client.subresource(name)``. Where the body is an object of
another kind, ``create`` and ``put`` take it beside the object it concerns::

    await client.status.update(job)
    scale = await client.subresource("scale").get(Deployment, "web", "shop", returns=ScaleSubresource)
    await client.subresource("scale").put(web, scale.evolve(spec=ScaleSpec(replicas=3)))
    await client.subresource("eviction").create(pod, Eviction(metadata=pod.metadata))
    text = await client.subresource("log").read(Pod, "web-0", "shop", tailLines="10")
"""

from typing import TYPE_CHECKING, Final, TypeVar, Unpack, cast

from quarterdeck.api import PartialObjectMetadata, Writable, decode
from quarterdeck.client.option import ApplyOptions, WriteOptions, apply_query, write_query
from quarterdeck.client.patch import Patch
from quarterdeck.client.representation import AnyKind

if TYPE_CHECKING:
    from quarterdeck.client.client import Client

T = TypeVar("T")
W = TypeVar("W", bound=Writable)


class Subresource:
    """One subresource, bound to a client."""

    def __init__(self, client: "Client", name: str) -> None:
        self._client = client
        self.name: Final = name

    async def get(self, kind: AnyKind, name: str, namespace: str = "", *, returns: type[T]) -> T:
        """Read the subresource as ``returns``."""
        return decode(await self.read(kind, name, namespace), returns)

    async def read(self, kind: AnyKind, name: str, namespace: str = "", **query: str) -> bytes:
        """Read the subresource as bytes; ``query`` is passed on."""
        call = await self._client.call(
            "get",
            self._client.represent(kind),
            namespace=namespace,
            name=name,
            subresource=self.name,
            query=tuple(query.items()),
            accept="*/*" if self.name == "log" else "application/json",
        )
        return (await self._client.send(call)).body

    async def create(self, target: Writable, body: W, **options: Unpack[WriteOptions]) -> W:
        """POST ``body`` to the subresource of ``target``.

        The answer as the class of ``body``; ``body`` itself where the server only says ``Success``.
        """
        answer = await self._write("create", target, body.to_bytes(), options)
        if decode(answer, PartialObjectMetadata).kind != body.kind:
            return body
        return cast("W", self._client.represent_object(body).read(answer))

    async def update(self, obj: W, **options: Unpack[WriteOptions]) -> W:
        """PUT the object to its subresource (``status``, ``approval``, ``resize``)."""
        answer = await self._write("update", obj, obj.to_bytes(), options)
        return cast("W", self._client.represent_object(obj).read(answer))

    async def put(self, target: Writable, body: W, **options: Unpack[WriteOptions]) -> W:
        """PUT a body of another kind to the subresource of ``target`` (``scale``)."""
        answer = await self._write("update", target, body.to_bytes(), options)
        return cast("W", self._client.represent_object(body).read(answer))

    async def patch(self, obj: W, patch: Patch, **options: Unpack[WriteOptions]) -> W:
        """Patch the subresource; a patch without content is not sent."""
        return await self._client.send_patch(obj, patch, self.name, write_query(options))

    async def patch_raw(self, obj: Writable, patch: Patch, **options: Unpack[WriteOptions]) -> bytes:
        """Like ``patch``, with the answer left undecoded; empty if nothing was sent."""
        return await self._client.send_patch_raw(obj, patch, self.name, write_query(options))

    async def apply(self, obj: W, **options: Unpack[ApplyOptions]) -> W:
        """Apply the subresource (``status``); see ``Client.apply``."""
        return await self._client.send_apply(obj, self.name, apply_query(options))

    async def _write(self, verb: str, target: Writable, body: bytes, options: WriteOptions) -> bytes:
        call = await self._client.object_call(
            "create" if verb == "create" else "update",
            self._client.represent_object(target),
            target,
            body,
            write_query(options),
            subresource=self.name,
        )
        return (await self._client.send(call)).body
