"""JSON merge patch (RFC 7386) with the behaviour of the library that Kubernetes uses.

null deletes; objects are merged; everything else replaces. Where an object is new, nulls inside it are
dropped, also inside the lists it holds.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from quarterdeck.apiserver.status import bad_request

from .decode import decode_json, unmarshal_error

__all__ = ["apply", "create_merge_patch", "decode"]

Json = dict[str, Any]


def decode(body: bytes) -> Json:
    """The patch in a body; 400 if it is no object."""
    patch = decode_json(body, prefix="error decoding patch: ")
    if patch is None:
        raise bad_request("Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise bad_request(
            "error decoding patch: " + unmarshal_error(patch, "Go value of type map[string]interface {}")
        )
    return patch


def apply(document: Json, patch: Json) -> Json:
    """`document` with the patch applied; what did not change is shared with it, nothing with the patch."""
    out = dict(document)
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
            continue
        current = out.get(key)
        if isinstance(current, dict):
            out[key] = apply(current, value) if isinstance(value, dict) else deepcopy(value)
        else:
            out[key] = _without_nulls(value)
    return out


def create_merge_patch(old: Json, new: Json) -> Json:
    """The patch that turns `old` into `new`, as far as a merge patch can: a null in `new` reads as absent."""
    patch: Json = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key not in old:
            patch[key] = value
        elif isinstance(value, dict) and isinstance(old[key], dict):
            below = create_merge_patch(old[key], value)
            if below:
                patch[key] = below
        elif not _equal(old[key], value):
            patch[key] = value
    return patch


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right) and isinstance(left, bool) is isinstance(right, bool)
