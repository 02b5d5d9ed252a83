"""Arguments that are checked where they are read, so that a wrong one is reported in one line."""

from __future__ import annotations

import argparse
import difflib
import re
import socket
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

DOCS: Final = "https://quarterdeck.dev"
"""Where the pages are; ``{docs}`` in a help text stands for it."""
USUAL_PORT: Final = 6443
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_LONGEST_NAME: Final = 63
_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class HelpText(argparse.HelpFormatter):
    """Help whose examples stay as they are written, with commands in groups."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        filled = super()._fill_text
        paragraphs = text.replace("{docs}", DOCS).strip("\n").split("\n\n")
        return "\n\n".join(each if "\n  " in each else filled(each, width, indent) for each in paragraphs)

    def add_argument(self, action: argparse.Action) -> None:
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):  # argparse forgets how far commands are indented
            longest = max(map(len, action.choices), default=0) + 6
            self._action_max_length = max(self._action_max_length, longest)

    def _format_action(self, action: argparse.Action) -> str:
        groups = getattr(action, "groups", None)
        if not groups:
            return super()._format_action(action)
        text = ""
        for title, commands in groups.items():
            text += f"\n  {title}:\n"
            self._indent()
            text += "".join(map(super()._format_action, commands))
            self._dedent()
        return text.removeprefix("\n")


class LineParser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line, without all that would have been right."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": HelpText, **options})

    def end_group(self, title: str) -> None:
        """Put the commands that were added since the last call under a title of their own in the help."""
        for action in self._subparsers._group_actions if self._subparsers is not None else ():
            groups: dict[str, list[argparse.Action]] = vars(action).setdefault("groups", {})
            known = [command for commands in groups.values() for command in commands]
            groups[title] = [each for each in action._get_subactions() if each not in known]  # type: ignore[attr-defined]

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message} (see {self.prog} --help)", file=sys.stderr)
        sys.exit(2)

    def parse_known_args(  # type: ignore[override]  # the namespace is always one of argparse
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuses what it does not know: else the parser above would, which has another help text."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            option = next((each.partition("=")[0] for each in unknown if each.startswith("-")), "")
            self.error(
                f"unrecognized arguments: {' '.join(unknown)}"
                f"{did_you_mean(option, self._option_string_actions)}"
            )
        return found, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = [str(each) for each in action.choices]
        if isinstance(action, argparse._SubParsersAction):
            self.error(f"unknown command {value!r}{did_you_mean(str(value), choices)}")
        guess = did_you_mean(str(value), choices)
        raise argparse.ArgumentError(action, f"{value!r} is none of {', '.join(choices)}{guess}")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a message about a word that nobody knows: the one that was probably meant, if any."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""


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


def add_cluster_arguments(parser: argparse.ArgumentParser) -> None:
    """Which cluster a command talks to."""
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="kubeconfig of the cluster (default: $KUBECONFIG, the pod's, ~/.kube/config)",
    )
    parser.add_argument("--context", default="", help="context of the kubeconfig (default: its current one)")


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
