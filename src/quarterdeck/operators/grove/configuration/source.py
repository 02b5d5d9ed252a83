"""Where an OperatorConfiguration may stand: alone, in upstream's ConfigMap or values, or among settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import yaml

from quarterdeck.api.jsonobject import Json
from quarterdeck.errors import ConfigError
from quarterdeck.operators.grove import names

_FILE: Final = "config.yaml"
"""The key of the ConfigMap that the chart makes."""


def configuration_in(document: Mapping[str, Any]) -> Json:
    """The OperatorConfiguration that a document is or holds; raises ``ConfigError``."""
    kind = document.get("kind")
    if kind == "ConfigMap":
        return _in_config_map(document)
    if kind is None and isinstance(document.get("config"), Mapping):
        return _of_values(document["config"])
    if kind is None and isinstance(document.get("operators"), Mapping):
        # as `up --config` and `run --config` take it, with other operators beside this one
        return dict(document["operators"].get("grove") or {})
    return dict(document)


def _in_config_map(document: Mapping[str, Any]) -> Json:
    text = (document.get("data") or {}).get(_FILE)
    if not isinstance(text, str):
        raise ConfigError(f"the ConfigMap has no {_FILE} with an {names.CONFIG_KIND}")
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{_FILE} of the ConfigMap: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{_FILE} of the ConfigMap: expected an {names.CONFIG_KIND}")
    return found


def _of_values(config: Mapping[str, Any]) -> Json:
    """Values without what only the chart's own templates look at."""
    made: Json = {"apiVersion": names.CONFIG_API_VERSION, "kind": names.CONFIG_KIND, **config}
    probes = (made.get("server") or {}).get("healthProbes")
    if isinstance(probes, Mapping) and "enable" in probes:
        kept = {key: value for key, value in probes.items() if key != "enable"}
        made["server"] = {**made["server"], "healthProbes": kept}
    return made
