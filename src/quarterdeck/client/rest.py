"""Requests with manners: lanes, retries, errors, warnings, metrics.

``RestClient`` sits between the verbs and the transport. A request waits for its lane, is sent, and is
tried again in exactly these cases:

- the answer is 429 or ≥ 500 **and** has ``Retry-After``: up to 10 times, waiting what the server says
  plus up to the same again at random, so that a herd does not come back at once;
- nothing could be sent (``ConnectError``) and the method may be repeated: after 1 s, up to 10 times;
- a GET lost its connection: after 1 s, up to 10 times.

A POST or PATCH is never repeated once bytes were sent. Any other non-2xx answer becomes an ``ApiError``;
what a transport raises passes through. Observers are told of every answer, retried ones included.
"""

import logging
import random as _random
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from quarterdeck.api.codec import UNREADABLE
from quarterdeck.client.clock import Clock, Random, SystemClock
from quarterdeck.client.lane import Lane, LaneName, TokenBucket
from quarterdeck.client.transport import Headers, Response, Stream, Transport
from quarterdeck.client.warning import LogOnce, WarningHandler, parse_warning
from quarterdeck.errors import ApiError, ConnectError, ErrorDetails, ReadTimeout, TransportError

_log: Final = logging.getLogger("quarterdeck.client")
_MAX_RETRIES: Final = 10
_RETRY_DELAY: Final = 1.0
_REPEATABLE: Final = frozenset({"GET", "HEAD", "PUT", "DELETE"})
_LEASE_LIMIT: Final = 8
_LONG_THROTTLE: Final = 0.05
"""Seconds a request may wait for the rate limit before that is worth a line in the log."""


class RequestRecord(msgspec.Struct, frozen=True):
    """What an observer learns of one answer; enough for the ``rest_client_*`` metrics."""

    method: str
    verb: str
    """The Kubernetes verb: get, list, watch, create …"""
    host: str
    code: str
    """The status, or ``<error>`` when there was no answer."""
    seconds: float
    request_bytes: int
    response_bytes: int
    retry: int
    """How many tries came before this one."""
    lane: LaneName
    path: str
    throttled: float | None = None
    """Seconds it was held back by our own rate limit; ``None`` if there is none."""


Observer: TypeAlias = Callable[[RequestRecord], None]


