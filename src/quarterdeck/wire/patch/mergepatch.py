"""JSON merge patch (RFC 7386) with the behaviour of the library that Kubernetes uses.

null deletes; objects are merged; everything else replaces. Where an object is new, nulls inside it are
dropped, also inside the lists it holds.
"""

from __future__ import annotations

from typing import Any

from quarterdeck.api.jsonobject import Json
from quarterdeck.wire.jsonvalue import deep_copy, equal, without_nulls


def apply_merge_patch(document: Json, patch: Json) -> Json:
    """`document` with the patch applied; what did not change is shared with it, nothing with the patch."""
    out = dict(document)
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
            continue
        current = out.get(key)
        if isinstance(current, dict):
            out[key] = apply_merge_patch(current, value) if isinstance(value, dict) else deep_copy(value)
        else:
            out[key] = without_nulls(value)
    return out


def merge_patch(before: Json, after: Json) -> Json:
    """The document that turns one object into the other; empty when they are equal.

    A key with the value ``null`` cannot be told from a missing one: that is the format's limit, so here
    they count as the same. Parts of ``after`` may be shared with the patch.
    """
    patch: Json = {}
    for key, old in before.items():
        new = after.get(key)
        if old is None or old is new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            inner = merge_patch(old, new)
            if inner:
                patch[key] = inner
        elif not equal(old, new):
            patch[key] = _given(new)
    for key, new in after.items():
        if new is not None and before.get(key) is None:
            patch[key] = _given(new)
    return patch


def _given(value: Any) -> Any:
    """A new value without the nulls that would delete; in lists, which are replaced whole, they stay."""
    if isinstance(value, dict):
        return {key: _given(item) for key, item in value.items() if item is not None}
    return value
