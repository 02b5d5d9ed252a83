"""Custom resources between the versions of their definition.

Strategy None changes the apiVersion only; strategy Webhook sends all objects of a read or write in
one ConversionReview. What comes back may differ in everything but identity: metadata is taken from
the original except for labels and annotations. Pruning and defaulting by the target version's
schema are the caller's business.

A failed conversion is a plain 500 without a reason, as upstream answers it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.metadata import validate_annotations, validate_labels
from quarterdeck.apiserver.webhookclient import Endpoint, WebhookClient, WebhookError, endpoint
from quarterdeck.errors import QuarterdeckError
from quarterdeck.wire import gostyle

_TIMEOUT: Final = 30
_KNOWN_VERSIONS: Final = ("v1", "v1beta1")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Converter:
    """Converts the objects of one CustomResourceDefinition."""

    def __init__(self, definition: Mapping[str, Any], client: WebhookClient | None = None) -> None:
        conversion = definition["spec"].get("conversion") or {}
        self._client = client
        self._target: Endpoint | None = None
        self._review_version = ""
        if conversion.get("strategy") == "Webhook":
            hook = conversion.get("webhook") or {}
            self._target = endpoint(hook.get("clientConfig") or {})
            accepted = [v for v in hook.get("conversionReviewVersions") or [] if v in _KNOWN_VERSIONS]
            self._review_version = accepted[0] if accepted else ""

    def close(self) -> None:
        """Nobody will convert by this definition any more."""
        if self._client is not None and self._target is not None:
            self._client.forget(self._target)

    @property
    def uses_webhook(self) -> bool:
        """Whether a conversion has to wait for a webhook; else `relabel` will do."""
        return self._target is not None

    def relabel(self, obj: Json, api_version: str) -> Json:
        """Strategy None: the same object under another apiVersion."""
        return {**obj, "apiVersion": api_version}

    async def convert(self, objects: Sequence[Json], api_version: str) -> list[Json]:
        """The objects in another version, in order; those already in it are returned as they are.

        Raises StatusError (500) when the webhook fails or answers nonsense.
        """
        if self._target is None:
            return [self.relabel(obj, api_version) for obj in objects]
        result = list(objects)
        places = [index for index, obj in enumerate(objects) if obj.get("apiVersion") != api_version]
        if places:
            originals = [objects[index] for index in places]
            for index, obj in zip(
                places, await self._call(self._target, originals, api_version), strict=True
            ):
                result[index] = obj
        return result

    async def _call(self, target: Endpoint, originals: Sequence[Json], wanted: str) -> list[Json]:
        subject = f"conversion webhook for {_gvk_text(originals[0])}"
        if not self._review_version:
            raise status.plain_error("no supported conversion review versions")
        if self._client is None:
            raise status.plain_error(f"{subject} failed: webhooks are not available")
        uid = str(uuid.uuid4())
        body = _encode(
            {
                "kind": "ConversionReview",
                "apiVersion": f"apiextensions.k8s.io/{self._review_version}",
                "request": {"uid": uid, "desiredAPIVersion": wanted, "objects": originals},
            }
        )
        try:
            document = await self._client.post(target, body, timeout=_TIMEOUT)
            converted = _converted_objects(document, uid, self._review_version)
        except (WebhookError, _Malformed) as error:
            raise status.plain_error(f"{subject} failed: {error}") from error
        if len(converted) != len(originals):
            raise status.plain_error(
                f"{subject} returned {len(converted)} objects, expected {len(originals)}"
            )
        is_list = len(originals) > 1
        return [
            _accepted(original, converted[index], wanted, subject, index if is_list else None)
            for index, original in enumerate(originals)
        ]


class _Malformed(QuarterdeckError):
    """A review that does not hold converted objects; the text says why."""


def _converted_objects(document: Any, uid: str, version: str) -> list[Any]:
    answer: Mapping[str, Any] = document if isinstance(document, dict) else {}
    wanted = f"apiextensions.k8s.io/{version}"
    kind, api_version = answer.get("kind") or "ConversionReview", answer.get("apiVersion") or wanted
    if kind != "ConversionReview" or not api_version.startswith("apiextensions.k8s.io/"):
        raise _Malformed(
            f"no kind {gostyle.quote(kind)} is registered for version {gostyle.quote(api_version)} "
            'in scheme "pkg/runtime/scheme.go:111"'
        )
    if api_version != wanted:
        given = api_version.rpartition("/")[2]
        raise _Malformed(
            f"converting ({given}.ConversionReview) to ({version}.ConversionReview): unknown conversion"
        )
    response = answer.get("response")
    if not isinstance(response, dict):
        raise _Malformed("no response provided")
    found = response.get("uid") or ""
    if version == "v1" and found != uid:
        raise _Malformed(f"expected response.uid={gostyle.quote(uid)}, got {gostyle.quote(str(found))}")
    result = response.get("result")
    outcome = result if isinstance(result, dict) else {}
    if outcome.get("status") != "Success":
        message = outcome.get("message")
        raise _Malformed(
            str(message)
            if message
            else f"response.result.status was '{outcome.get('status') or ''}', not 'Success'"
        )
    objects = response.get("convertedObjects")
    return objects if isinstance(objects, list) else []


def _accepted(original: Json, converted: Any, wanted: str, subject: str, index: int | None) -> Json:
    """A converted object that passed all checks, with the metadata of the original."""
    if not isinstance(converted, dict):
        raise status.plain_error(
            f"json: cannot unmarshal {_go_type(converted)} into Go value of type map[string]interface {{}}"
        )
    place = f" converted object at index {index}" if index is not None else " object at index 0"
    for name, expected, received in (
        ("groupVersion", wanted, converted.get("apiVersion") or ""),
        ("kind", original.get("kind"), converted.get("kind") or ""),
    ):
        if expected != received:
            raise status.plain_error(
                f"{subject} returned invalid{place}: invalid {name} "
                f"(expected {expected}, received {received})"
            )
    where = f" converted object at index {index}" if index is not None else " object"
    metadata = converted.get("metadata")
    given: Mapping[str, Any] = metadata if isinstance(metadata, dict) else {}
    kept: Json = original.get("metadata") or {}
    for key, name in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        before, after = kept.get(key) or "", given.get(key) or ""
        if before != after:
            raise status.plain_error(
                f"{subject} returned invalid{where}: must have the same {name}: {before} != {after}"
            )
    try:
        return {**converted, "metadata": _restored(kept, given)}
    except _Malformed as error:
        part = f" metadata in object at index {index}" if index is not None else " metadata"
        raise status.plain_error(f"{subject} returned invalid{part}: {error}") from error


def _restored(original: Mapping[str, Any], given: Mapping[str, Any]) -> Json:
    """The original metadata with the labels and annotations of the answer."""
    metadata: Json = _decode(_encode(original))
    for field in ("labels", "annotations"):
        values = given.get(field)
        if values is None:
            metadata.pop(field, None)
            continue
        if not isinstance(values, dict):
            raise _Malformed(f"invalid metadata.{field} of type {_go_type(values)} in converted object")
        for key, value in values.items():
            if not isinstance(value, str):
                raise _Malformed(
                    f"metadata.{field}[{key}] must be a string, but is {_go_type(value)} in converted object"
                )
        if values != metadata.get(field):
            _check(field, values)
        metadata[field] = values
    return metadata


def _check(field: str, values: Mapping[str, str]) -> None:
    if field == "labels":
        errors = validate_labels(values, "metadata.labels")
    else:
        errors = validate_annotations(values, "metadata.annotation")
    if errors:
        texts = [str(error) for error in errors]
        raise _Malformed(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def _go_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64"
    if isinstance(value, float):
        return "float64"
    if isinstance(value, str):
        return "string"
    return "[]interface {}" if isinstance(value, list) else "map[string]interface {}"


def _gvk_text(obj: Mapping[str, Any]) -> str:
    group, _, version = (obj.get("apiVersion") or "").rpartition("/")
    return f"{group}/{version}, Kind={obj.get('kind', '')}"
