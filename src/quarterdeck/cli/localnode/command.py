"""`quarterdeck node`: this machine as a node of a cluster that runs here already."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quarterdeck.cli.argument import add_log_level
from quarterdeck.cli.error import CommandError

from .settings import LocalNode, add_local_node_arguments, held_directory, local_node

if TYPE_CHECKING:
    from quarterdeck.cli.instance.instance import Instance

DESCRIPTION = """\
Make this machine a node of a cluster that `quarterdeck up --data-dir` runs here. Ctrl-C or SIGTERM stops the
agent; its pods keep running, and the next agent finds them, unless --end-pods is given. Anyone who may create
pods may run programs as you.
"""


def add_command(commands: Any) -> None:
    parser = commands.add_parser(
        "node", help="make this machine a node of a running cluster", description=DESCRIPTION
    )
    parser.add_argument("name", nargs="?", default="", help="name of the cluster; needed if several run")
    parser.add_argument("--config", type=Path, help="YAML file with settings: node: {images: …}")
    parser.add_argument("--end-pods", action="store_true", help="end all pods when the agent stops")
    add_local_node_arguments(parser)
    add_log_level(parser, "WARNING")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    import uvloop

    from quarterdeck.cli.instance.instance import find
    from quarterdeck.cli.operators import settings_of
    from quarterdeck.runtime.log import configure

    wanted = local_node(arguments, settings_of(arguments).node)
    instance = find(arguments.name)
    if not instance.data_dir or not instance.node_sockets:
        raise CommandError(
            f"{instance.name} keeps its keys to itself: start it with --data-dir, or with --local-node"
        )
    configure(level=arguments.log_level)
    # One node a folder; the second node of a machine has a folder by its name.
    with held_directory(Path(instance.data_dir) / "nodes" / wanted.name) as directory:
        return uvloop.run(_run(arguments, instance, wanted, directory))


async def _run(arguments: argparse.Namespace, instance: Instance, wanted: LocalNode, directory: Path) -> int:
    from quarterdeck.apiserver.auth.certificates import Authority
    from quarterdeck.apiserver.auth.kubeconfig import write_kubeconfig
    from quarterdeck.cli.apiserver import stop_signal
    from quarterdeck.client import Client, Config

    from .credential import allow_node, write_node_kubeconfig
    from .process import serve_node
    from .start import make_assignment

    stopping = stop_signal()
    with tempfile.TemporaryDirectory(prefix="quarterdeck-") as place:  # for this user alone
        private = Path(place)
        admin = private / "admin.kubeconfig"
        await asyncio.to_thread(write_kubeconfig, admin, instance.kubeconfig)
        async with Client.connect(Config.load(str(admin))) as client:
            await allow_node(client, wanted.name)
        admin.unlink()
        kubeconfig = private / "node.kubeconfig"
        authority = Authority.from_pem((Path(instance.data_dir) / "pki" / "ca.pem").read_bytes())
        await asyncio.to_thread(
            write_node_kubeconfig, kubeconfig, server=instance.url, authority=authority, node=wanted.name
        )
        assignment = make_assignment(
            wanted,
            url=instance.url,
            kubeconfig=kubeconfig,
            sockets=Path(instance.node_sockets),
            directory=directory,
            hidden=(private, Path(instance.data_dir), Path(instance.node_sockets).parent),
            log_level=arguments.log_level,
        )

        def say_ready() -> None:
            print(f"ready: node {wanted.name} of {instance.name}", flush=True)

        await serve_node(assignment, stopping, say_ready, ends_pods=lambda: arguments.end_pods)
    return 0
