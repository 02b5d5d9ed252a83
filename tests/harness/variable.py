"""Variables of a case: `${name}` in requests and expectations, values saved from answers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_INDEX = re.compile(r"\[(\d+)\]")


def substitute(value: Any, variables: Mapping[str, Any]) -> Any:
    """`value` with every `${name}` replaced, in keys too; unknown names stay as they are."""
    if isinstance(value, str):
        if "${" not in value:
            return value
        return _REFERENCE.sub(lambda match: _text(match, variables), value)
    if isinstance(value, list):
        return [substitute(item, variables) for item in value]
    if isinstance(value, dict):
        return {substitute(key, variables): substitute(item, variables) for key, item in value.items()}
    return value


def _text(match: re.Match[str], variables: Mapping[str, Any]) -> str:
    name = match.group(1)
    if name not in variables:
        return match.group(0)
    value = variables[name]
    return value if isinstance(value, str) else json.dumps(value)


def unresolved(value: Any) -> list[str]:
    """Names of the references that are still in `value`."""
    if isinstance(value, str):
        return _REFERENCE.findall(value)
    if isinstance(value, list):
        return [name for item in value for name in unresolved(item)]
    if isinstance(value, dict):
        return [name for item in value.items() for name in unresolved(list(item))]
    return []


def lookup(document: Any, path: str) -> Any:
    """The value at a dotted path (`metadata.uid`, `items.0.metadata.name`, `items[0].spec`).

    Raises KeyError when there is nothing at the path.
    """
    value = document
    for part in _INDEX.sub(r".\1", path).split("."):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            raise KeyError(path)
    return value
