"""Arguments and subcommands. Each command lives in a module of its own and is imported when it is used.

Installed distributions bring more commands through the entry point group ``quarterdeck.commands``, which
names a function that takes what ``argparse`` adds subparsers to::

    [project.entry-points."quarterdeck.commands"]
    ipam = "quarterdeck.operators.ipam.command:add_command"
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Sequence
from typing import Any, Final

from quarterdeck import __version__
from quarterdeck.errors import QuarterdeckError

from . import (
    apiserver,
    bench,
    completion,
    examples,
    finalizers,
    image,
    manifests,
    new,
    run,
    status,
    top,
    torture,
    uninstall,
    up,
)
from .argument import LineParser
from .check import command as check
from .collector import relax_collector
from .dashboard import command as dashboard
from .demo import command as demo
from .instance import command as running
from .localnode import command as node
from .nodes import command as nodecommand
from .usage import epilog

ENTRY_POINTS: Final = "quarterdeck.commands"
_OWN: Final = {
    "a cluster on this machine": (up, status, running, demo, examples, nodecommand, node, image),
    "a real cluster": (run, manifests, uninstall, finalizers),
    "look at any cluster": (dashboard, top, check),
    "develop": (new, apiserver, torture, bench, completion),
}
"""Modules with commands of this package, in the groups and in the order of the help text."""
_INSTALLED: Final = "operators"
_EPILOG: Final = """\
examples:
  quarterdeck demo                      # a cluster with all examples, shown live
  quarterdeck up --nodes 2 --detach     # a cluster for kubectl, until `quarterdeck down`

docs: {docs}/quickstart/
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    if argv is None:  # it is the program, not a part of one
        relax_collector()
    words = sys.argv[1:] if argv is None else argv
    parser = _parser(words)
    if not words:
        parser.print_help()
        return 0
    arguments = parser.parse_args(words)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()  # here, where an error is still handled
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        if not _has_lost_its_reader():
            raise
        return 141
    except QuarterdeckError as error:
        print(f"quarterdeck: {error}", file=sys.stderr)
        return 1
    return code


def _has_lost_its_reader() -> bool:
    """Whether nobody reads standard output any more, as in ``... | head``; nothing goes there then."""
    output, look = sys.stdout.fileno(), select.poll()
    look.register(output, 0)  # errors are told without being asked for
    if not look.poll(0):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), output)
    return True


def _parser(words: Sequence[str]) -> LineParser:
    parser = LineParser(prog="quarterdeck", description="The control plane of an AI cluster.", epilog=_EPILOG)
    parser.add_argument("--version", action="version", version=f"quarterdeck {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for group, modules in _OWN.items():
        for command in modules:
            command.add_command(commands)
        parser.end_group(group)
    for name, each in commands.choices.items():
        each.epilog = epilog(name)
    asked = next((word for word in words if not word.startswith("-")), None)
    if asked not in commands.choices:
        _add_installed(commands)
        parser.end_group(_INSTALLED)
    parser.set_defaults(whole_parser=lambda: _parser(()))  # with every command, for completion
    return parser


def _add_installed(commands: Any) -> None:
    """Commands of installed distributions; looked for only when none of our own is asked for."""
    from importlib.metadata import entry_points  # slow to load

    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda each: each.name):
        point.load()(commands)
