"""`quarterdeck bench`: the benchmarks, each against its peer in the same run."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

from .error import CommandError


def add_command(commands: Any) -> None:
    parser = commands.add_parser(
        "bench",
        help="run the benchmarks, each against its peer",
        description="Run the benchmarks of a source tree, with their own options: bench apiserver --quick",
    )
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="NAME [OPTION...]")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    root = next(
        (parent for parent in (Path.cwd(), *Path(__file__).resolve().parents) if _has_benchmarks(parent)),
        None,
    )
    if root is None:
        raise CommandError("the benchmarks are part of the source tree: run this in a checkout")
    command = [sys.executable, "-m", "benchmarks", *arguments.rest]
    return subprocess.run(command, cwd=root, check=False).returncode  # noqa: S603  our own modules


def _has_benchmarks(folder: Path) -> bool:
    return (folder / "benchmarks" / "__main__.py").is_file()