class RestClient:
    """Sends requests to one server on behalf of many callers."""

    def __init__(
        self,
        transport: Transport,
        *,
        headers: Headers = (),
        host: str = "",
        max_in_flight: int = 64,
        qps: float = 0.0,
        burst: int = 10,
        on_warning: WarningHandler | None = None,
        observer: Observer | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        """Wrap a transport.

        ``headers`` go with every request (user agent, impersonation); ``host`` labels observations;
        the lane, rate and warning options are those of ``Config``.
        """
        self.transport: Final = transport
        self._host = host or getattr(transport, "host", "in-process")
        self._headers = tuple(headers)
        self._merged: dict[Headers, Headers] = {}
        self._clock = clock if clock is not None else SystemClock()
        self._random = random if random is not None else _random.Random()  # noqa: S311  jitter, no secret
        self._on_warning = on_warning if on_warning is not None else LogOnce()
        self._observer = observer
        self._bucket = TokenBucket(qps, burst, self._clock) if qps > 0 else None
        self.lanes: Final[Mapping[LaneName, Lane]] = {
            LaneName.DEFAULT: Lane(max_in_flight),
            LaneName.LEASE: Lane(_LEASE_LIMIT),
            LaneName.WATCH: Lane(0),
        }

    async def request(
        self,
        method: str,
        path: str,
        *,
        verb: str = "",
        query: str = "",
        headers: Headers = (),
        body: bytes = b"",
        timeout: float | None = None,
        lane: LaneName = LaneName.DEFAULT,
    ) -> Response:
        """One request with its retries; returns a 2xx answer or raises."""
        gate = self.lanes[lane]
        fields = self._with_common(headers)
        # A lease must not be lost because reconciles have used up the rate.
        bucket = self._bucket if lane is LaneName.DEFAULT else None
        throttled: float | None = None
        for retry in range(_MAX_RETRIES + 1):
            if bucket is not None:
                throttled = await self._throttle(bucket, verb or method, path)
            if not gate.try_enter():
                await gate.enter()
            started = self._clock.monotonic() if self._observer is not None else 0.0
            wait: float | None = None
            try:
                response = await self.transport.request(
                    method, path, query=query, headers=fields, body=body, timeout=timeout
                )
            except TransportError as error:
                self._observe(method, verb, path, "<error>", started, len(body), 0, retry, lane, throttled)
                if retry == _MAX_RETRIES or not _may_repeat(method, error):
                    raise
                wait = _RETRY_DELAY
            finally:
                gate.leave()
            if wait is None:
                status = response.status
                if self._observer is not None:
                    received = len(response.body)
                    code, sent = str(status), len(body)
                    self._observe(method, verb, path, code, started, sent, received, retry, lane, throttled)
                if status < 300:
                    gate.grow()
                    self._warn(response.headers)
                    return response
                wait = self._after_refusal(response, gate, path)
                if wait is None or retry == _MAX_RETRIES:
                    self._warn(response.headers)
                    raise error_from(response, verb=verb or method, path=path)
            await self._clock.sleep(wait)
        raise AssertionError("unreachable")

    async def stream(
        self,
        method: str,
        path: str,
        *,
        verb: str = "watch",
        query: str = "",
        headers: Headers = (),
        body: bytes = b"",
        timeout: float | None = None,
    ) -> Stream:
        """Open a stream; a refusal is raised as ``ApiError``. Not retried: watchers have their own rules."""
        started = self._clock.monotonic()
        try:
            stream = await self.transport.stream(
                method, path, query=query, headers=self._with_common(headers), body=body, timeout=timeout
            )
        except TransportError:
            self._observe(method, verb, path, "<error>", started, len(body), 0, 0, LaneName.WATCH)
            raise
        if self._observer is not None:
            self._observe(method, verb, path, str(stream.status), started, len(body), 0, 0, LaneName.WATCH)
        self._warn(stream.headers)
        if stream.status < 300:
            return stream
        async with stream:
            response = Response(stream.status, await stream.read(), stream.headers)
        raise error_from(response, verb=verb, path=path)

    async def aclose(self) -> None:
        """Close the transport."""
        await self.transport.aclose()

    def _with_common(self, headers: Headers) -> Headers:
        merged = self._merged.get(headers)
        if merged is None:
            merged = self._merged[headers] = (*self._headers, *headers)
        return merged

    async def _throttle(self, bucket: TokenBucket, verb: str, path: str) -> float:
        """Wait for our own rate limit; returns the seconds that took."""
        wait = bucket.reserve()
        if wait > 0:
            await self._clock.sleep(wait)
        if wait > _LONG_THROTTLE:
            _log.info(
                "request waited for the client-side rate limit",
                extra={"verb": verb, "path": path, "seconds": round(wait, 3)},
            )
        return wait

    def _after_refusal(self, response: Response, gate: Lane, path: str) -> float | None:
        """Seconds to wait before the next try, or ``None`` when the refusal is final."""
        if response.status == 429:
            gate.shrink()
            _log_throttled(response, path)
        elif response.status < 500:
            return None
        after = response.header("retry-after")
        return int(after) * (1 + self._random.random()) if after.isdigit() else None

    def _warn(self, headers: Headers) -> None:
        for name, value in headers:
            if name in ("Warning", "warning"):
                for text in parse_warning(value):
                    self._on_warning(text)

    def _observe(
        self,
        method: str,
        verb: str,
        path: str,
        code: str,
        started: float,
        sent: int,
        received: int,
        retry: int,
        lane: LaneName,
        throttled: float | None = None,
    ) -> None:
        if self._observer is not None:
            seconds = self._clock.monotonic() - started
            host = self._host
            self._observer(
                RequestRecord(method, verb, host, code, seconds, sent, received, retry, lane, path, throttled)
            )


def _may_repeat(method: str, error: TransportError) -> bool:
    if isinstance(error, ReadTimeout):
        return False
    if isinstance(error, ConnectError):
        return method in _REPEATABLE
    return method == "GET"


def _log_throttled(response: Response, path: str) -> None:
    _log.info(
        "request throttled",
        extra={
            "path": path,
            "flowSchema": response.header("x-kubernetes-pf-flowschema-uid"),
            "priorityLevel": response.header("x-kubernetes-pf-prioritylevel-uid"),
            "retryAfter": response.header("retry-after"),
        },
    )


_GENERIC: Final[dict[int, tuple[str, str]]] = {
    400: ("BadRequest", "the server rejected our request for an unknown reason"),
    401: ("Unauthorized", "the server has asked for the client to provide credentials"),
    403: ("Forbidden", "the server does not allow this request"),
    404: ("NotFound", "the server could not find the requested resource"),
    405: ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
    406: ("NotAcceptable", "the server was unable to respond with a content type that the client supports"),
    409: ("Conflict", "the server reported a conflict"),
    410: ("Gone", "the server has asked that the client discards the object"),
    413: ("RequestEntityTooLarge", "the request is too large for the server"),
    415: (
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: application/json",
    ),
    422: (
        "Invalid",
        "the server rejected our request due to an error in our request",
    ),
    429: (
        "TooManyRequests",
        "the server has received too many requests and has asked us to try again later",
    ),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: ("Timeout", "the server was unable to return a response in the time allotted"),
}


def error_from(response: Response, *, verb: str, path: str) -> ApiError:
    """The exception of a refused request; bodies that are no ``Status`` get the generic words."""
    status = _status_of(response.body)
    if status is not None:
        return ApiError.from_status(status, code=response.status, verb=verb, path=path)
    reason, message = _GENERIC.get(response.status, ("", ""))
    if not message:
        reason = "InternalError" if response.status >= 500 else ""
        message = "an error on the server has prevented the request from succeeding"
    if response.status < 500 and not reason:
        message = f"the server responded with the status code {response.status} and no more information"
    text = response.body[:2048].decode(errors="replace").strip()
    after = response.header("retry-after")
    details = ErrorDetails(retry_after_seconds=int(after) if after.isdigit() else 0)
    kind = ApiError.class_for(response.status, reason)
    return kind(
        f'{message} ("{text}")' if text else message,
        code=response.status,
        reason=reason,
        details=details,
        verb=verb,
        path=path,
    )


def _status_of(body: bytes) -> Mapping[str, Any] | None:
    try:
        document = msgspec.json.decode(body)
    except UNREADABLE:
        return None
    if isinstance(document, dict) and document.get("kind") == "Status":
        return document
    return None
