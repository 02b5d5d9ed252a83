"""Which simulated nodes a command makes: `--nodes`, `--node-capacity` and `--node-profile`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from quarterdeck.cli.error import CommandError

if TYPE_CHECKING:
    from quarterdeck.cluster.node.profile import NodePool, NodeSettings


def add_node_arguments(parser: argparse.ArgumentParser, *, nodes: int = 0, capacity: str = "") -> None:
    """``nodes`` and ``capacity`` are what the command has if nobody says otherwise."""
    parser.add_argument(
        "--nodes",
        type=int,
        default=nodes,
        metavar="N",
        help=f"number of simulated nodes (default: {nodes or 'none'})",
    )
    add_capacity_argument(parser, capacity)
    parser.add_argument(
        "--node-profile",
        type=Path,
        metavar="FILE",
        help="more simulated nodes: pools with capacity, labels, taints, zones and racks (YAML)",
    )


def add_capacity_argument(parser: argparse.ArgumentParser, more: str = "") -> None:
    usual = ",".join(filter(None, ("cpu=32,memory=256Gi,pods=110", more)))
    parser.set_defaults(usual_node_capacity=more)
    parser.add_argument(
        "--node-capacity",
        default="",
        metavar="NAME=AMOUNT,...",
        help=f"resources of each node, such as cpu=64,nvidia.com/gpu=8 (default: {usual}, to which these are "
        "added)",
    )


def node_settings(arguments: argparse.Namespace) -> NodeSettings:
    """The nodes asked for; raises CommandError for what makes no sense."""
    from quarterdeck.cluster.node.profile import NodeSettings

    if arguments.nodes < 0:
        raise CommandError("--nodes must not be negative")
    if arguments.node_capacity and not arguments.nodes:
        raise CommandError("--node-capacity has no effect without --nodes")
    return NodeSettings(
        count=arguments.nodes,
        capacity=node_capacity(arguments.node_capacity or arguments.usual_node_capacity),
        pools=node_pools(arguments.node_profile),
    )


def node_capacity(text: str) -> dict[str, str]:
    """What each node has; raises CommandError for amounts that make no sense."""
    from quarterdeck.api import Quantity
    from quarterdeck.cluster.node.profile import USUAL_CAPACITY

    capacity = dict(USUAL_CAPACITY)
    for part in filter(None, text.split(",")):
        name, equals, amount = part.partition("=")
        try:
            if not name or not equals or Quantity(amount) < Quantity("0"):
                raise ValueError(part)
        except ValueError as error:
            raise CommandError(f"--node-capacity: {part!r} is not NAME=AMOUNT") from error
        capacity[name] = amount
    return capacity


def node_pools(path: Path | None) -> tuple[NodePool, ...]:
    """The pools of a profile; raises CommandError for a file that is none."""
    if path is None:
        return ()
    import yaml

    from quarterdeck.cluster.node.profile import read_profile
    from quarterdeck.errors import ConfigError, reason_of

    try:
        return read_profile(yaml.safe_load(path.read_text()))
    except (OSError, yaml.YAMLError, ConfigError) as error:
        raise CommandError(f"--node-profile {path}: {reason_of(error)}") from error
