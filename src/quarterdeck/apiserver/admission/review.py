"""AdmissionReview: the question sent to a webhook and what its answer means.

Only the wire form lives here. The checks of an answer and their texts follow upstream's decoder
and `VerifyAdmissionResponse`; whoever calls a webhook decides what a failure does to the request.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.document.unmarshal import go_kind
from quarterdeck.errors import QuarterdeckError
from quarterdeck.wire import gostyle

from .attributes import Attributes
from .matching import Match
from .version import VersionedPair

KNOWN_VERSIONS: Final = ("v1", "v1beta1")
_encode = msgspec.json.Encoder().encode


class ReviewFault(QuarterdeckError):
    """An answer that cannot be used; `text` is what follows `failed calling webhook "<name>": `."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def request_facts(attributes: Attributes, match: Match) -> Json:
    """The part of an admission request that does not hold objects, as expressions see it."""
    facts: Json = {"kind": match.kind._asdict(), "resource": match.resource._asdict()}
    if attributes.subresource:
        facts["subResource"] = attributes.subresource
    facts["requestKind"] = attributes.gvk._asdict()
    facts["requestResource"] = attributes.gvr._asdict()
    if attributes.subresource:
        facts["requestSubResource"] = attributes.subresource
    if attributes.name:
        facts["name"] = attributes.name
    if attributes.namespace:
        facts["namespace"] = attributes.namespace
    facts["operation"] = attributes.operation
    facts["userInfo"] = attributes.user.to_json()
    return facts


def encode_review(attributes: Attributes, match: Match, pair: VersionedPair, uid: str, version: str) -> bytes:
    """The body to POST. `version` is an AdmissionReview version the webhook accepts."""
    return _encode(
        {
            "kind": "AdmissionReview",
            "apiVersion": f"admission.k8s.io/{version}",
            "request": {
                "uid": uid,
                **request_facts(attributes, match),
                "object": pair.object,
                "oldObject": pair.old_object,
                "dryRun": attributes.dry_run,
                "options": attributes.options,
            },
        }
    )


class Response(msgspec.Struct):
    """A webhook's answer, checked."""

    allowed: bool
    patch: bytes
    patch_type: str
    result: Mapping[str, Any] | None
    warnings: Sequence[str]


def read_response(document: Any, *, uid: str, version: str, is_mutating: bool) -> Response:
    """What a decoded answer says; raises ReviewFault."""
    answer: Mapping[str, Any] = document if isinstance(document, dict) else {}
    _check_kind(answer, version)
    response = answer.get("response")
    if response is not None and not isinstance(response, dict):
        raise _unmarshal(response, "AdmissionReview.response", "v1.AdmissionResponse")
    fields = response or {}
    allowed = _typed(fields, "allowed", bool, "bool", False)
    found_uid = _typed(fields, "uid", str, "types.UID", "")
    patch = _patch(fields)
    patch_type = _typed(fields, "patchType", str, "v1.PatchType", None)
    warnings = _strings(fields, "warnings")
    result = _result(fields)
    if response is None:
        raise ReviewFault(_invalid("webhook response was absent"))
    if version == "v1":
        if found_uid != uid:
            raise ReviewFault(
                _invalid(f"expected response.uid={gostyle.quote(uid)}, got {gostyle.quote(found_uid)}")
            )
        _check_patch(patch, patch_type, is_mutating=is_mutating)
    else:
        patch, patch_type = (patch, "JSONPatch") if is_mutating else (b"", None)
    return Response(
        allowed=allowed, patch=patch, patch_type=patch_type or "", result=result, warnings=warnings
    )


def _invalid(why: str) -> str:
    return f"received invalid webhook response: {why}"


