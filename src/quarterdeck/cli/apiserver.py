"""`quarterdeck apiserver`: the embedded API server alone."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quarterdeck.errors import reason_of

from .argument import USUAL_PORT, cluster_name, port_number
from .error import CommandError
from .instance.announcement import announced

if TYPE_CHECKING:
    from quarterdeck.apiserver import ServerOptions

DESCRIPTION = """\
Serve the Kubernetes API (1.36) from one process, with TLS, authentication and RBAC, without etcd.
State is kept in memory unless --data-dir is given. With --kubeconfig its context is in that file from the
moment it is ready until it ends, and any stock client works with it; `quarterdeck kubeconfig` prints it, too.
"""


def add_command(commands: Any) -> None:
    parser = commands.add_parser(
        "apiserver",
        help="run the embedded API server alone (what envtest is for Go)",
        description=DESCRIPTION,
    )
    add_server_arguments(parser)
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="add a context to this file while it runs"
    )
    parser.add_argument(
        "--salvage",
        action="store_true",
        help="keep what can be read of a damaged --data-dir, say what was saved and what is lost, and exit",
    )
    parser.set_defaults(run=run)


def add_server_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port",
        type=port_number,
        help=f"port to listen on, 0 for a free one (default: {USUAL_PORT}, or a free one if that is in use)",
    )
    parser.add_argument("--data-dir", type=Path, help="keep state and certificates here (default: in memory)")
    parser.add_argument(
        "--name",
        type=cluster_name,
        default="",
        help="name of the cluster and of its context (default: quarterdeck)",
    )
    parser.add_argument(
        "--token-file", type=Path, help='static bearer tokens: token,user,uid,"group1,group2" per line'
    )
    parser.add_argument(
        "--durability",
        choices=("full", "normal", "memory"),
        default="full",
        help="what an acknowledged write survives with --data-dir: power loss (full), a killed process "
        "(normal), nothing (memory); default: %(default)s",
    )
    for option in ("enable", "disable"):
        parser.add_argument(
            f"--{option}-admission-plugins",
            action="append",
            default=[],
            metavar="NAMES",
            help=f"admission plugins to {option}, by kube-apiserver's names, separated by commas",
        )
    parser.add_argument(
        "--admission-control-config-file",
        type=Path,
        metavar="FILE",
        help="an AdmissionConfiguration, as for kube-apiserver; only PodSecurity reads it",
    )
    parser.add_argument(
        "--allow-all", action="store_true", help="development: let every authenticated user do everything"
    )


def run(arguments: argparse.Namespace) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if arguments.salvage:
        return salvage(arguments)
    import uvloop

    from quarterdeck.apiserver.document import nesting

    nesting.make_room()
    return uvloop.run(serve(arguments))


def salvage(arguments: argparse.Namespace) -> int:
    """Put a damaged data directory in order."""
    from quarterdeck.apiserver import StorageError
    from quarterdeck.apiserver import salvage as salvage_directory

    if arguments.data_dir is None:
        raise CommandError("--salvage needs the --data-dir to put in order")
    try:
        report = salvage_directory(arguments.data_dir)
    except (StorageError, OSError) as error:
        raise CommandError(_told(error)) from error
    for line in report.lines():
        print(line)
    return 0


def server_options(
    arguments: argparse.Namespace, admission_plugins: Collection[str] | None = None
) -> ServerOptions:
    """`admission_plugins` run unless the arguments say otherwise; by default those for tests."""
    from quarterdeck.apiserver import Durability, ServerOptions
    from quarterdeck.apiserver.admission import plugin
    from quarterdeck.apiserver.admission.plugin.podsecurity import ConfigurationError, load_configuration

    durability = Durability(arguments.durability)
    if arguments.data_dir is not None and arguments.data_dir.exists() and not arguments.data_dir.is_dir():
        raise CommandError(f"--data-dir {arguments.data_dir} is a file; name a folder")
    if arguments.token_file is not None and not arguments.token_file.is_file():
        raise CommandError(f"--token-file {arguments.token_file} is no file that can be read")
    try:
        plugins = plugin.choose(
            plugin.FOR_TESTS if admission_plugins is None else admission_plugins,
            _names(arguments.enable_admission_plugins),
            _names(arguments.disable_admission_plugins),
        )
    except plugin.UnknownPlugin as error:
        raise CommandError(f"--{error}") from None
    if arguments.data_dir is None and durability is Durability.NORMAL:
        raise CommandError("--durability normal has no effect without --data-dir")
    file = arguments.admission_control_config_file
    try:
        pod_security = None if file is None else load_configuration(file)
    except ConfigurationError as error:
        raise CommandError(f"--admission-control-config-file {error}") from None
    return ServerOptions(
        data_dir=None if durability is Durability.MEMORY else arguments.data_dir,
        host=arguments.host,
        port=USUAL_PORT if arguments.port is None else arguments.port,
        takes_any_port=arguments.port is None,
        durability=durability,
        token_file=arguments.token_file,
        allow_all=arguments.allow_all,
        admission_plugins=plugins,
        pod_security=pod_security,
    )


def _names(given: list[str]) -> list[str]:
    return [name.strip() for part in given for name in part.split(",") if name.strip()]


def stop_signal() -> asyncio.Event:
    """Set by SIGINT and SIGTERM, and by SIGHUP (the terminal is gone) unless that is ignored, as by nohup; a
    second signal then does what it always does."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)

    def stop() -> None:
        stopping.set()
        for number in numbers:
            loop.remove_signal_handler(number)

    for number in numbers:
        loop.add_signal_handler(number, stop)
    return stopping


def _told(error: Exception) -> str:
    named = isinstance(error, OSError) and error.filename
    return f"{named}: {reason_of(error)}" if named else reason_of(error)


async def serve(arguments: argparse.Namespace) -> int:
    from quarterdeck.apiserver import ApiServer, StorageError

    stopping = stop_signal()
    server = ApiServer(server_options(arguments))
    try:
        await server.start()
    except (StorageError, OSError, ValueError) as error:
        raise CommandError(_told(error)) from error
    try:
        async with announced(server, name=arguments.name, kubeconfig=arguments.kubeconfig) as lines:
            print(lines, flush=True)
            await stopping.wait()
    finally:
        await server.stop()
    print("stopped", file=sys.stderr, flush=True)
    return 0
