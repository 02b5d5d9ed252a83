"""The paths of a scale subresource in a custom resource: replica counts and the label selector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.wire.fielderror import FieldError, invalid

from .number import INT32_MAX, as_float, is_int64, text

_GO_TYPES: Final = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    list: "[]interface {}",
    dict: "map[string]interface {}",
    type(None): "<nil>",
}


def scale_errors(obj: Json, scale: Mapping[str, Any], *, with_spec: bool) -> list[FieldError]:
    """Values at the scale paths that the subresource could not show. A write to /status leaves spec out."""
    errors: list[FieldError] = []
    for name in ("specReplicasPath", "statusReplicasPath") if with_spec else ("statusReplicasPath",):
        errors += _replicas_errors(obj, scale.get(name) or "")
    selector = scale.get("labelSelectorPath")
    if isinstance(selector, str):
        found, value, problem = _lookup(obj, selector)
        if found and type(value) is not str:
            problem = _wrong_type(_keys(selector), value, "string")
        if problem:
            errors.append(invalid(selector, "", problem))
    return errors


def _replicas_errors(obj: Json, path: str) -> list[FieldError]:
    found, value, problem = _lookup(obj, path)
    if found and not is_int64(value):
        problem = _wrong_type(_keys(path), value, "int64")
    if problem:
        return [invalid(path, 0, problem)]
    if not found:
        return []
    if value < 0:
        return [invalid(path, value, "should be a non-negative integer")]
    if value > INT32_MAX:
        return [invalid(path, value, f"should be less than or equal to {INT32_MAX}")]
    return []


def _keys(path: str) -> list[str]:
    return path.removeprefix(".").split(".")


def _lookup(obj: Json, path: str) -> tuple[bool, Any, str]:
    """Whether there is a value at a path, the value, and what is in the way of it."""
    value: Any = obj
    keys = _keys(path)
    for index, key in enumerate(keys):
        if value is None:
            return False, None, ""
        if type(value) is not dict:
            return False, None, _wrong_type(keys[: index + 1], value, "map[string]interface{}")
        if key not in value:
            return False, None, ""
        value = value[key]
    return True, value, ""


def _wrong_type(keys: list[str], value: Any, expected: str) -> str:
    kind = "float64" if type(value) is int and not is_int64(value) else _GO_TYPES.get(type(value), "")
    return f".{'.'.join(keys)} accessor error: {_plain(value)} is of the type {kind}, expected {expected}"


def _plain(value: Any) -> str:
    """A value as Go's `%v` prints it."""
    if isinstance(value, str):
        return value
    if value is None:
        return "<nil>"
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{_plain(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(_plain, value)) + "]"
    if value is True or value is False:
        return "true" if value else "false"
    return text(value if is_int64(value) else as_float(value))