def _check_kind(answer: Mapping[str, Any], version: str) -> None:
    """An answer that leaves kind or apiVersion out is taken for what was asked."""
    kind, api_version = answer.get("kind") or "AdmissionReview", answer.get("apiVersion")
    wanted = f"admission.k8s.io/{version}"
    if not answer.get("kind") or api_version in (None, "", wanted):
        if kind != "AdmissionReview":
            raise ReviewFault(_no_kind(kind, wanted))
        return
    if kind == "AdmissionReview" and api_version in ("admission.k8s.io/v1", "admission.k8s.io/v1beta1"):
        given = api_version.rpartition("/")[2]
        raise ReviewFault(
            f"failed to call webhook: converting ({given}.AdmissionReview) to ({version}.AdmissionReview): "
            "unknown conversion"
        )
    if kind == "Status" and api_version == "v1":
        raise ReviewFault(
            f"failed to call webhook: converting (v1.Status) to ({version}.AdmissionReview): "
            "unknown conversion"
        )
    raise ReviewFault(_no_kind(kind, str(api_version)))


def _no_kind(kind: str, api_version: str) -> str:
    return (
        f"failed to call webhook: no kind {gostyle.quote(kind)} is registered for version "
        f'{gostyle.quote(api_version)} in scheme "pkg/runtime/scheme.go:111"'
    )


def _unmarshal(value: Any, field: str, wanted: str) -> ReviewFault:
    return ReviewFault(
        f"failed to call webhook: json: cannot unmarshal {go_kind(value)} into Go struct field "
        f"{field} of type {wanted}"
    )


def _typed(fields: Mapping[str, Any], key: str, kind: type, wanted: str, default: Any) -> Any:
    value = fields.get(key)
    if value is None:
        return default
    if not isinstance(value, kind):
        raise _unmarshal(value, f"AdmissionResponse.response.{key}", wanted)
    return value


def _result(fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
    result: Mapping[str, Any] | None = _typed(fields, "status", dict, "v1.Status", None)
    for key, kind, wanted in (
        ("message", str, "string"),
        ("reason", str, "v1.StatusReason"),
        ("details", dict, "v1.StatusDetails"),
        ("code", int, "int32"),
    ):
        value = (result or {}).get(key)
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            raise _unmarshal(value, f"Status.response.status.{key}", wanted)
    return result


def _strings(fields: Mapping[str, Any], key: str) -> list[str]:
    values: list[Any] = _typed(fields, key, list, "[]string", [])
    for value in values:
        if not isinstance(value, str):
            raise _unmarshal(value, f"AdmissionResponse.response.{key}", "string")
    return values


def _patch(fields: Mapping[str, Any]) -> bytes:
    text: str = _typed(fields, "patch", str, "[]uint8", "")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ReviewFault("failed to call webhook: illegal base64 data at input byte 0") from error


def _check_patch(patch: bytes, patch_type: str | None, *, is_mutating: bool) -> None:
    if not is_mutating:
        if patch:
            raise ReviewFault(_invalid("validating webhook may not return response.patch"))
        if patch_type is not None:
            raise ReviewFault(_invalid("validating webhook may not return response.patchType"))
        return
    if patch and patch_type is None:
        raise ReviewFault(_invalid("webhook returned response.patch but not response.patchType"))
    if not patch and patch_type is not None:
        raise ReviewFault(_invalid("webhook returned response.patchType but not response.patch"))
    if patch_type == "":
        raise ReviewFault(_invalid('webhook returned invalid response.patchType of ""'))


def refusal(webhook: str, result: Mapping[str, Any] | None) -> status.StatusError:
    """The error of a request that a webhook did not allow."""
    result = result or {}
    denied = f"admission webhook {gostyle.quote(webhook)} denied the request"
    message, reason, code = result.get("message"), result.get("reason"), result.get("code") or 0
    explanation = message or reason
    details = result.get("details")
    retry_after = details.get("retryAfterSeconds") if isinstance(details, dict) else None
    return status.StatusError(
        code if code >= 400 else 400,
        f"{denied}: {explanation}" if explanation else f"{denied} without explanation",
        reason=reason or "",
        details=details,
        headers=[("Retry-After", str(retry_after))] if retry_after else (),
    )
