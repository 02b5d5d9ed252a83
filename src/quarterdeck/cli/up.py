"""`quarterdeck up`: the embedded server, and beside it the cluster's controllers and the operators."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from .apiserver import add_server_arguments, server_options, stop_signal
from .argument import add_log_level
from .cluster import running_cluster
from .dashboard.ondemand import dashboard_on_demand
from .instance.announcement import announced
from .instance.detached import start_detached
from .instance.instance import USUAL_NAME, free_name
from .instance.kubeconfigfile import default_path
from .localnode.settings import add_local_node_arguments, local_node, refuse_local_node_arguments
from .nodes.option import add_node_arguments, node_settings
from .operators import add_operator_arguments, chosen_operators, settings_of

DESCRIPTION = """\
Run a whole cluster: the embedded API server and, in a process of their own, the controllers every cluster
has, the operators and, if asked for, simulated nodes. When everything is ready the
cluster's context is added to your kubeconfig, and removed again when it stops. Ctrl-C, SIGTERM, SIGHUP or
`quarterdeck down` stops it cleanly.
"""


def add_command(commands: Any) -> None:
    parser = commands.add_parser(
        "up",
        help="run a cluster here: the embedded server, its controllers, the operators",
        description=DESCRIPTION,
    )
    add_server_arguments(parser)
    add_operator_arguments(parser)
    add_node_arguments(parser)
    parser.add_argument(
        "--local-node",
        action="store_true",
        help="make this machine a node: anyone who may create pods may run programs as you",
    )
    add_local_node_arguments(parser)
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="add the context to this file while the cluster runs (default: as kubectl's)",
    )
    parser.add_argument(
        "--detach", action="store_true", help="run in the background; `quarterdeck down` stops it"
    )
    parser.add_argument(
        "--log-file", default="", metavar="FILE", help="what `quarterdeck logs` shows; --detach sets it"
    )
    parser.add_argument(
        "--controllers",
        metavar="NAMES",
        help="which of the cluster's controllers run, as kube-controller-manager names them: deployment,"
        "replicaset, or *,-garbage-collector, or none (default: all)",
    )
    add_log_level(parser, "WARNING")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    import uvloop

    from quarterdeck.apiserver.document import nesting
    from quarterdeck.runtime.log import configure

    if not arguments.local_node:
        refuse_local_node_arguments(arguments, "--local-node")
    node_settings(arguments)  # says what is wrong here, not in the log of a process in the background
    if arguments.detach:
        return start_detached(
            [each for each in sys.argv[1:] if each != "--detach"], free_name(arguments.name)
        )
    configure(level=arguments.log_level)
    nesting.make_room()
    return uvloop.run(_up(arguments))


def _admission_plugins(controllers: str | None) -> Collection[str]:
    """Those of a cluster; pods need no service account where nobody makes any."""
    from quarterdeck.apiserver.admission import plugin
    from quarterdeck.cluster.choice import ControllerChoice

    if controllers is None or ControllerChoice.parse(controllers).includes("serviceaccount"):
        return plugin.FOR_CLUSTERS
    return plugin.FOR_CLUSTERS - {plugin.SERVICE_ACCOUNT}


async def _up(arguments: argparse.Namespace) -> int:
    stopping, settings = stop_signal(), settings_of(arguments)
    async with running_cluster(
        server_options(arguments, _admission_plugins(arguments.controllers)),
        [operator.name for operator in chosen_operators(arguments)],
        settings.operators,
        stopping,
        nodes=node_settings(arguments),
        # A node that runs pods is of little use without what makes them.
        controllers=arguments.controllers or ("*" if arguments.local_node else None),
        local_node=local_node(arguments, settings.node) if arguments.local_node else None,
        log_level=arguments.log_level,
    ) as server:
        if not stopping.is_set():  # by a signal during the start
            path = arguments.kubeconfig or default_path()
            kubeconfig = server.kubeconfig(arguments.name or USUAL_NAME)
            async with (
                dashboard_on_demand(kubeconfig, server.url) as page,
                announced(
                    server, name=arguments.name, kubeconfig=path, log=arguments.log_file, dashboard=page
                ) as lines,
            ):
                print(lines, flush=True)
                await stopping.wait()
    print("stopped", file=sys.stderr, flush=True)
    return 0
