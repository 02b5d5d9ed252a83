"""The body of a PATCH: its type, and the change it describes."""

from __future__ import annotations

from typing import Any

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.builtin.builtinresource import BuiltinResource
from quarterdeck.apiserver.document import decoding
from quarterdeck.apiserver.registry.patch import jsonpatch, merge, strategic
from quarterdeck.apiserver.registry.request import ApiRequest
from quarterdeck.apiserver.resource.resource import Resource
from quarterdeck.wire import fielderror
from quarterdeck.wire.gostyle import plain
from quarterdeck.wire.jsonvalue import deep_copy
from quarterdeck.wire.patch import apply_merge_patch

_encode = msgspec.json.Encoder(order="sorted").encode
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_YAML = "application/apply-patch+yaml"


class PatchBody:
    """A JSON, merge or strategic patch, parsed once and applied as often as the write is retried."""

    def __init__(self, media: str, body: bytes) -> None:
        self._media = media
        self._body = body
        self._is_decoded = False
        #: what field validation has to say about the patch itself
        self.duplicates: list[str] = []
        self.unknown: list[str] = []
        self._patch: Any = None

    def _decode(self) -> None:
        """Not before there is something to patch: a missing object matters more than a bad patch."""
        self._is_decoded = True
        if self._media == JSON_PATCH:
            self._patch = jsonpatch.decode(self._body)
            self.unknown = jsonpatch.unknown_fields(self._patch)
            return
        self._patch = merge.decode(self._body) if self._media == MERGE_PATCH else strategic.decode(self._body)
        self.duplicates = decoding.duplicate_fields(self._body, self._patch)

    def invalid(self, patched: Json, why: str) -> status.StatusError:
        """422 for a result that cannot be decoded. A strategic patch goes straight into Go values."""
        if self.is_strategic:
            return invalid_patch(plain(self._patch), why)
        return invalid_patch(_encode(patched).decode(), why)

    @property
    def is_strategic(self) -> bool:
        return self._media == STRATEGIC_PATCH

    def may_share(self, request: ApiRequest) -> bool:
        """Whether the result may have parts of the old object itself.

        Of built-in kinds only where all but the status is taken from the old object anyway: elsewhere others
        write into the result.
        """
        if self._media == MERGE_PATCH and request.resource.is_custom:
            return True
        return self._media in (MERGE_PATCH, STRATEGIC_PATCH) and request.info.subresource == "status"

    def apply(self, old: Json, resource: Resource, *, shares: bool = False) -> Any:
        """The patched object; `shares`: what the patch does not change may be that of `old` itself."""
        if not self._is_decoded:
            self._decode()
        if self._media == JSON_PATCH:
            return jsonpatch.apply(old, self._patch)
        if self._media == MERGE_PATCH:
            return apply_merge_patch(old if shares else deep_copy(old), self._patch)
        assert isinstance(resource, BuiltinResource)
        return strategic.apply(old if shares else deep_copy(old), self._patch, resource.struct)


def invalid_patch(shown: str, why: str) -> status.StatusError:
    """422 for a patch whose result cannot be decoded; upstream names neither kind nor object."""
    error = fielderror.invalid("patch", shown, why)
    return status.StatusError(
        422,
        f' "" is invalid: {error}',
        reason="Invalid",
        details={"causes": [error.cause()]},
    )


def check_patch_type(media: str, *, is_custom: bool) -> None:
    if media in (JSON_PATCH, MERGE_PATCH, APPLY_YAML) or (media == STRATEGIC_PATCH and not is_custom):
        return
    if not is_custom:
        raise status.StatusError(
            415, "415: Unsupported Media Type", reason="UnsupportedMediaType", details={}
        )
    raise status.unsupported_media_type(
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join((JSON_PATCH, MERGE_PATCH, APPLY_YAML))
    )
