"""From an HTTP request to a ConversionReview answer.

All or nothing: one object that cannot be converted fails the review, and no objects are returned with it.
The answer always carries kind, apiVersion and, when it could be read, the uid: without them the API server
complains about the envelope instead of showing the reason.
"""

from typing import Final

import msgspec

from quarterdeck.api.codec import UNREADABLE
from quarterdeck.api.kind import GroupKind, GroupVersion
from quarterdeck.errors import ConfigError, QuarterdeckError
from quarterdeck.runtime.log.field import bound_fields, get_logger
from quarterdeck.runtime.loop.supervision import contained
from quarterdeck.runtime.metrics import Counter
from quarterdeck.runtime.webhook.conversion import (
    Converter,
    ReviewConversion,
    ReviewFailed,
    Unconvertible,
)
from quarterdeck.wire.http import MIB, Request, Response
from quarterdeck.wire.timeslice import TimeSlice

BODY_LIMIT: Final = 256 * MIB
"""A list is converted in one review, however long it is: upstream has no limit here."""
KIND: Final = "ConversionReview"
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
    """A review that does not say what it is counts as one; one that says something else does not."""

    api_version: str = VERSIONS[0]
    kind: str = KIND
    request: _Request | None = None


class _Head(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    api_version: str = ""
    kind: str = ""


_decode: Final = msgspec.json.Decoder(_Review).decode
_decode_head: Final = msgspec.json.Decoder(_Head).decode


class ConversionEndpoint:
    """Serves the conversions of any number of kinds at one path."""

    def __init__(self, *, panics: Counter | None = None) -> None:
        self._converters: Final[dict[GroupKind, Converter]] = {}
        self._panics: Final = panics if panics is not None else Counter()

    def add(self, converter: Converter) -> None:
        """Serve one more kind; raises ``ConfigError`` for one that is served already."""
        key = converter.gvk.group_kind
        if key in self._converters:
            raise ConfigError(f"multiple hubs defined for group-kind '{key}'")
        self._converters[key] = converter

    @property
    def converters(self) -> tuple[Converter, ...]:
        """The kinds served."""
        return tuple(self._converters.values())

    async def handle(self, request: Request) -> Response:
        """Answer one request."""
        if request.is_too_large:
            return _failure(VERSIONS[0], "", "failed to read request body")
        try:
            review = _decode(request.body)
        except UNREADABLE as error:
            _log.warning("bad conversion request", error)
            return _failure(VERSIONS[0], "", "failed to unmarshal conversion review")
        if review.kind != KIND or review.api_version not in VERSIONS:
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
            except BaseException as raised:  # noqa: BLE001  supervision point: one request never ends the server
                self._panics.inc()
                _log.error("Observed a panic in conversion webhook", contained(raised))
                return _failure(review.api_version, asked.uid, PANIC)
        return _success(review.api_version, asked.uid, converted)

    async def _convert(self, asked: _Request) -> list[bytes]:
        begun: dict[Converter, ReviewConversion] = {}
        current: ReviewConversion | None = None
        turn = TimeSlice()
        results: list[bytes] = []
        for index, raw in enumerate(asked.objects or ()):
            try:
                result = current.run(raw) if current is not None else None
                if result is None:
                    # Another version or kind than the object before (or the first): look at its head.
                    head = _read_head(raw)
                    converter = self._find(head, asked.desired)
                    if converter is None:
                        results.append(bytes(raw))
                        continue
                    if converter not in begun:
                        begun[converter] = await _begin(converter, asked.desired)
                    current = begun[converter]
                    result = current.run(raw, head.api_version)
                assert result is not None
                results.append(result if isinstance(result, bytes) else await result)
            except ReviewFailed:
                raise
            except QuarterdeckError as error:
                raise Unconvertible(f"failed to convert object {index}: {error}") from error
            if index % _EVERY == 0 and turn.is_over:
                await turn.end()
        return results

    def _find(self, head: _Head, desired: str) -> Converter | None:
        """Who converts an object; nobody need if it has the wanted version already."""
        key = GroupKind(GroupVersion.parse(head.api_version).group, head.kind)
        found = self._converters.get(key)
        if found is None and head.api_version != desired:
            # A kind we know, in a group we do not: its converter says that it does not know the version.
            found = next((one for one in self.converters if one.gvk.kind == head.kind), None)
            if found is None:
                raise Unconvertible(f"unsupported kind: {head.kind}")
        return found


def _read_head(raw: msgspec.Raw) -> _Head:
    try:
        return _decode_head(raw)
    except UNREADABLE as error:
        raise Unconvertible(f"parse object metadata: {error}") from error


async def _begin(converter: Converter, target: str) -> ReviewConversion:
    try:
        return await converter.begin(target)
    except QuarterdeckError as error:
        raise ReviewFailed(str(error)) from error


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
