"""Which simulated nodes a command makes: `--nodes` and `--node-capacity`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from .error import CommandError

if TYPE_CHECKING:
    from quarterdeck.cluster.node.registration import NodeSettings


def add_node_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", type=int, default=0, metavar="N", help="simulated nodes (default: none)")
    parser.add_argument(
        "--node-capacity",
        default="",
        metavar="NAME=AMOUNT,...",
        help="resources of each node, such as cpu=64,nvidia.com/gpu=8 "
        "(default: cpu=32,memory=256Gi,pods=110, to which these are added)",
    )


def node_settings(arguments: argparse.Namespace) -> NodeSettings:
    """The nodes asked for; raises CommandError for amounts that make no sense."""
    from quarterdeck.api import Quantity
    from quarterdeck.cluster.node.registration import NodeSettings

    usual = NodeSettings()
    capacity = dict(usual.capacity)
    for part in filter(None, arguments.node_capacity.split(",")):
        name, equals, amount = part.partition("=")
        try:
            if not name or not equals or Quantity(amount) < Quantity("0"):
                raise ValueError(part)
        except ValueError as error:
            raise CommandError(f"--node-capacity: {part!r} is not NAME=AMOUNT") from error
        capacity[name] = amount
    if arguments.nodes < 0:
        raise CommandError("--nodes must not be negative")
    return NodeSettings(count=arguments.nodes, capacity=capacity)
