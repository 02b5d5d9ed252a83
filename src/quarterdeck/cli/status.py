"""`quarterdeck status`: the clusters that run on this machine, and what is wrong in each."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .argument import add_cluster_arguments
from .dashboard.command import cluster_config
from .health import assess_cluster, problem_lines, unreachable

if TYPE_CHECKING:
    from quarterdeck.client import Config
    from quarterdeck.health import Assessment

    from .instance.instance import Instance

DESCRIPTION = """\
List the clusters that run on this machine, with what is wrong in each and what to do. With --kubeconfig or
--context it says the same of that cluster instead, wherever it runs. It changes nothing.
"""
_PATIENCE: Final = 20.0
"""Seconds in which a cluster has to answer everything."""


def add_command(commands: Any) -> None:
    text = "list the clusters that run on this machine, and what is wrong in each"
    parser = commands.add_parser("status", help=text, description=DESCRIPTION)
    add_cluster_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    if arguments.kubeconfig or arguments.context:
        config = cluster_config(arguments)
        found = asyncio.run(_assess(config))
        print(f"{config.server}: {found.summary}")
        print(*problem_lines(found.problems), sep="\n", end="\n" if found.problems else "")
        return 0
    from .instance.instance import running

    clusters = list(running())
    if not clusters:
        print("no cluster is running; `quarterdeck up --detach` starts one")
        return 0
    health = asyncio.run(_assess_all(clusters))
    _print_table(clusters, health)
    for cluster, found in zip(clusters, health, strict=True):
        if found.problems:
            print(f"\n{cluster.name}: {found.summary}")
            print(*problem_lines(found.problems), sep="\n")
    return 0


def _print_table(clusters: list[Instance], health: list[Assessment]) -> None:
    rows = [("NAME", "HEALTH", "PID", "URL", "KUBECONFIG", "DATA", "DASHBOARD")]
    for each, found in zip(clusters, health, strict=True):
        data = each.data_dir or "in memory"
        where = (each.url, each.context_file or "-", data, each.dashboard or "-")
        rows.append((each.name, found.summary, str(each.pid), *where))
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        print("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


async def _assess_all(clusters: list[Instance]) -> list[Assessment]:
    return await asyncio.gather(*(_assess(_config_of(each)) for each in clusters))


def _config_of(cluster: Instance) -> Config:
    import msgspec

    from quarterdeck.client import Config

    with tempfile.TemporaryDirectory(prefix="quarterdeck-") as folder:  # for this user alone
        file = Path(folder, "kubeconfig")
        file.write_bytes(msgspec.json.encode(cluster.kubeconfig))
        return Config.load(file)


async def _assess(config: Config) -> Assessment:
    from quarterdeck.client import Client
    from quarterdeck.errors import TransportError

    started = datetime.now(UTC)
    try:
        async with asyncio.timeout(_PATIENCE), Client.connect(config) as client:
            # once, before the client tries again and again
            await client.rest.transport.request("GET", "/version", timeout=_PATIENCE)
            return await assess_cluster(client)
    except (TransportError, TimeoutError):
        return unreachable(config.server, started)
    except ExceptionGroup as group:
        if group.subgroup(TransportError) is None:
            raise
        return unreachable(config.server, started)
