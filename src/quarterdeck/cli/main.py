"""Arguments and subcommands. Each command lives in a module of its own and is imported when it is used."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from quarterdeck import __version__

from . import apiserver, bench, convert, demo, grove, ipam, manifests, run, up
from .error import CommandError


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
    except KeyboardInterrupt:
        return 130
    except CommandError as error:
        print(f"quarterdeck: {error}", file=sys.stderr)
        return 1
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="quarterdeck", description="The control plane of an AI cluster.")
    parser.add_argument("--version", action="version", version=f"quarterdeck {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (up, apiserver, run, manifests, demo, bench, convert, grove, ipam):
        command.add_command(commands)
    return parser
