"""`quarterdeck run`: the operators against a cluster that exists."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from .argument import add_cluster_arguments, add_log_level, port_number
from .dashboard.command import reachable
from .error import CommandError
from .manifests import NAME, service_name
from .operators import add_operator_arguments, add_watch_namespaces, chosen_operators, settings_of

if TYPE_CHECKING:
    from quarterdeck.runtime.operator.program import ProgramOptions

DESCRIPTION = """\
Run the operators against an existing cluster, with leader election, webhooks, metrics and probes. The
cluster is that of --kubeconfig, of $KUBECONFIG, or the one this pod runs in. `quarterdeck manifests` prints
what the cluster needs first; with --install this command applies the CRDs itself.
"""


def add_command(commands: Any) -> None:
    parser = commands.add_parser(
        "run", help="run the operators against an existing cluster", description=DESCRIPTION
    )
    add_cluster_arguments(parser)
    add_operator_arguments(parser)
    parser.add_argument(
        "--install", action="store_true", help="create the namespace and apply the CRDs first"
    )
    parser.add_argument(
        "--namespace",
        default="quarterdeck-system",
        help="namespace of its certificate and Lease (default: %(default)s)",
    )
    parser.add_argument(
        "--name",
        default=NAME,
        help="name of the installation, and of its Lease and webhook Service (default: %(default)s)",
    )
    add_watch_namespaces(parser)
    add_webhook_arguments(parser)
    parser.add_argument(
        "--metrics-address",
        default="127.0.0.1:8080",
        help="where metrics are served; 0 = nowhere (default: %(default)s)",
    )
    parser.add_argument(
        "--health-address",
        default="127.0.0.1:8081",
        help="where probes are answered; 0 = nowhere (default: %(default)s)",
    )
    parser.add_argument(
        "--no-leader-election", action="store_true", help="do not elect a leader; only for a single replica"
    )
    add_log_level(parser, "INFO")
    parser.set_defaults(run=run)


def add_webhook_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("webhooks")
    group.add_argument(
        "--webhook-host", default="127.0.0.1", help="address to listen on (default: %(default)s)"
    )
    group.add_argument(
        "--webhook-port",
        type=port_number,
        default=9443,
        help="port to listen on; 0 picks one (default: %(default)s)",
    )
    group.add_argument(
        "--webhook-url", default="", help="https://host:port the API server calls, instead of the Service"
    )
    group.add_argument(
        "--webhook-service", default="", help="Service of the webhooks (default: NAME-webhook)"
    )
    group.add_argument(
        "--webhook-certificates",
        default="",
        metavar="DIRECTORY",
        help="folder with your tls.crt and tls.key (default: self-signed, kept in a Secret and renewed)",
    )


def run(arguments: argparse.Namespace) -> int:
    import uvloop

    from quarterdeck.runtime.log import configure

    configure(level=arguments.log_level)
    return uvloop.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> int:
    from quarterdeck.client import Config
    from quarterdeck.errors import ConfigError
    from quarterdeck.runtime.operator.program import Program

    operators = chosen_operators(arguments)
    if not operators:
        raise CommandError("no operators to run")
    try:
        config = Config.load(arguments.kubeconfig or "", context=arguments.context)
        async with reachable(config):
            pass  # else every cache would tell, in lines of its own
        program = Program(config, operators, _options(arguments))
    except ConfigError as error:
        raise CommandError(str(error)) from error
    return await program.run()


def _options(arguments: argparse.Namespace) -> ProgramOptions:
    from quarterdeck.runtime.election import LeaderElection
    from quarterdeck.runtime.manager.option import ManagerOptions
    from quarterdeck.runtime.operator.program import ProgramOptions

    election = LeaderElection(name=arguments.name, namespace=arguments.namespace)
    return ProgramOptions(
        namespace=arguments.namespace,
        settings=settings_of(arguments).operators,
        installs=arguments.install,
        is_in_cluster="KUBERNETES_SERVICE_HOST" in os.environ,
        webhook_host=arguments.webhook_host,
        webhook_port=arguments.webhook_port,
        webhook_url=arguments.webhook_url,
        name=arguments.name,
        watch_namespaces=arguments.watch_namespaces,
        webhook_service=arguments.webhook_service or service_name(arguments.name),
        certificate_directory=arguments.webhook_certificates,
        leader_election=None if arguments.no_leader_election else election,
        metrics_address=arguments.metrics_address,
        health_address=arguments.health_address,
        manager=ManagerOptions(check_permissions=True),
    )
