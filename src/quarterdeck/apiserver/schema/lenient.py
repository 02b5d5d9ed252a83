"""Reads of a JSON schema that may be anything: what has the wrong type is absent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def text(raw: Mapping[str, Any], key: str) -> str:
    value = raw.get(key)
    return value if isinstance(value, str) else ""


def items_of(raw: Mapping[str, Any], key: str) -> list[Any]:
    value = raw.get(key)
    return value if isinstance(value, list) else []


def strings(raw: Mapping[str, Any], key: str) -> list[str]:
    return [value for value in items_of(raw, key) if isinstance(value, str)]
