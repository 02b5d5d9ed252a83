"""`quarterdeck grove`: the PodCliqueSet operator alone, and the scheduler backends that are installed."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Literal

RUN = """\
Run the operator alone, with the OperatorConfiguration of a file. Exit codes: 2 the configuration, 3 the
topology, 4 the surroundings, 5 the scheduler backend, 6 anything later.
"""
_FORMATS: dict[str, Literal["json", "console"]] = {"json": "json", "text": "console"}
BACKENDS = """\
List the scheduler backends that the operator knows: the built-in ones, then those of installed distributions.
"""


def add_command(commands: Any) -> None:
    parser = commands.add_parser("grove", help="the PodCliqueSet operator alone, and its backends")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    run = actions.add_parser("run", help="run the operator alone", description=RUN)
    run.add_argument("--config", type=Path, required=True, help="YAML file with an OperatorConfiguration")
    run.add_argument("--kubeconfig", type=Path, help="default: $KUBECONFIG, the pod's, ~/.kube/config")
    run.add_argument("--context", default="", help="context of the kubeconfig")
    run.add_argument("--namespace", default="grove-system", help="of the operator (default: %(default)s)")
    run.add_argument("--webhook-url", default="", help="https://host:port the API server calls")
    run.add_argument("--install", action="store_true", help="create the namespace, apply the definitions")
    run.set_defaults(run=run_operator)
    backends = actions.add_parser("backends", help="list scheduler backends", description=BACKENDS)
    backends.set_defaults(run=list_backends)


def run_operator(arguments: argparse.Namespace) -> int:
    import uvloop

    from quarterdeck.errors import ConfigError
    from quarterdeck.operators.grove.program import GroveProgram, RunOptions, exit_code_of
    from quarterdeck.runtime.log import configure

    program = GroveProgram(
        RunOptions(
            config=arguments.config,
            kubeconfig=str(arguments.kubeconfig or ""),
            context=arguments.context,
            namespace=arguments.namespace,
            webhook_url=arguments.webhook_url,
            installs=arguments.install,
        )
    )
    try:
        configuration = program.load()
    except ConfigError as error:
        print(f"grove: {error}", file=sys.stderr)
        return exit_code_of(error)
    configure(level=configuration.log_level.upper(), format=_FORMATS[configuration.log_format])
    return uvloop.run(program.run(configuration))


def list_backends(arguments: argparse.Namespace) -> int:
    from quarterdeck.errors import QuarterdeckError
    from quarterdeck.operators.grove.backends import default_registry

    for name in default_registry.names():
        try:
            factory = default_registry.get_factory(name)
        except QuarterdeckError as error:
            print(f"{name}\tcannot be loaded: {error}")
            continue
        print(f"{name}\t{factory.__module__}:{getattr(factory, '__qualname__', repr(factory))}")
    return 0
