"""A kind, a cache on a link, and a handler that writes everything down: what these tests share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from quarterdeck.api import UNSET, Condition, Maybe, Model, ObjectMeta, Resource, Seq, omitempty
from quarterdeck.runtime.cache import Cache, CacheOptions, Change, Delta, Informer
from quarterdeck.testing import Link, TestCluster


class GadgetSpec(Model):
    size: int = 0
    note: str = omitempty("")


class GadgetStatus(Model):
    ready: int = omitempty(0)
    observed_generation: Maybe[int] = UNSET
    conditions: Seq[Condition] = omitempty(())


class Gadget(Resource, group="guarantee.example.com", version="v1", status=True):
    """A thing to reconcile."""

    spec: GadgetSpec = omitempty(GadgetSpec())
    status: GadgetStatus = omitempty(GadgetStatus())


GADGETS = "gadgets.guarantee.example.com"


class Wire(msgspec.Struct, frozen=True):
    """A server, and a place on it."""

    cluster: TestCluster
    namespace: str

    def gadget(self, name: str, size: int = 0) -> Gadget:
        return gadget(name, size, namespace=self.namespace)

    async def create(self, *names: str) -> list[Gadget]:
        return [await self.cluster.client.create(self.gadget(name)) for name in names]

    async def touch(self, name: str, size: int) -> Gadget:
        found = await self.cluster.client.get(Gadget, name, self.namespace)
        return await self.cluster.client.update(found.evolve(spec=found.spec.evolve(size=size)))

    async def delete(self, *names: str) -> None:
        for name in names:
            await self.cluster.client.delete(Gadget, name, self.namespace)


def gadget(name: str, size: int = 0, *, namespace: str = "default") -> Gadget:
    return Gadget(metadata=ObjectMeta(name=name, namespace=namespace), spec=GadgetSpec(size=size))


class Diary:
    """Changes as short texts: ``+a``, ``~a``, ``-a``; ``i`` marks initial ones, ``?`` an unknown end."""

    def __init__(self) -> None:
        self.deltas: list[Delta] = []

    def handle(self, delta: Delta) -> None:
        self.deltas.append(delta)

    @property
    def texts(self) -> list[str]:
        signs = {Change.ADDED: "+", Change.UPDATED: "~", Change.DELETED: "-"}
        return [
            signs[each.change]
            + each.entry.name
            + ("i" if each.is_initial else "")
            + ("?" if each.is_unknown else "")
            for each in self.deltas
        ]


class Watching(msgspec.Struct, frozen=True):
    """A cache that holds the gadgets of one namespace over one link."""

    cache: Cache
    informer: Informer
    diary: Diary
    link: Link

    @property
    def lists(self) -> int:
        """Complete lists so far, streamed ones included."""
        return self.informer.statistics().shards[0].lists

    @property
    def names(self) -> set[str]:
        """What the cache holds."""
        return {entry.name for entry in self.informer.entries()}


@asynccontextmanager
async def watching(wire: Wire, link: Link | None = None, **settings: Any) -> AsyncIterator[Watching]:
    """Cache the gadgets of the test's namespace, from the first list on."""
    link = link if link is not None else wire.cluster.link(name="cache")
    cache = Cache(
        link.client, link.client.mapper, options=CacheOptions(namespaces=(wire.namespace,), **settings)
    )
    informer, diary = cache.informer(Gadget), Diary()
    registration = informer.add_handler(diary)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(cache.run())
        try:
            await registration.wait_synced()
            yield Watching(cache, informer, diary, link)
        finally:
            task.cancel()
            await asyncio.wait([task])
