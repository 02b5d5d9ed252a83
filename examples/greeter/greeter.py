"""A whole operator: every Greeter gets a ConfigMap with its greeting, and says so in its status."""

import asyncio

from quarterdeck.api import Column, Model, ObjectMeta, Resource, omitempty
from quarterdeck.api.k8s import ConfigMap
from quarterdeck.client import Config
from quarterdeck.runtime import Context, Manager, install_definitions


class GreeterSpec(Model):
    name: str
    words: str = "Hello"


class GreeterStatus(Model):
    greeting: str = ""


COLUMNS = [Column("Greeting", ".status.greeting"), Column.age()]


class Greeter(Resource, group="example.io", version="v1", status=True, columns=COLUMNS):
    spec: GreeterSpec
    status: GreeterStatus = omitempty(GreeterStatus())


async def greet(ctx: Context[Greeter]) -> None:
    greeting = f"{ctx.obj.spec.words}, {ctx.obj.spec.name}!"
    metadata = ObjectMeta(name=ctx.key.name, namespace=ctx.key.namespace)
    await ctx.apply(ConfigMap(metadata=metadata, data={"greeting": greeting}), owner=ctx.obj)
    ctx.status.greeting = greeting


async def main() -> int:
    async with Manager(Config.load()) as manager:
        await install_definitions(manager.client, Greeter)
        manager.add(manager.controller(Greeter).owns(ConfigMap).build(greet))
        return await manager.run()


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
