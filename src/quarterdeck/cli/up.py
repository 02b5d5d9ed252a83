"""`quarterdeck up`: the embedded server, and beside it the cluster's controllers and the operators."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from .apiserver import add_server_arguments, server_options, stop_signal
from .cluster import running_cluster
from .collector import relax_collector
from .nodes import add_node_arguments, node_settings
from .operators import add_operator_arguments, chosen_operators, operator_settings

DESCRIPTION = """\
Run a whole cluster: the embedded API server and, in a process of their own, the controllers every cluster
has, the operators and, if asked for, nodes without machines. The kubeconfig is written when everything is
ready. Ctrl-C or SIGTERM stops it cleanly.
"""


def add_command(commands: Any) -> None:
    parser = commands.add_parser(
        "up", help="the embedded server, its controllers and the operators", description=DESCRIPTION
    )
    add_server_arguments(parser)
    add_operator_arguments(parser)
    add_node_arguments(parser)
    parser.add_argument("--log-level", default="WARNING", help="DEBUG, INFO, WARNING or ERROR")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    import uvloop

    from quarterdeck.apiserver.document import nesting
    from quarterdeck.runtime.log import configure

    configure(level=arguments.log_level)
    nesting.make_room()
    relax_collector()
    return uvloop.run(_up(arguments))


async def _up(arguments: argparse.Namespace) -> int:
    stopping = stop_signal()
    async with running_cluster(
        server_options(arguments),
        [operator.name for operator in chosen_operators(arguments)],
        operator_settings(arguments),
        stopping,
        nodes=node_settings(arguments),
        log_level=arguments.log_level,
    ) as server:
        if arguments.kubeconfig is not None:
            server.write_kubeconfig(arguments.kubeconfig)
        where = f", kubeconfig {arguments.kubeconfig}" if arguments.kubeconfig else ""
        print(f"ready: {server.url}{where}", flush=True)
        await stopping.wait()
    print("stopped", file=sys.stderr, flush=True)
    return 0
