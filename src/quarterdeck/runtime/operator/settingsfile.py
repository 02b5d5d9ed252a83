"""The file of `--config`: settings of operators, and of the local node."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from quarterdeck.errors import ConfigError, reason_of


class SettingsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a settings file says; each part is checked by whom it is for."""

    operators: Mapping[str, Mapping[str, Any]] = {}
    node: Mapping[str, Any] = {}


def read_settings(path: Path | None) -> SettingsFile:
    """The settings of a file, none without one; raises ConfigError for a file that cannot be used."""
    if path is None:
        return SettingsFile()
    import yaml

    try:
        return msgspec.convert(yaml.safe_load(path.read_text()) or {}, SettingsFile)
    except (OSError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path}: {reason_of(error)}") from error
