"""`quarterdeck nodes`: let simulated nodes of a running cluster fail and come back, add some, remove some."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quarterdeck.cli.argument import add_cluster_arguments
from quarterdeck.cli.error import CommandError

from .option import add_capacity_argument, node_capacity, node_pools

if TYPE_CHECKING:
    from quarterdeck.api.k8s import Node
    from quarterdeck.client import Client
    from quarterdeck.cluster.node.profile import NodeSettings

DESCRIPTION = """\
Simulated nodes are Node objects with the label quarterdeck.dev/simulated=true. One that fails no longer
reports, and its pods stop changing. After 50 seconds it is NotReady, and its pods are evicted when their
toleration has run out (after five minutes, unless they say otherwise).
"""


def add_command(commands: Any) -> None:
    parser = commands.add_parser(
        "nodes", help="make simulated nodes fail, or restore, add and remove them", description=DESCRIPTION
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, act, text in (
        ("fail", _fail, "make nodes fail, as if their machines were down"),
        ("restore", _restore, "bring failed nodes back"),
        ("remove", _remove, "delete nodes"),
    ):
        action = actions.add_parser(name, help=text, description=f"Simulated nodes: {text}.")
        action.add_argument("nodes", nargs="+", metavar="NODE")
        _finish(action, act)
    add = actions.add_parser("add", help="add nodes", description="Add simulated nodes.")
    add.add_argument("count", nargs="?", type=int, default=0, metavar="N", help="how many equal nodes")
    add.add_argument("--prefix", default="node-", help="what their names begin with (default: node-)")
    add.add_argument("--node-profile", type=Path, metavar="FILE", help="pools of nodes, zones and racks")
    add_capacity_argument(add)
    _finish(add, _add)


def _finish(parser: argparse.ArgumentParser, act: Any) -> None:
    add_cluster_arguments(parser)
    parser.set_defaults(run=_run, act=act)


def _run(arguments: argparse.Namespace) -> int:
    from quarterdeck.client import Client, Config
    from quarterdeck.errors import QuarterdeckError

    async def connected() -> None:
        async with Client.connect(
            Config.load(arguments.kubeconfig or "", context=arguments.context)
        ) as client:
            await arguments.act(client, arguments)

    try:
        asyncio.run(connected())
    except QuarterdeckError as error:
        raise CommandError(str(error)) from error
    return 0


async def _simulated(client: Client, names: list[str]) -> list[Node]:
    """The nodes of these names; raises CommandError if one has a machine."""
    from quarterdeck.api.k8s import Node
    from quarterdeck.cluster.node.names import SIMULATED

    found = [await client.get(Node, name) for name in names]
    for node in found:
        if node.metadata.labels.get(SIMULATED) != "true":
            raise CommandError(
                f"node {node.metadata.name} is not simulated: it has no label {SIMULATED}=true"
            )
    return found


async def _mark(client: Client, names: list[str], value: str | None) -> None:
    from quarterdeck.client import MergePatch
    from quarterdeck.cluster.node.names import FAILED

    for node in await _simulated(client, names):
        await client.patch(node, MergePatch({"metadata": {"annotations": {FAILED: value}}}))
        print(f"node/{node.metadata.name} {'restored' if value is None else 'failed'}")


async def _fail(client: Client, arguments: argparse.Namespace) -> None:
    await _mark(client, arguments.nodes, "true")


async def _restore(client: Client, arguments: argparse.Namespace) -> None:
    await _mark(client, arguments.nodes, None)


async def _remove(client: Client, arguments: argparse.Namespace) -> None:
    for node in await _simulated(client, arguments.nodes):
        await client.delete(node)
        print(f"node/{node.metadata.name} removed")


async def _add(client: Client, arguments: argparse.Namespace) -> None:
    from quarterdeck.api.k8s import Node
    from quarterdeck.cluster.node.profile import NodeSettings
    from quarterdeck.cluster.node.registration import make_node
    from quarterdeck.runtime.loop.clock import LoopClock, time_now

    if arguments.count < 0 or not (arguments.count or arguments.node_profile):
        raise CommandError("nodes add: say how many, or --node-profile FILE")
    wanted = NodeSettings(
        count=arguments.count,
        prefix=arguments.prefix,
        capacity=node_capacity(arguments.node_capacity),
        pools=node_pools(arguments.node_profile),
    )
    there = (await client.list(Node)).items
    for planned in beside(wanted, [node.metadata.name for node in there], last_number(there)):
        await client.create(make_node(planned, time_now(LoopClock())))
        print(f"node/{planned.name} added")


def last_number(nodes: Sequence[Node]) -> int:
    """The highest number that a node took its address from."""
    from quarterdeck.cluster.node.registration import HOSTS

    numbers = [-1]
    for node in nodes:
        for each in node.status.addresses:
            try:
                address = ipaddress.IPv4Address(each.address)
            except ValueError:
                continue
            if address in HOSTS:
                numbers.append(int(address) - int(HOSTS.network_address) - 1)
    return max(numbers)


def beside(wanted: NodeSettings, taken: list[str], last: int) -> list[Any]:
    """The nodes to make: those of the usual sort get the next free names, the others must be new."""
    import msgspec

    found, used, number = [], set(taken), 0
    for place, planned in enumerate(wanted.planned()):
        name = planned.name
        if place < wanted.count:
            while f"{wanted.prefix}{number}" in used:
                number += 1
            name = f"{wanted.prefix}{number}"
        elif name in used:
            raise CommandError(f"node {name} is there already: give the pool another name")
        used.add(name)
        found.append(msgspec.structs.replace(planned, name=name, number=last + 1 + place))
    return found
