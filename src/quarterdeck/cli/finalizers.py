"""`quarterdeck finalizers purge`: let go of objects whose controller will never come back for them."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from .argument import add_cluster_arguments
from .error import CommandError

if TYPE_CHECKING:
    from quarterdeck.api import PartialObjectMetadata
    from quarterdeck.client import Client
    from quarterdeck.client.discovery import ResourceMapping

DESCRIPTION = """\
A finalizer holds an object back until its controller has cleaned up. When the controller is gone for good,
the object stays for ever. This finds the objects that are being deleted and still carry the finalizer, and,
with --yes, removes it from them: whatever the controller would have cleaned up is then yours to clean up.
"""


def add_command(commands: Any) -> None:
    parser = commands.add_parser("finalizers", help="release objects whose controller is gone")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    purge = actions.add_parser(
        "purge", help="remove a finalizer that nobody serves any more", description=DESCRIPTION
    )
    purge.add_argument("finalizer", metavar="FINALIZER", help="its whole name: example.io/cleanup")
    purge.add_argument(
        "resources", nargs="*", metavar="RESOURCE", help="only these: widgets.example.io, po (default: all)"
    )
    purge.add_argument("-n", "--namespace", default="", help="only in this namespace (default: all)")
    purge.add_argument("--all", action="store_true", help="also objects that are not being deleted")
    purge.add_argument(
        "--yes", action="store_true", help="do it; without this option, only say what would be done"
    )
    add_cluster_arguments(purge)
    purge.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from quarterdeck.client import Client, Config
    from quarterdeck.errors import QuarterdeckError

    async def connected() -> int:
        async with Client.connect(
            Config.load(arguments.kubeconfig or "", context=arguments.context)
        ) as client:
            return await purge(client, arguments)

    try:
        return asyncio.run(connected())
    except QuarterdeckError as error:
        raise CommandError(str(error)) from error


async def purge(client: Client, arguments: argparse.Namespace) -> int:
    """Remove the finalizer where it holds something back, saying what is done line by line."""
    found = 0
    async for mapping, held in _held(client, arguments):
        found += 1
        where = f"{held.metadata.namespace}/" if held.metadata.namespace else ""
        name = f"{mapping.gvr.resource}.{mapping.gvr.group}".rstrip(".")
        if arguments.yes:
            await _release(client, mapping, held, arguments.finalizer)
        print(f"{name} {where}{held.metadata.name}: {'removed' if arguments.yes else 'would be removed'}")
    if not found:
        print(f"nothing is held back by {arguments.finalizer}")
    return 0


async def _held(
    client: Client, arguments: argparse.Namespace
) -> AsyncIterator[tuple[ResourceMapping, PartialObjectMetadata]]:
    from quarterdeck.client import MetadataKind

    for mapping in await _mappings(client, arguments.resources):
        if arguments.namespace and not mapping.is_namespaced:
            continue
        async for page in client.pages(MetadataKind(mapping.gvk), namespace=arguments.namespace):
            for head in page.items:
                is_due = arguments.all or head.metadata.is_deleting
                if is_due and arguments.finalizer in head.metadata.finalizers:
                    yield mapping, head


async def _mappings(client: Client, resources: list[str]) -> list[ResourceMapping]:
    """The resources to look through: those named, or all that can be listed and patched, each once."""
    if resources:
        return [await client.mapper.find(resource) for resource in resources]
    chosen: dict[tuple[str, str], ResourceMapping] = {}
    for mapping in await client.mapper.all():
        if {"list", "patch"} <= mapping.verbs:
            chosen.setdefault((mapping.gvr.group, mapping.gvr.resource), mapping)
    return list(chosen.values())


async def _release(
    client: Client, mapping: ResourceMapping, held: PartialObjectMetadata, finalizer: str
) -> None:
    from quarterdeck.api.finalizer import remove_finalizer
    from quarterdeck.client import MetadataKind, retry_on_conflict
    from quarterdeck.errors import ignore_not_found
    from quarterdeck.runtime.reconcile.finalizer import change_finalizers

    async def change() -> None:
        head = await client.get(MetadataKind(mapping.gvk), held.metadata.name, held.metadata.namespace)
        if head.metadata.uid == held.metadata.uid:
            await change_finalizers(client, head, remove_finalizer(head.metadata, finalizer))

    with ignore_not_found():
        await retry_on_conflict(change)
