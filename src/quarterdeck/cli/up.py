"""`quarterdeck up`: the embedded server, the cluster's controllers and the operators in one process."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from .apiserver import add_server_arguments, server_options, stop_signal
from .collector import relax_collector
from .error import CommandError
from .nodes import add_node_arguments, node_settings
from .operators import add_operator_arguments, chosen_operators, operator_settings

if TYPE_CHECKING:
    from quarterdeck.apiserver import ApiServer, ServerOptions
    from quarterdeck.cluster.choice import ControllerChoice
    from quarterdeck.cluster.node.lifecycle import InitGate
    from quarterdeck.cluster.node.registration import NodeSettings
    from quarterdeck.runtime.operator import Operator
    from quarterdeck.runtime.operator.program import Program

DESCRIPTION = """\
Run a whole cluster in this process: the embedded API server, the controllers every cluster has, the
operators and, if asked for, nodes without machines. The kubeconfig is written when everything is ready.
Ctrl-C or SIGTERM stops it cleanly.
"""


def add_command(commands: Any) -> None:
    parser = commands.add_parser(
        "up", help="the embedded server, its controllers and the operators", description=DESCRIPTION
    )
    add_server_arguments(parser)
    add_operator_arguments(parser)
    add_node_arguments(parser)
    parser.add_argument(
        "--controllers",
        default=None,
        metavar="NAMES",
        help="which of the cluster's controllers run, as kube-controller-manager names them: deployment,"
        "replicaset, or *,-garbage-collector, or none (default: all)",
    )
    parser.add_argument("--log-level", default="WARNING", help="DEBUG, INFO, WARNING or ERROR")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    import uvloop

    from quarterdeck.apiserver import nesting
    from quarterdeck.runtime.log import configure

    configure(level=arguments.log_level)
    nesting.make_room()
    relax_collector()
    return uvloop.run(_up(arguments))


async def _up(arguments: argparse.Namespace) -> int:
    stopping = stop_signal()
    operators = chosen_operators(arguments)
    settings = operator_settings(arguments)
    options, nodes = server_options(arguments), node_settings(arguments)
    choice = _chosen_controllers(arguments.controllers)
    async with cluster(options, operators, settings, stopping, nodes=nodes, choice=choice) as server:
        if arguments.kubeconfig is not None:
            server.write_kubeconfig(arguments.kubeconfig)
        where = f", kubeconfig {arguments.kubeconfig}" if arguments.kubeconfig else ""
        print(f"ready: {server.url}{where}", flush=True)
        await stopping.wait()
    print("stopped", file=sys.stderr, flush=True)
    return 0


@asynccontextmanager
async def cluster(
    options: ServerOptions,
    operators: list[Operator],
    settings: Any,
    stopping: asyncio.Event,
    *,
    nodes: NodeSettings | None = None,
    choice: ControllerChoice | None = None,
) -> AsyncIterator[ApiServer]:
    """A running cluster, ready for use unless `stopping` was set before it was.

    The admission of JobSets comes with the operators, and what runs workloads with operators, nodes or a
    choice of controllers; without any the cluster is a bare control plane, where a pod or Job stays as it was
    stored. A choice says which of the cluster's controllers run.

    Raises CommandError for what the user can mend, or an operator needs and does not find.
    """
    from quarterdeck.apiserver import ApiServer, StorageError
    from quarterdeck.client import Client, InProcessTransport
    from quarterdeck.cluster.choice import ALL_CONTROLLERS
    from quarterdeck.cluster.controllers import ClusterControllers
    from quarterdeck.cluster.jobset.assembly import JobSetAdmission
    from quarterdeck.cluster.node.kubelet import Kubelet
    from quarterdeck.cluster.node.registration import NodeSettings
    from quarterdeck.cluster.workload import Workloads
    from quarterdeck.errors import QuarterdeckError
    from quarterdeck.runtime.loop.taskerror import unwrapped
    from quarterdeck.runtime.operator.program import Program, ProgramOptions

    server = ApiServer(options)
    try:
        await server.start()
    except (StorageError, OSError, ValueError) as error:
        raise CommandError(str(error)) from error
    try:
        program = Program(
            Client.over(InProcessTransport(server.local())),
            [*operators, JobSetAdmission()] if operators else [],
            ProgramOptions(
                is_embedded=True, installs=True, webhook_url="https://127.0.0.1:0", settings=settings
            ),
        )
        nodes = nodes if nodes is not None else NodeSettings()
        workloads = Workloads(nodes=nodes, kubelet=Kubelet(init_gate=_init_gate(program, operators)))
        program.manager.add(
            ClusterControllers(
                # Observing everything includes what is deprecated: no news to anybody.
                Client.over(InProcessTransport(server.local()), on_warning=lambda _: None),
                root_ca=server.credentials.authority.certificate_pem,
                sign_token=server.sign_token,
                workloads=workloads if operators or nodes.count or choice is not None else None,
                choice=choice if choice is not None else ALL_CONTROLLERS,
                metrics=program.metrics,
            )
        )
        server.add_check("operators", lambda: not program.not_ready)
        server.add_metrics(program.metrics.registry.expose)
        with unwrapped():
            async with asyncio.TaskGroup() as group:
                serving = group.create_task(program.serve())
                await _first(program.wait_ready(), stopping.wait())
                try:
                    yield server
                finally:
                    program.manager.request_stop()
                    await asyncio.wait([serving])
    except QuarterdeckError as error:
        raise CommandError(str(error)) from error
    finally:
        await server.stop()


def _chosen_controllers(text: str | None) -> ControllerChoice | None:
    """The controllers asked for; raises CommandError for what is no list of names."""
    if text is None:
        return None
    from quarterdeck.cluster.choice import ControllerChoice
    from quarterdeck.errors import ConfigError

    try:
        return ControllerChoice.parse(text)
    except ConfigError as error:
        raise CommandError(f"--{error}") from error


def _init_gate(program: Program, operators: list[Operator]) -> InitGate | None:
    """What init containers wait for that no container program waits for here; see Grove's startup order."""
    if all(operator.name != "grove" for operator in operators):
        return None
    from quarterdeck.operators.grove.initc.gate import StartupGate

    return StartupGate(program.manager.cache)


async def _first(*steps: Coroutine[Any, Any, Any]) -> None:
    """Wait for the first of several; the others are given up."""
    tasks = [asyncio.ensure_future(step) for step in steps]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
