"""The conversion webhook: ConversionReview in, ConversionReview out.

One bad object fails the review, and a failed answer holds no objects. The answer always carries kind,
apiVersion and, where it could be read, the uid, so that users see the reason and not a complaint about the
envelope.

It does not go through the runtime's hub-and-spoke ``Conversion``: a lossless step needs to know both ends
(what the target loses of the source), and the provider configuration is read once per review, after all
objects have been looked at.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from quarterdeck.errors import QuarterdeckError
from quarterdeck.operators.nodegroup.logic.conversion import Batch
from quarterdeck.runtime.timeslice import TimeSlice
from quarterdeck.runtime.webhook.http import Request, Response

from .document import read_document
from .state import ClusterReader

API_VERSION: Final = "apiextensions.k8s.io/v1"
KIND: Final = "ConversionReview"
BODY_LIMIT: Final = 256 * 1024 * 1024
"""A list is converted in one review, however long it is."""
_EVERY: Final = 32
"""Objects between two looks at the clock."""


class _Request(msgspec.Struct, gc=False):
    uid: str = ""
    desired: str = msgspec.field(default="", name="desiredAPIVersion")
    objects: list[msgspec.Raw] | None = None


class _Review(msgspec.Struct, gc=False, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: _Request | None = None


_decode: Final = msgspec.json.Decoder(_Review).decode
_encode: Final = msgspec.json.Encoder().encode


class ConversionWebhook:
    """Serves ``/convert``; register it with ``server.register(names.CONVERT_PATH, webhook.handle)``."""

    def __init__(self, cluster: ClusterReader) -> None:
        self._cluster: Final = cluster

    async def handle(self, request: Request) -> Response:
        """Answer one HTTP request; always with 200, failures are inside the review."""
        if request.is_too_large:
            return Response(200, _failure("", "failed to read request body"))
        return Response(200, await self.answer(request.body))

    async def answer(self, body: bytes) -> bytes:
        """The answer to the body of a review."""
        try:
            review = _decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return _failure("", "failed to unmarshal conversion review")
        head = {"apiVersion": review.api_version or API_VERSION, "kind": review.kind or KIND}
        asked = review.request
        if asked is None:
            return _failure("", "conversion review request is nil", head)
        try:
            objects = await self._convert(asked)
        except QuarterdeckError as error:
            return _failure(asked.uid, str(error), head)
        result = {"uid": asked.uid, "convertedObjects": objects, "result": {"status": "Success"}}
        return _encode({**head, "response": result})

    async def _convert(self, asked: _Request) -> list[Any]:
        batch = Batch(asked.desired)
        turn = TimeSlice()
        answers: list[Any] = []
        for index, raw in enumerate(asked.objects or ()):
            document = read_document(raw)
            converted = batch.add(document)
            answers.append(raw if converted is document else converted)
            if index % _EVERY == 0:
                await turn.end()
        if batch.unresolved:
            batch.resolve(await self._cluster.permanent_groups())
        return answers


def _failure(uid: str, message: str, head: dict[str, str] | None = None) -> bytes:
    result = {"status": "Failure", "message": message}
    envelope = head if head is not None else {"apiVersion": API_VERSION, "kind": KIND}
    return _encode({**envelope, "response": {"uid": uid, "result": result}})
