"""From an HTTP request to a ConversionReview answer.

All or nothing: one object that cannot be converted fails the review, and no objects are returned with it.
The answer always carries kind, apiVersion and, when it could be read, the uid: without them the API server
complains about the envelope instead of showing the reason.
"""

from typing import Final

import msgspec

from quarterdeck.api import GroupKind, GroupVersion
from quarterdeck.api.codec import UNREADABLE
from quarterdeck.errors import ConfigError, QuarterdeckError
from quarterdeck.runtime._logfield import bound_fields, get_logger
from quarterdeck.runtime.metrics import Counter
from quarterdeck.runtime.timeslice import TimeSlice
from quarterdeck.runtime.webhook.conversion import Conversion, Plan, Unconvertible
from quarterdeck.runtime.webhook.http import MIB, Request, Response

__all__ = ["BODY_LIMIT", "ConversionEndpoint"]

BODY_LIMIT: Final = 256 * MIB
"""A list is converted in one review, however long it is: upstream has no limit here."""
PANIC: Final = "internal error occurred during conversion"
VERSIONS: Final = ("apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1")

_log: Final = get_logger(__name__)
_quote: Final = msgspec.json.Encoder().encode
_EVERY: Final = 32
"""Objects between two looks at the clock."""


class _Request(msgspec.Struct, frozen=True, gc=False):
    uid: str = ""
    desired: str = msgspec.field(default="", name="desiredAPIVersion")
    objects: list[msgspec.Raw] | None = None


class _Review(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: _Request | None = None


class _Head(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    api_version: str = ""
    kind: str = ""


_decode: Final = msgspec.json.Decoder(_Review).decode
_decode_head: Final = msgspec.json.Decoder(_Head).decode


class ConversionEndpoint:
    """Serves the conversions of any number of kinds at one path."""

    def __init__(self, *, panics: Counter | None = None) -> None:
        self._conversions: Final[dict[GroupKind, Conversion]] = {}
        self._panics: Final = panics if panics is not None else Counter()

    def add(self, conversion: Conversion) -> None:
        """Serve one more kind; raises ``ConfigError`` for one that is served already."""
        key = conversion.gvk.group_kind
        if key in self._conversions:
            raise ConfigError(f"multiple hubs defined for group-kind '{key}'")
        self._conversions[key] = conversion

    @property
    def conversions(self) -> tuple[Conversion, ...]:
        """The kinds served."""
        return tuple(self._conversions.values())

    async def handle(self, request: Request) -> Response:
        """Answer one request."""
        if request.is_too_large or not request.body:
            return _failure(VERSIONS[0], "", "failed to read request body")
        try:
            review = _decode(request.body)
        except UNREADABLE as error:
            _log.warning("bad conversion request", error)
            return _failure(VERSIONS[0], "", "failed to unmarshal conversion review")
        if review.kind != "ConversionReview" or review.api_version not in VERSIONS:
            _log.warning("bad conversion request", kind=review.kind, apiVersion=review.api_version)
            return _failure(VERSIONS[0], "", "failed to unmarshal conversion review")
        asked = review.request
        if asked is None:
            return _failure(review.api_version, "", "conversion review request is nil")
        with bound_fields(requestID=asked.uid, desiredAPIVersion=asked.desired):
            try:
                converted = await self._convert(asked)
            except QuarterdeckError as error:
                _log.error("failed to convert", error, trace=False)
                return _failure(review.api_version, asked.uid, str(error))
            except Exception as error:  # noqa: BLE001  supervision point: one request never ends the server
                self._panics.inc()
                _log.error("Observed a panic in conversion webhook", error)
                return _failure(review.api_version, asked.uid, PANIC)
        return _success(review.api_version, asked.uid, converted)

    async def _convert(self, asked: _Request) -> list[bytes]:
        group = GroupVersion.parse(asked.desired).group
        prepared: set[Conversion] = set()
        plan: Plan | None = None
        turn = TimeSlice()
        results: list[bytes] = []
        for index, raw in enumerate(asked.objects or ()):
            try:
                result = plan.run(raw) if plan is not None else None
                if result is None:
                    # Another version or kind than the object before (or the first): look at its head.
                    conversion, source = self._find(raw, group)
                    if conversion.prepare is not None and conversion not in prepared:
                        prepared.add(conversion)
                        await _prepare(conversion)
                    plan = conversion.plan(source, asked.desired)
                    result = plan.run(raw)
                assert result is not None
                results.append(result if isinstance(result, bytes) else await result)
            except _Unprepared as failed:
                raise failed.error from failed.error.__cause__
            except QuarterdeckError as error:
                raise Unconvertible(f"failed to convert object {index}: {error}") from error
            if index % _EVERY == 0 and turn.is_over:
                await turn.end()
        return results

    def _find(self, raw: msgspec.Raw, group: str) -> tuple[Conversion, str]:
        try:
            head = _decode_head(raw)
        except UNREADABLE as error:
            raise Unconvertible(f"parse object metadata: {error}") from error
        conversion = self._conversions.get(GroupKind(GroupVersion.parse(head.api_version).group, head.kind))
        if conversion is None:
            raise Unconvertible(f"unsupported kind: {head.kind}")
        if group != conversion.gvk.group:
            raise Unconvertible(f"src {head.api_version} and dst {group} does not belong to same API Group")
        return conversion, head.api_version


class _Unprepared(Exception):
    """``prepare`` failed: no single object is to blame."""

    def __init__(self, error: QuarterdeckError) -> None:
        super().__init__(str(error))
        self.error: Final = error


async def _prepare(conversion: Conversion) -> None:
    assert conversion.prepare is not None
    try:
        await conversion.prepare()
    except QuarterdeckError as error:
        raise _Unprepared(error) from error


def _success(version: str, uid: str, objects: list[bytes]) -> Response:
    head = b'{"kind":"ConversionReview","apiVersion":"%s","response":{"uid":%s,"convertedObjects":[' % (
        version.encode(),
        _quote(uid),
    )
    return Response(
        200, b"".join((head, b",".join(objects), b'],"result":{"metadata":{},"status":"Success"}}}\n'))
    )


def _failure(version: str, uid: str, message: str) -> Response:
    return Response(
        200,
        _quote(
            {
                "kind": "ConversionReview",
                "apiVersion": version,
                "response": {
                    "uid": uid,
                    "convertedObjects": [],
                    "result": {"metadata": {}, "status": "Failure", "message": message},
                },
            }
        ),
    )
