"""Arguments that are checked where they are read, so that a wrong one is reported in one line."""

from __future__ import annotations

import argparse
import re
import socket
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

USUAL_PORT: Final = 6443
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_LONGEST_NAME: Final = 63
_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class LineParser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line, without all that would have been right."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message} (see {self.prog} --help)", file=sys.stderr)
        sys.exit(2)

    def parse_known_args(  # type: ignore[override]  # the namespace is always one of argparse
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuses what it does not know: else the parser above would, which has another help text."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown


def port_number(text: str) -> int:
    """A TCP port, or 0."""
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 to 65535")
    return number


def cluster_name(text: str) -> str:
    """A name for a cluster: it becomes a context and the name of files."""
    if text and (len(text) > _LONGEST_NAME or not _NAME.fullmatch(text)):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no name: at most {_LONGEST_NAME} lower-case letters, digits and '-', "
            "which is neither first nor last"
        )
    return text


def log_level(text: str) -> str:
    """A level's name, in any case."""
    if text.upper() not in _LEVELS:
        raise argparse.ArgumentTypeError(f"{text!r} is no level: {', '.join(_LEVELS)}")
    return text.upper()


def add_log_level(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument(
        "--log-level",
        type=log_level,
        default=default,
        metavar="LEVEL",
        help=f"{', '.join(_LEVELS)} (default: {default})",
    )


def free_port(host: str, wanted: int) -> int:
    """The port if it is free, else 0. Blocking."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, wanted))
        except OSError:
            return 0
    return wanted
