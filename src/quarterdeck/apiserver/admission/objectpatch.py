"""JSON patches of webhooks and policies.

A client that sends a bad patch is told nothing; who wrote a webhook is told which operation failed,
in the words of the library upstream uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quarterdeck.api.jsonobject import Json
from quarterdeck.errors import PatchError
from quarterdeck.wire import gostyle
from quarterdeck.wire.patch import apply_json_patch

from .attributes import GroupVersionKind


def patched(document: Json, operations: Sequence[Any]) -> Json:
    """A copy of `document` with the operations applied; raises PatchError, TestFailed for a `test`."""
    for operation in operations:
        if not isinstance(operation, dict):
            raise PatchError("json: cannot unmarshal value into Go value of type jsonpatch.Operation")
    result: Json = apply_json_patch(document, operations)
    return result


def check_kind(obj: Json, kind: GroupVersionKind) -> None:
    """A patch may change everything but what the object is; raises PatchError."""
    api_version, name = obj.get("apiVersion") or "", obj.get("kind") or ""
    if (api_version, name) != (kind.api_version, kind.kind):
        raise PatchError(
            f"no kind {gostyle.quote(str(name))} is registered for version {gostyle.quote(str(api_version))} "
            'in scheme "pkg/runtime/scheme.go:111"'
        )
