"""`quarterdeck grove`: the PodCliqueSet operator alone, and the scheduler backends that are installed."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

from quarterdeck.errors import ConfigError

RUN = """\
Run the operator alone, with the OperatorConfiguration of a file. Exit codes: 1 wrong arguments, 2 the
configuration, 3 the topology, 4 no cluster, 5 the scheduler backend, 6 any later error, 7 the CRD of
ComputeDomains is missing.
"""
_FORMATS: dict[str, Literal["json", "console"]] = {"json": "json", "text": "console"}
EPILOG = """\
examples:
  quarterdeck grove run --config operator.yaml
  quarterdeck grove check-config operator.yaml
  quarterdeck grove backends

docs: {docs}/operators/grove/
"""
BACKENDS = """\
List the scheduler backends that the operator knows: the built-in ones, then those of installed distributions.
"""
CONVERT = """\
Print the configuration of upstream's operator as this one reads it, complete and checked. FILE is an
OperatorConfiguration, values of the chart (their `config`), or the ConfigMap that the chart creates.
`grove run` takes the same files unchanged.
"""
INSTALL = """\
Apply the definitions of the operator's kinds, wait until they are served, and end. This is what an init
container of its Deployment does, such as `crd-installer` of upstream's chart.
"""
CHECK = """\
Look whether the operator would start on a cluster with the OperatorConfiguration of a file, and what would
change for the PodCliqueSets there, before it is applied: the fields, the version of Kubernetes, the scheduler
backends and what they need, permissions. Nothing is changed: what backends write at their start is a dry run.
The exit code is 0 if all is well, else the one that `grove run` would end with; 6 also for permissions.
"""
RELOAD = """\
Make a running operator (`quarterdeck grove run`) look for scheduler backends and read its file again.
"""


class _Arguments(argparse.ArgumentParser):
    """Exits with 1 where arguments are wrong: 2 is the configuration."""

    def error(self, message: str) -> NoReturn:
        self.exit(1, f"{self.prog}: {message} (see {self.prog} --help)\n")

    def parse_known_args(  # type: ignore[override]  # the namespace is always one of argparse
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown


def add_command(commands: Any) -> None:
    parser = commands.add_parser(
        "grove", help="run the PodCliqueSet operator alone, list its backends", epilog=EPILOG
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True, parser_class=_Arguments)
    run = actions.add_parser("run", help="run the operator alone", description=RUN)
    run.add_argument("--config", type=Path, required=True, help="YAML file with an OperatorConfiguration")
    _add_cluster(run)
    _add_place(run)
    run.add_argument("--webhook-url", default="", help="https://host:port the API server calls")
    run.add_argument("--install", action="store_true", help="create the namespace and apply the CRDs first")
    run.set_defaults(run=run_operator)
    install = actions.add_parser("install-crds", help="apply the CRDs", description=INSTALL)
    _add_cluster(install)
    install.set_defaults(run=install_crds)
    convert = actions.add_parser(
        "convert-config", help="convert a configuration of upstream's operator", description=CONVERT
    )
    convert.add_argument("file", type=Path, metavar="FILE", help="YAML or JSON")
    convert.add_argument(
        "--settings",
        action="store_true",
        help="print it in the form that `quarterdeck up --config` and `run --config` take",
    )
    convert.set_defaults(run=convert_configuration)
    check = actions.add_parser(
        "check-config", help="try a configuration on a cluster before it is applied", description=CHECK
    )
    check.add_argument("config", type=Path, metavar="FILE", help="as for `grove run --config`")
    _add_cluster(check)
    _add_place(check)
    check.add_argument(
        "--account",
        default="",
        metavar="NAME",
        help="the operator's service account, whose permissions are looked at (default: yours)",
    )
    check.set_defaults(run=check_configuration)
    backends = actions.add_parser("backends", help="list scheduler backends", description=BACKENDS)
    backends.set_defaults(run=list_backends)
    more = backends.add_subparsers(title="actions", metavar="ACTION", parser_class=_Arguments)
    reload = more.add_parser("reload", help="look for backends again", description=RELOAD)
    reload.add_argument("pid", type=int, help="process of the operator")
    reload.set_defaults(run=reload_backends)


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        help="kubeconfig of the cluster (default: $KUBECONFIG, the pod's, ~/.kube/config)",
    )
    parser.add_argument("--context", default="", help="context of the kubeconfig (default: its current one)")


def _add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--namespace", default="grove-system", help="namespace of the operator (default: %(default)s)"
    )
    parser.add_argument(
        "--watch-namespaces",
        type=lambda text: tuple(dict.fromkeys(text.split(","))),
        default=(),
        metavar="NAME,NAME",
        help="serve these only, and leave the others to other installations (default: all)",
    )


def run_operator(arguments: argparse.Namespace) -> int:
    import uvloop

    from quarterdeck.operators.grove.program import GroveProgram, RunOptions, exit_code_of
    from quarterdeck.runtime.log import configure

    program = GroveProgram(
        RunOptions(
            config=arguments.config,
            kubeconfig=str(arguments.kubeconfig or ""),
            context=arguments.context,
            namespace=arguments.namespace,
            watch_namespaces=arguments.watch_namespaces,
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


def check_configuration(arguments: argparse.Namespace) -> int:
    from quarterdeck.operators.grove.program import GroveProgram, RunOptions
    from quarterdeck.operators.grove.rehearsal import rehearse
    from quarterdeck.runtime.log import configure

    configure(level="ERROR")
    program = GroveProgram(
        RunOptions(
            config=arguments.config,
            kubeconfig=str(arguments.kubeconfig or ""),
            context=arguments.context,
            namespace=arguments.namespace,
            watch_namespaces=arguments.watch_namespaces,
        )
    )
    return asyncio.run(rehearse(program, account=arguments.account, tell=print))


def install_crds(arguments: argparse.Namespace) -> int:
    from quarterdeck.client import Client, Config
    from quarterdeck.operators.grove.types import definitions
    from quarterdeck.runtime.operator.install import install_definitions

    async def install() -> None:
        config = Config.load(str(arguments.kubeconfig or ""), context=arguments.context)
        async with Client.connect(config) as client:
            await install_definitions(client, *definitions())

    asyncio.run(install())
    for each in definitions():
        print(f"customresourcedefinition.apiextensions.k8s.io/{each['metadata']['name']} applied")
    return 0


def convert_configuration(arguments: argparse.Namespace) -> int:
    import yaml

    from quarterdeck.operators.grove.backends import default_registry
    from quarterdeck.operators.grove.configuration import effective_document, load_file

    document = effective_document(load_file(arguments.file, default_registry))
    if arguments.settings:
        document = {"operators": {"grove": document}}
    print(yaml.safe_dump(document, sort_keys=False), end="")
    return 0


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


def reload_backends(arguments: argparse.Namespace) -> int:
    try:
        os.kill(arguments.pid, signal.SIGHUP)
    except OSError as error:
        raise ConfigError(f"process {arguments.pid}: {error.strerror}") from error
    return 0
