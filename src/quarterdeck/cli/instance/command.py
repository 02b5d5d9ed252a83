"""`quarterdeck down`, `logs` and `kubeconfig`: clusters that run on this machine."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from quarterdeck.cli.argument import add_cluster_arguments
from quarterdeck.cli.error import CommandError

_STOP_SECONDS = 60.0
_NAME = {
    "": "name of the cluster; needed if several run",
    "logs": "name of a cluster that was started with --detach, needed if several run; or a workload as "
    "`quarterdeck top` calls it, also with its kind: trainjob/resnet, jobset/resnet, pcs/chat",
}


def add_command(commands: Any) -> None:
    for name, run, text in (
        ("down", _down, "stop a cluster that runs on this machine"),
        ("logs", _logs, "show the log of a cluster that runs in the background, or of a workload"),
        ("kubeconfig", _kubeconfig, "print the kubeconfig of a cluster that runs on this machine"),
    ):
        parser = commands.add_parser(name, help=text, description=f"{text.capitalize()}.")
        parser.add_argument("name", nargs="?", default="", help=_NAME.get(name, _NAME[""]))
        if name == "logs":
            parser.add_argument(
                "-f", "--follow", action="store_true", help="show new lines until the cluster ends"
            )
            parser.add_argument(
                "-n",
                "--namespace",
                default="default",
                help="namespace of the workload (default: %(default)s)",
            )
            add_cluster_arguments(parser)
        parser.set_defaults(run=run)


def _down(arguments: argparse.Namespace) -> int:
    from .instance import find, forget, wait_until_ended

    instance = find(arguments.name)
    os.kill(instance.pid, signal.SIGTERM)
    if not wait_until_ended(instance, _STOP_SECONDS):
        why = f"it has not stopped within {_STOP_SECONDS:.0f} s"
        raise CommandError(f"{instance.name}: {why}; end it with: kill -9 {instance.pid}")
    forget(instance.name, is_log_kept=False)
    print(f"stopped {instance.name}")
    return 0


def _kubeconfig(arguments: argparse.Namespace) -> int:
    import yaml

    from .instance import find

    print(yaml.safe_dump(find(arguments.name).kubeconfig, sort_keys=False), end="")
    return 0


def _logs(arguments: argparse.Namespace) -> int:
    from .instance import find, is_alive, running

    if arguments.name and all(each.name != arguments.name for each in running()):
        import asyncio

        from quarterdeck.client import Config

        from .workloadlog import print_logs

        config = Config.load(arguments.kubeconfig or "", context=arguments.context)
        return asyncio.run(print_logs(config, arguments.name, arguments.namespace))
    instance = find(arguments.name)
    if not instance.log:
        raise CommandError(f"{instance.name} writes its log where it was started, not to a file")
    with Path(instance.log).open() as log:
        while True:
            text = log.read()
            sys.stdout.write(text)
            sys.stdout.flush()
            if not arguments.follow or not (text or is_alive(instance)):
                return 0
            if not text:
                time.sleep(0.2)
