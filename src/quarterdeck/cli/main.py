"""Arguments and subcommands. Each command lives in a module of its own and is imported when it is used."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Sequence

from quarterdeck import __version__

from . import (
    apiserver,
    bench,
    convert,
    demo,
    finalizers,
    grove,
    ipam,
    manifests,
    new,
    run,
    running,
    scheduler,
    up,
)
from .argument import LineParser
from .error import CommandError


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()  # here, where an error is still handled
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        if not _has_lost_its_reader():
            raise
        return 141
    except CommandError as error:
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


def _parser() -> LineParser:
    parser = LineParser(prog="quarterdeck", description="The control plane of an AI cluster.")
    parser.add_argument("--version", action="version", version=f"quarterdeck {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (
        up,
        running,
        apiserver,
        run,
        manifests,
        demo,
        bench,
        new,
        finalizers,
        convert,
        grove,
        ipam,
        scheduler,
    ):
        command.add_command(commands)
    return parser
