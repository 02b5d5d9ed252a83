"""`quarterdeck completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from typing import Any

from .error import CommandError

DESCRIPTION = """\
Print a completion script: for bash, `eval "$(quarterdeck completion bash)"` in ~/.bashrc; for zsh, write it
to a file named _quarterdeck in a folder of $fpath.
"""
SHELLS = ("bash", "zsh", "tcsh")


def add_command(commands: Any) -> None:
    parser = commands.add_parser("completion", help="completion for your shell", description=DESCRIPTION)
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    if find_spec("shtab") is None:
        raise CommandError("completion needs shtab: pip install 'quarterdeck[terminal]'")
    import shtab

    from .main import whole_parser

    print(shtab.complete(whole_parser(), shell=arguments.shell))
    return 0
