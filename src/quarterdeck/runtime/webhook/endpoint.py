"""From an HTTP request to an AdmissionReview answer.

Everything a client can get wrong is answered inside a review with HTTP 200, as the API server expects: its
user then reads the reason instead of "the server could not understand". What a handler raises is turned into
the table of ``quarterdeck.runtime.webhook.admission``.
"""

import asyncio
from base64 import b64encode
from collections.abc import Awaitable
from typing import Any, Final

import msgspec

from quarterdeck.api import encode
from quarterdeck.api.codec import decode_json
from quarterdeck.errors import ApiError, QuarterdeckError, SchemaError, Timeout
from quarterdeck.runtime.log.field import LazyFields, get_logger
from quarterdeck.runtime.loop.supervision import Stray, contained, isolated
from quarterdeck.runtime.metrics import Counter
from quarterdeck.runtime.webhook.admission import Admission, Denied
from quarterdeck.runtime.webhook.handler import AdmissionWebhook
from quarterdeck.runtime.webhook.review import VERSIONS, BadReview, read_review
from quarterdeck.wire.http import MIB, Request, Response
from quarterdeck.wire.patch import json_patch

BODY_LIMIT: Final = 7 * MIB
"""Two objects of at most 3 MiB and their frame."""

_log: Final = get_logger(__name__)
_ALLOWED: Final = (
    b'{"kind":"AdmissionReview","apiVersion":"%s","response":'
    b'{"uid":%s,"allowed":true,"status":{"metadata":{},"code":200}}}\n'
)
_VERSION_BYTES: Final = {version: version.encode() for version in VERSIONS}
_quote: Final = msgspec.json.Encoder().encode


class AdmissionEndpoint:
    """Serves one admission handler."""

    def __init__(self, webhook: AdmissionWebhook, *, panics: Counter | None = None) -> None:
        """``panics`` counts what handlers raise unexpectedly."""
        self._webhook: Final = webhook
        self._panics: Final = panics if panics is not None else Counter()
        self._lets_deleting_pass: Final = not webhook.is_mutating and not webhook.settings.sees_deleting
        gvk = webhook.gvk
        self._group: Final = gvk.group if gvk is not None else ""
        self._kind: Final = gvk.kind if gvk is not None else ""

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        """Answer one request; a handler that needs to wait makes it a coroutine."""
        problem = check_request(request)
        if problem is not None:
            code, message = problem
            _log.warning("bad admission request", reason=message)
            return Response(200, _answer(VERSIONS[0], "", False, {"message": message, "code": code}))
        try:
            version, asked = read_review(request.body)
        except BadReview as error:
            _log.warning("bad admission request", reason=str(error))
            status = {"message": str(error), "code": 400}
            return Response(200, _answer(error.api_version, error.uid, False, status))
        admission = Admission(asked)
        with LazyFields(lambda: admission.log_fields(self._kind, self._group)):
            try:
                if self._lets_deleting_pass and admission.is_deleting:
                    return Response(200, self._accept(version, admission))
                pending = self._webhook.review(admission)
                if pending is None:
                    return Response(200, self._accept(version, admission))
            except BaseException as raised:  # noqa: BLE001  supervision point: one request never ends the server
                return Response(200, self._refuse(version, admission, contained(raised)))
        return self._wait(version, admission, pending)

    async def _wait(self, version: str, admission: Admission, pending: Awaitable[None]) -> Response:
        with LazyFields(lambda: admission.log_fields(self._kind, self._group)):
            try:
                async with asyncio.timeout(self._webhook.settings.timeout) as limit:
                    await isolated(pending)
                return Response(200, self._accept(version, admission))
            except BaseException as raised:  # noqa: BLE001  supervision point: one request never ends the server
                error = contained(raised)
                if limit.expired():
                    seconds = self._webhook.settings.timeout
                    error = Timeout(f"the webhook did not come to an end within {seconds} s")
                return Response(200, self._refuse(version, admission, error))

    def _accept(self, version: str, admission: Admission) -> bytes:
        plain = not admission.warnings and not admission.audit_annotations and not admission.message
        if plain and admission.patched is None:
            return _ALLOWED % (_VERSION_BYTES[version], _quote(admission.uid))
        status: dict[str, Any] = {"metadata": {}, "code": 200}
        if admission.message:
            status["message"] = admission.message
        operations: list[dict[str, Any]] = []
        if admission.patched is not None:
            operations = json_patch(decode_json(admission.raw_object), decode_json(admission.patched))
        return _answer(version, admission.uid, True, status, admission, operations)

    def _refuse(self, version: str, admission: Admission, error: Exception) -> bytes:
        status: dict[str, Any]
        if isinstance(error, Denied):
            status = {"metadata": {}, "message": str(error), "reason": "Forbidden", "code": 403}
            if error.causes:
                status["details"] = {"causes": [cause.to_dict() for cause in error.causes]}
        elif isinstance(error, ApiError):
            status = error.to_status()
        elif isinstance(error, SchemaError):
            status = {"metadata": {}, "message": str(error), "code": 400}
        elif isinstance(error, QuarterdeckError) and not isinstance(error, Stray):
            _log.error("admission failed", error, trace=False)
            status = {"metadata": {}, "message": str(error), "code": 500}
        else:
            self._panics.inc()
            _log.error("Observed a panic in webhook", error)
            text = str(error) or type(error).__name__
            status = {"metadata": {}, "message": f"panic: {text} [recovered]", "code": 500}
        return _answer(version, admission.uid, False, status, admission)


def check_request(request: Request) -> tuple[int, str] | None:
    """What is wrong with a request before its body is looked at: a code and a message."""
    if request.is_too_large:
        return 413, f"request entity is too large; limit is {BODY_LIMIT} bytes"
    if not request.body:
        return 400, "request body is empty"
    content_type = request.header("content-type")
    if content_type != "application/json":
        return 400, f"contentType={content_type}, expected application/json"
    return None


def _answer(
    version: str,
    uid: str,
    allowed: bool,
    status: dict[str, Any],
    admission: Admission | None = None,
    operations: list[dict[str, Any]] | None = None,
) -> bytes:
    response: dict[str, Any] = {"uid": uid, "allowed": allowed, "status": status}
    if operations:
        response["patch"] = b64encode(encode(operations)).decode()
        response["patchType"] = "JSONPatch"
    if admission is not None:
        if admission.audit_annotations:
            response["auditAnnotations"] = admission.audit_annotations
        if admission.warnings:
            response["warnings"] = admission.warnings
    return encode({"kind": "AdmissionReview", "apiVersion": version, "response": response}) + b"\n"
