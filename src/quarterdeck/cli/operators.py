"""Which operators a command runs, and with what settings: `--operators` and `--config`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .error import CommandError

if TYPE_CHECKING:
    from quarterdeck.runtime.operator import Operator

_NONE = "none"


def add_operator_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--operators", help=f"comma-separated names, or {_NONE} (default: all that are installed)"
    )
    parser.add_argument(
        "--config", type=Path, help="YAML file with settings: operators: {NAME: {SETTING: VALUE}}"
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
            raise CommandError(f"no operator {name!r}; installed are: {', '.join(installed) or 'none'}")
    return [installed[name] for name in dict.fromkeys(names)]


def operator_settings(arguments: argparse.Namespace) -> Mapping[str, Mapping[str, Any]]:
    """The settings of each operator; raises CommandError for a file that cannot be used."""
    return _read_config(arguments.config)[0]


def node_config(arguments: argparse.Namespace) -> Mapping[str, Any]:
    """The settings of the local node; raises CommandError for a file that cannot be used."""
    return _read_config(arguments.config)[1]


def _read_config(path: Path | None) -> tuple[Mapping[str, Mapping[str, Any]], Mapping[str, Any]]:
    if path is None:
        return {}, {}
    import msgspec
    import yaml

    class ConfigFile(msgspec.Struct, forbid_unknown_fields=True):
        operators: dict[str, dict[str, Any]] = {}
        node: dict[str, Any] = {}

    try:
        document = yaml.safe_load(path.read_text())
        found = msgspec.convert(document or {}, ConfigFile)
        return found.operators, found.node
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise CommandError(f"{path}: {error}") from error
