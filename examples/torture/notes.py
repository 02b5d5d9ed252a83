"""An operator with a bug: every Note has a ConfigMap with its text. `quarterdeck torture` finds the bug."""

import asyncio

from quarterdeck.api import Model, ObjectMeta, Resource, omitempty
from quarterdeck.api.k8s import ConfigMap
from quarterdeck.client import Client, Config
from quarterdeck.runtime import Builder, Context, Manager


class NoteSpec(Model):
    text: str


class NoteStatus(Model):
    copy: str = omitempty("")


class Note(Resource, group="example.io", version="v1", status=True):
    """A text to be copied."""

    spec: NoteSpec
    status: NoteStatus = omitempty(NoteStatus())


async def reconcile(ctx: Context[Note]) -> None:
    note = ctx.obj
    data = {"text": note.spec.text}
    if not note.status.copy:
        # The bug: who is killed behind this line does not know that there is a ConfigMap.
        metadata = ObjectMeta(generate_name="copy-", namespace=note.metadata.namespace)
        made = await ctx.create(ConfigMap(metadata=metadata, data=data), owner=note)
        ctx.status.copy = made.metadata.name
        return
    metadata = ObjectMeta(name=note.status.copy, namespace=note.metadata.namespace)
    await ctx.apply(ConfigMap(metadata=metadata, data=data), owner=note)


async def main() -> None:
    async with Client.connect(Config.load()) as client:
        manager = Manager(client)
        manager.add(Builder(Note).owns(ConfigMap).build(reconcile))
        async with manager:
            await manager.serve()


if __name__ == "__main__":
    asyncio.run(main())
