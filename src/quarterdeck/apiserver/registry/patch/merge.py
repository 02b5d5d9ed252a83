"""Merge patch of a request."""

from __future__ import annotations

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.document.unmarshal import decode_json, unmarshal_error
from quarterdeck.apiserver.status import bad_request


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
