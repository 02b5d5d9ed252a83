"""An operator with a bug that can be chosen, in this process or as a program of its own::

    python -m tests.unit.testing.torture.shop hot-loop

A Shop has a Deployment and a ConfigMap, and a line in a register: a ConfigMap of another namespace, which
nobody but a finalizer takes away.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from typing import Annotated, Any, Final

from quarterdeck.api import (
    UNSET,
    Condition,
    DynamicObject,
    Key,
    Maybe,
    Model,
    Resource,
    Seq,
    omitempty,
)
from quarterdeck.api.k8s import ConfigMap, Deployment
from quarterdeck.api.marker import Ge, Le
from quarterdeck.client import Client, Config, MergePatch
from quarterdeck.errors import AlreadyExists, ApiError, NotFound
from quarterdeck.runtime import Builder, Context, Manager, ManagerOptions, MapContext, Result
from quarterdeck.runtime.contract import NoRecorder

BUGS: Final = {
    "missed-watch": "its Deployment is not watched",
    "no-precondition": "children of a deleted Shop are deleted by name, whoever's they are by now",
    "name-collision": "all Shops share the name of a ConfigMap",
    "no-finalizer": "nothing takes the line out of the register",
    "lying-status": "Ready as soon as the Deployment is made",
    "hot-loop": "each reconcile writes a status that triggers the next one",
    "orphan": "the ConfigMap has no owner",
    "missing-child": "a ConfigMap that was there once is taken for granted",
    "repeated-create": "a ConfigMap of a generated name is created before its name is noted",
    "old-generation": "the status tells of the generation at creation",
    "gives-up": "after an error it does not look at the Shop again",
    "takes-over": "what has the right name is overwritten, whoever owns it",
    "only-creates": "children are created and never mended",
}
REGISTER: Final = "kube-public"


class ShopSpec(Model):
    replicas: Annotated[int, Ge(0), Le(5)] = 1
    greeting: str = "hello"


class ShopStatus(Model):
    ready_replicas: int = 0
    config: str = omitempty("")
    reconciles: int = omitempty(0)
    observed_generation: Maybe[int] = UNSET
    conditions: Seq[Condition] = omitempty(())


class Shop(Resource, group="torture.example.com", version="v1", status=True):
    """Sells things."""

    spec: ShopSpec = omitempty(ShopSpec())
    status: ShopStatus = omitempty(ShopStatus())


SAMPLE: Final[dict[str, Any]] = {
    "apiVersion": "torture.example.com/v1",
    "kind": "Shop",
    "metadata": {"name": "corner", "namespace": "default"},
    "spec": {"replicas": 2, "greeting": "hello"},
}


class Keeper:
    """Reconciles Shops, with a bug."""

    def __init__(self, client: Client, bug: str = "") -> None:
        self._client: Final = client
        self._bug: Final = bug
        self._given_up: Final[set[Key]] = set()

    def config(self, shop: Shop) -> dict[str, Any]:
        name = "shop" if self._bug == "name-collision" else f"{shop.metadata.name}-config"
        return _config_map(name, shop.metadata.namespace, {"greeting": shop.spec.greeting})

    def deployment(self, shop: Shop) -> dict[str, Any]:
        labels = {"shop": shop.metadata.name}
        containers = [{"name": "web", "image": "web", "env": [{"name": "A", "value": shop.spec.greeting}]}]
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": f"{shop.metadata.name}-web", "namespace": shop.metadata.namespace},
            "spec": {
                "replicas": shop.spec.replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
            },
        }

    def line(self, shop: Shop) -> dict[str, Any]:
        return _config_map(f"{shop.metadata.namespace}-{shop.metadata.name}", REGISTER, {"open": "yes"})

    async def reconcile(self, ctx: Context[Shop]) -> None:
        if ctx.key in self._given_up:
            return
        try:
            await self._reconcile(ctx)
        except ApiError:
            if self._bug != "gives-up":
                raise
            self._given_up.add(ctx.key)

    async def _reconcile(self, ctx: Context[Shop]) -> None:
        shop = ctx.obj
        if not await self._is_foreign(self.line(shop)):
            await self._put(ctx, self.line(shop), owner=None)
        await self._put_config(ctx)
        await self._put(ctx, self.deployment(shop), owner=shop)
        found = await ctx.get(Deployment, f"{shop.metadata.name}-web", shop.metadata.namespace)
        ready = (found.to_dict().get("status") or {}).get("readyReplicas", 0) if found is not None else 0
        if self._bug == "old-generation":
            if shop.status.observed_generation is UNSET:
                patch = MergePatch({"status": {"observedGeneration": shop.metadata.generation}})
                await self._client.subresource("status").patch(shop, patch)
            return
        ctx.status.ready_replicas = ready
        ctx.status.observed_generation = shop.metadata.generation
        is_ready = ready >= shop.spec.replicas or self._bug == "lying-status"
        ctx.conditions.set("Ready", is_ready, reason="Counted")
        if self._bug == "hot-loop":
            ctx.status.reconciles = shop.status.reconciles + 1

    async def _put_config(self, ctx: Context[Shop]) -> None:
        shop, bug = ctx.obj, self._bug
        document = self.config(shop)
        if bug == "repeated-create":
            if not shop.status.config:
                del document["metadata"]["name"]
                document["metadata"]["generateName"] = f"{shop.metadata.name}-config-"
                made = await ctx.create(DynamicObject(document), owner=shop)
                ctx.status.config = made.metadata.name
            return
        if bug == "missing-child" and shop.status.config:
            await self._client.get(ConfigMap, shop.status.config, shop.metadata.namespace)
        await self._put(ctx, document, owner=None if bug == "orphan" else shop)
        if bug == "missing-child":
            ctx.status.config = document["metadata"]["name"]

    async def _put(self, ctx: Context[Shop], document: dict[str, Any], owner: Shop | None) -> None:
        if self._bug == "only-creates":
            try:
                await ctx.create(DynamicObject(document), owner=owner)
            except AlreadyExists:
                return
        elif self._bug in ("takes-over", "name-collision") and document["kind"] == "ConfigMap":
            try:
                await ctx.create(DynamicObject(document), owner=owner)
            except AlreadyExists:
                patch = MergePatch({"data": document["data"]})
                await self._client.patch(DynamicObject(document), patch)
        else:
            await ctx.apply(DynamicObject(document), owner=owner)

    async def _is_foreign(self, line: dict[str, Any]) -> bool:
        """Whether somebody else owns the line: ours belongs to nobody."""
        try:
            found = await self._client.get(ConfigMap, line["metadata"]["name"], REGISTER)
        except NotFound:
            return False
        return self._bug != "takes-over" and bool(found.metadata.owner_references)

    async def clean_up(self, ctx: Context[Shop]) -> Result | None:
        shop = ctx.obj
        gone = [] if await self._is_foreign(self.line(shop)) else [self.line(shop)]
        if self._bug == "no-precondition":
            gone += [self.config(shop), self.deployment(shop)]
        for document in gone:
            try:
                await self._client.delete(DynamicObject(document), propagation="Background")
            except NotFound:
                continue
        return None


def _config_map(name: str, namespace: str, data: dict[str, str]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _shop_of_line(_: MapContext, line: ConfigMap) -> Iterable[Key]:
    parts = line.metadata.name.split("-", 1)
    return [Key(*parts)] if line.metadata.namespace == REGISTER and len(parts) > 1 else []


def equip(manager: Manager, client: Client, bug: str = "") -> Manager:
    """Add the operator to a manager."""
    keeper = Keeper(client, bug)
    builder = Builder(Shop).owns(ConfigMap).watches(ConfigMap, to=_shop_of_line)
    if bug != "missed-watch":
        builder = builder.owns(Deployment)
    if bug != "no-finalizer":
        builder = builder.finalizer("torture.example.com/register", keeper.clean_up)
    manager.add(builder.build(keeper.reconcile))
    return manager


async def main(bug: str) -> None:
    async with Client.connect(Config.load()) as client:
        manager = Manager(client, recorder=NoRecorder(), options=ManagerOptions(watch_loop=False))
        async with equip(manager, client, bug):
            await manager.serve()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else ""))
