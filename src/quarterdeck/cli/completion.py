"""`quarterdeck completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from typing import Any

from .error import CommandError

DESCRIPTION = """\
Print a completion script. For bash and zsh: `source <(quarterdeck completion bash)` (or zsh) in ~/.bashrc or
~/.zshrc. For fish: `quarterdeck completion fish | source` in ~/.config/fish/config.fish.
"""
SHELLS = ("bash", "zsh", "fish", "tcsh")


def add_command(commands: Any) -> None:
    parser = commands.add_parser(
        "completion", help="print a completion script for your shell", description=DESCRIPTION
    )
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    if find_spec("shtab") is None:
        raise CommandError("completion needs shtab: pip install 'quarterdeck[terminal]'")
    import shtab

    print(_sourced(shtab.complete(arguments.whole_parser(), shell=arguments.shell)))
    return 0


def _sourced(script: str) -> str:
    """Let zsh register the completion when it sources the script; shtab expects `eval` or $fpath only."""
    return script.replace("$zsh_eval_context[-1] == eval ", "$zsh_eval_context[-1] == (eval|file) ")
