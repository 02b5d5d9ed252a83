"""`quarterdeck ipam`: views of address pools. `tree` draws the pools of a cluster."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quarterdeck.client import Client
    from quarterdeck.operators.ipam.logic.tree import PoolView

_PAGE = 1000
DESCRIPTION = """\
Draw the SubnetPools of a cluster: which pool is inside which, how much of each is used, its largest free
block, and a map of its range from the lowest address to the highest. It is computed from the Subnets
themselves, so it is right even if no operator is running.
"""
EPILOG = """\
examples:
  quarterdeck ipam tree
  quarterdeck ipam tree --namespace team-a --width 0

docs: {docs}/operators/ipam/
"""


def add_command(commands: Any) -> None:
    parser = commands.add_parser("ipam", help="show address pools", epilog=EPILOG)
    views = parser.add_subparsers(title="views", metavar="VIEW", required=True)
    tree = views.add_parser("tree", help="pools, their children, and what is free", description=DESCRIPTION)
    tree.add_argument(
        "--kubeconfig",
        type=Path,
        help="kubeconfig of the cluster (default: $KUBECONFIG, the pod's, ~/.kube/config)",
    )
    tree.add_argument("--context", default="", help="context of the kubeconfig (default: its current one)")
    tree.add_argument("-n", "--namespace", default="", help="only this namespace (default: all)")
    tree.add_argument(
        "--width", type=int, default=64, help="characters of a map, 0 for none (default: %(default)s)"
    )
    tree.add_argument("--ascii", action="store_true", help="plain characters only")
    tree.set_defaults(run=run_tree)


def run_tree(arguments: argparse.Namespace) -> int:
    from quarterdeck.client import Client, Config

    async def show() -> None:
        config = Config.load(arguments.kubeconfig or "", context=arguments.context)
        async with Client.connect(config) as client:
            await _tree(client, arguments)

    asyncio.run(show())
    return 0


async def _tree(client: Client, arguments: argparse.Namespace) -> None:
    from quarterdeck.operators.ipam.logic.tree import ASCII, BLOCKS, draw

    symbols = ASCII if arguments.ascii else BLOCKS
    spaces = await _pools(client, arguments.namespace)
    if not spaces:
        print("there are no SubnetPools", file=sys.stderr)
    for number, (namespace, pools) in enumerate(sorted(spaces.items())):
        if number:
            print()
        print(f"{namespace}:")
        for line in draw(pools, width=max(0, arguments.width), symbols=symbols):
            print(line)


async def _pools(client: Client, namespace: str) -> dict[str, list[PoolView]]:
    from quarterdeck.operators.ipam.logic.facts import member_of, pool_facts
    from quarterdeck.operators.ipam.logic.tree import PoolView
    from quarterdeck.operators.ipam.types import Subnet, SubnetPool

    members: dict[tuple[str, str], list[Any]] = {}
    async for page in client.pages(Subnet, namespace=namespace, limit=_PAGE):
        for subnet in page:
            member = member_of(subnet)
            if member is not None:
                members.setdefault((member.namespace, member.pool), []).append(member.network)
    found: dict[str, list[PoolView]] = {}
    async for pools in client.pages(SubnetPool, namespace=namespace, limit=_PAGE):
        for pool in pools:
            facts, space = pool_facts(pool), pool.metadata.namespace
            found.setdefault(space, []).append(
                PoolView(
                    name=facts.name,
                    network=facts.network,
                    cidr=facts.cidr,
                    parent=facts.parent,
                    strategy=facts.strategy,
                    members=members.get((space, facts.name), ()),
                )
            )
    return found
