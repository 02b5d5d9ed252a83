"""JSON patch of a request."""

from __future__ import annotations

from typing import Any, Final

from quarterdeck.apiserver.document.unmarshal import decode_json, unmarshal_error
from quarterdeck.apiserver.status import StatusError, bad_request, rejected, too_large
from quarterdeck.errors import PatchError
from quarterdeck.wire.patch import apply_json_patch

Operation = dict[str, Any]

MAX_OPERATIONS: Final = 10_000
_FIELDS: Final = frozenset(["op", "path", "from", "value"])


def decode(body: bytes) -> list[Operation]:
    """The operations of a patch body: 400 if it is no list of operations, 413 if there are too many."""
    patch = decode_json(body, prefix="error decoding patch: ")
    if patch is None:
        return []
    if not isinstance(patch, list):
        raise _undecodable(patch, "Go value of type []handlers.jsonPatchOp")
    if None in patch:  # decodes, but into nothing that can be done
        raise rejected()
    for operation in patch:
        if not isinstance(operation, dict):
            raise _undecodable(operation, "Go value of type handlers.jsonPatchOp")
        for name in ("op", "path", "from"):
            text = operation.get(name)
            if text is not None and not isinstance(text, str):
                raise _undecodable(text, f"Go struct field jsonPatchOp.{name} of type string")
    if len(patch) > MAX_OPERATIONS:
        raise too_large(
            "Request entity too large: The allowed maximum operations in a JSON patch is"
            f" {MAX_OPERATIONS}, got {len(patch)}"
        )
    return patch


def unknown_fields(operations: list[Operation]) -> list[str]:
    """What field validation says about fields that no operation has."""
    return [
        f'json patch unknown field "[{index}].{name}"'
        for index, operation in enumerate(operations)
        for name in operation
        if name not in _FIELDS
    ]


def apply(document: Any, operations: list[Operation]) -> Any:
    """A copy of `document` with the operations applied; errors carry no detail, as upstream's."""
    try:
        return apply_json_patch(document, operations)
    except PatchError as error:
        raise rejected() from error


def _undecodable(value: Any, target: str) -> StatusError:
    return bad_request("error decoding patch: " + unmarshal_error(value, target))
