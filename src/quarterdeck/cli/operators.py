"""Which operators a command runs, and with what settings: `--operators` and `--config`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from .argument import did_you_mean
from .error import CommandError

if TYPE_CHECKING:
    from quarterdeck.runtime.operator import Operator
    from quarterdeck.runtime.operator.settingsfile import SettingsFile

_NONE = "none"


def add_operator_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--operators",
        help=f"operators to run: comma-separated names, or {_NONE} (default: all that are installed)",
    )
    parser.add_argument(
        "--config", type=Path, help="YAML file with settings: operators: {NAME: {SETTING: VALUE}}"
    )


def add_watch_namespaces(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--watch-namespaces",
        type=lambda text: tuple(dict.fromkeys(text.split(","))),
        default=(),
        metavar="NAME,NAME",
        help="serve these only, and leave the others to other installations (default: all)",
    )


def chosen_operators(arguments: argparse.Namespace) -> list[Operator]:
    """The operators asked for; raises CommandError for a name nobody installed."""
    if arguments.operators == _NONE:
        return []
    from quarterdeck.runtime.operator import installed_operators

    installed = installed_operators()
    if arguments.operators is None:
        return list(installed.values())
    names = [name.strip() for name in arguments.operators.split(",") if name.strip()]
    for name in names:
        if name not in installed:
            known = ", ".join(installed) or "none"
            raise CommandError(f"no operator {name!r}; installed are: {known}{did_you_mean(name, installed)}")
    return [installed[name] for name in dict.fromkeys(names)]


def settings_of(arguments: argparse.Namespace) -> SettingsFile:
    """The settings of the operators and of the local node; raises ConfigError for an unusable file."""
    from quarterdeck.runtime.operator.settingsfile import read_settings

    return read_settings(arguments.config)
