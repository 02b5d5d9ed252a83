"""Patch bodies as JSON, with the API server's words for those that are none."""

from __future__ import annotations

from typing import Any

from quarterdeck.apiserver.document import decoding
from quarterdeck.apiserver.status import bad_request


def decode_json(body: bytes, *, prefix: str = "") -> Any:
    """The decoded body; 400 with `prefix` and what is wrong with it."""
    try:
        return decoding.parse_json(body)
    except decoding.ParseError as error:
        raise bad_request(f"{prefix}{error}") from error


def go_kind(value: Any) -> str:
    """What Go's decoder calls a JSON value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def unmarshal_error(value: Any, target: str) -> str:
    """Go's error for a value of the wrong kind; `target` like `Go value of type []handlers.jsonPatchOp`."""
    return f"json: cannot unmarshal {go_kind(value)} into {target}"
