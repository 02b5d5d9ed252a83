"""Retries, errors, warnings, lanes and observations."""

import asyncio
import logging
from collections.abc import Callable

import pytest

from quarterdeck.client import Backoff, RequestRecord, Response, Stream, retry_on_conflict
from quarterdeck.client.backoff import DEFAULT_BACKOFF, DEFAULT_RETRY
from quarterdeck.client.lane import Lane, LaneName, TokenBucket
from quarterdeck.client.rest import RestClient
from quarterdeck.client.transport import Headers
from quarterdeck.client.warning import LogOnce, log_every_warning, parse_warning
from quarterdeck.errors import (
    AlreadyExists,
    ApiError,
    ApplyConflict,
    BadRequest,
    Conflict,
    ConnectError,
    ErrorDetails,
    Expired,
    Forbidden,
    Gone,
    InternalError,
    Invalid,
    MethodNotAllowed,
    NotFound,
    ReadTimeout,
    ServerTimeout,
    ServiceUnavailable,
    StreamClosed,
    Timeout,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    UnsupportedMediaType,
    ignore_already_exists,
    ignore_not_found,
)

from .wireserver import Asked, FakeClock, FixedRandom, FunctionTransport, chunks, status

OK = Response(200, b"{}")


def scripted(*answers: Response | Exception) -> tuple[RestClient, FunctionTransport, FakeClock]:
    remaining = list(answers)
    clock = FakeClock()
    transport = FunctionTransport(lambda asked: remaining.pop(0))
    return RestClient(transport, clock=clock, random=FixedRandom(0.5)), transport, clock


def busy(code: int = 429, after: str = "2") -> Response:
    return Response(code, b"", (("Retry-After", after),))


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_refusal_with_retry_after_is_tried_again(code: int) -> None:
    rest, transport, clock = scripted(busy(code), busy(code), OK)
    await rest.request("POST", "/x", body=b"{}")
    assert len(transport.asked) == 3
    assert clock.slept == [3.0, 3.0]  # what the server asked for and half as much again


async def test_refusal_without_retry_after_is_final() -> None:
    rest, _transport, clock = scripted(Response(503, b""))
    with pytest.raises(ServiceUnavailable):
        await rest.request("GET", "/x")
    assert clock.slept == []


async def test_ten_retries_are_enough() -> None:
    rest, transport, _clock = scripted(*[busy(after="1")] * 20)
    with pytest.raises(TooManyRequests):
        await rest.request("GET", "/x")
    assert len(transport.asked) == 11


async def test_lost_connection_is_retried_for_get_only() -> None:
    rest, _, clock = scripted(StreamClosed("x"), OK)
    await rest.request("GET", "/x")
    assert clock.slept == [1.0]
    for method in ("POST", "PATCH", "PUT", "DELETE"):
        rest, _transport, clock = scripted(StreamClosed("x"), OK)
        with pytest.raises(StreamClosed):
            await rest.request(method, "/x")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_failed_connect_is_retried_for_repeatable_methods(method: str) -> None:
    rest, transport, _clock = scripted(ConnectError("x"), ConnectError("x"), OK)
    await rest.request(method, "/x")
    assert len(transport.asked) == 3


async def test_failed_connect_of_a_post_is_not_retried() -> None:
    rest, _transport, _ = scripted(ConnectError("x"), OK)
    with pytest.raises(ConnectError):
        await rest.request("POST", "/x")


async def test_read_timeout_is_not_retried() -> None:
    rest, _transport, _ = scripted(ReadTimeout("x"), OK)
    with pytest.raises(ReadTimeout):
        await rest.request("GET", "/x")


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", BadRequest),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (405, "MethodNotAllowed", MethodNotAllowed),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Gone", Gone),
        (410, "Expired", Expired),
        (413, "RequestEntityTooLarge", TooLarge),
        (415, "UnsupportedMediaType", UnsupportedMediaType),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", InternalError),
        (500, "ServerTimeout", ServerTimeout),
        (503, "ServiceUnavailable", ServiceUnavailable),
        (504, "Timeout", Timeout),
        (404, "SomethingNew", NotFound),
        (418, "Teapot", ApiError),
    ],
)
async def test_reason_then_code_choose_the_exception(code: int, reason: str, kind: type[ApiError]) -> None:
    rest, _, _ = scripted(status(code, reason, "words", name="x", kind="pods", group="g"))
    with pytest.raises(ApiError) as caught:
        await rest.request("GET", "/api/v1/pods/x", verb="get")
    error = caught.value
    assert type(error) is kind
    assert (error.code, error.reason, str(error)) == (code, reason, "words")
    assert (error.verb, error.path, error.details.name) == ("get", "/api/v1/pods/x", "x")
    assert ApiError.from_status(error.to_status()).to_status() == error.to_status()


async def test_apply_conflict_is_told_from_other_conflicts() -> None:
    cause = {"reason": "FieldManagerConflict", "message": 'conflict with "m"', "field": ".spec"}
    rest, _, _ = scripted(status(409, "Conflict", causes=[cause]))
    with pytest.raises(ApplyConflict) as caught:
        await rest.request("PATCH", "/x")
    assert caught.value.details.causes[0].field == ".spec"


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (404, NotFound, "the server could not find the requested resource"),
        (409, Conflict, "the server reported a conflict"),
        (502, InternalError, "an error on the server"),
        (418, ApiError, "status code 418"),
    ],
)
async def test_answers_without_a_status_get_generic_words(
    code: int, kind: type[ApiError], words: str
) -> None:
    rest, _, _ = scripted(Response(code, b"<html>nginx</html>"))
    with pytest.raises(ApiError, match=words) as caught:
        await rest.request("GET", "/x")
    assert isinstance(caught.value, kind)
    assert "nginx" in str(caught.value)


def test_cache_miss_names_the_kind() -> None:
    error = NotFound.in_cache("Widget", "x")
    assert str(error) == 'Widget "x" not found'
    assert error.from_cache
    assert not NotFound("x").from_cache


def test_ignoring_swallows_one_error_only() -> None:
    with ignore_not_found():
        raise NotFound("x")
    with ignore_already_exists():
        raise AlreadyExists("x")
    with pytest.raises(Conflict), ignore_not_found():
        raise Conflict("x")


async def test_refused_stream_raises_its_status() -> None:
    body = status(410, "Expired", "too old").body
    transport = FunctionTransport(lambda asked: Stream(410, chunks(body)))
    with pytest.raises(Expired, match="too old"):
        await RestClient(transport).stream("GET", "/x")


async def test_warnings_reach_the_handler() -> None:
    texts: list[str] = []
    header = '299 - "first \\"quoted\\"", 299 kube "second", 199 - "not ours"'
    transport = FunctionTransport(lambda asked: Response(200, b"{}", (("Warning", header),)))
    await RestClient(transport, on_warning=texts.append).request("GET", "/x")
    assert texts == ['first "quoted"', "second"]
    assert parse_warning("nonsense") == []


def test_default_handler_logs_a_text_once(caplog: pytest.LogCaptureFixture) -> None:
    handler = LogOnce(limit=2)
    with caplog.at_level(logging.WARNING, "quarterdeck.client"):
        for text in ("a", "a", "b", "c", "a"):
            handler(text)
        log_every_warning("z")
    assert [record.warning for record in caplog.records] == ["a", "b", "c", "a", "z"]  # type: ignore[attr-defined]


async def test_observer_sees_every_answer() -> None:
    records: list[RequestRecord] = []
    answers: list[Response | Exception] = [busy(), ConnectError("x"), OK]
    transport = FunctionTransport(lambda asked: answers.pop(0))
    rest = RestClient(transport, host="api", observer=records.append, clock=FakeClock(), random=FixedRandom())
    await rest.request("GET", "/x", verb="list")
    assert [(r.code, r.retry, r.verb, r.host) for r in records] == [
        ("429", 0, "list", "api"),
        ("<error>", 1, "list", "api"),
        ("200", 2, "list", "api"),
    ]


async def test_common_headers_go_with_every_request() -> None:
    transport = FunctionTransport(lambda asked: OK)
    rest = RestClient(transport, headers=(("user-agent", "me"),))
    await rest.request("GET", "/x", headers=(("accept", "a/b"),))
    assert transport.asked[0].headers == {"user-agent": "me", "accept": "a/b"}


class Gated(FunctionTransport):
    """Answers when told to."""

    def __init__(self) -> None:
        super().__init__(lambda asked: OK)
        self.gate = asyncio.Event()
        self.running = 0
        self.most = 0

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: str = "",
        headers: Headers = (),
        body: bytes = b"",
        timeout: float | None = None,
    ) -> Response:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.gate.wait()
        finally:
            self.running -= 1
        return OK


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_default_lane_is_bounded_and_leases_pass_by() -> None:
    transport = Gated()
    rest = RestClient(transport, max_in_flight=3)
    tasks = [asyncio.ensure_future(rest.request("GET", "/x")) for _ in range(10)]
    await settle()
    assert transport.running == 3
    assert rest.lanes[LaneName.DEFAULT].waiting == 7
    lease = asyncio.ensure_future(rest.request("PUT", "/lease", lane=LaneName.LEASE))
    await settle()
    assert transport.running == 4
    transport.gate.set()
    await asyncio.gather(lease, *tasks)
    assert transport.most == 4
    assert rest.lanes[LaneName.DEFAULT].in_flight == 0


async def test_cancelled_waiter_gives_its_place_on() -> None:
    lane = Lane(1)
    await lane.enter()
    first, second = asyncio.ensure_future(lane.enter()), asyncio.ensure_future(lane.enter())
    await settle()
    first.cancel()
    await settle()
    lane.leave()
    await second
    assert lane.in_flight == 1
    third = asyncio.ensure_future(lane.enter())
    await settle()
    lane.leave()  # the place is given to the third waiter, which is cancelled in the same moment
    third.cancel()
    await settle()
    assert lane.in_flight == 0


def test_lane_halves_and_recovers_step_by_step() -> None:
    lane = Lane(8)
    lane.shrink()
    lane.shrink()
    assert lane.limit == 2
    for _ in range(2):
        lane.grow()
    assert 2 <= lane.limit <= 3
    for _ in range(100):
        lane.grow()
    assert lane.limit == 8
    for _ in range(10):
        lane.shrink()
    assert lane.limit == 1


async def test_throttling_narrows_the_lane() -> None:
    rest, _, _ = scripted(busy(), OK)
    await rest.request("GET", "/x")
    assert rest.lanes[LaneName.DEFAULT].limit == 32


async def test_rate_limit_spreads_requests() -> None:
    clock = FakeClock()
    transport = FunctionTransport(lambda asked: OK)
    rest = RestClient(transport, qps=10, burst=2, clock=clock)
    for _ in range(5):
        await rest.request("GET", "/x")
    assert [round(wait, 3) for wait in clock.slept] == [0.1, 0.1, 0.1]
    bucket = TokenBucket(1, 1, clock)
    assert bucket.reserve() == 0


async def test_waits_for_the_rate_limit_are_observed_and_long_ones_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[RequestRecord] = []
    transport = FunctionTransport(lambda asked: OK)
    rest = RestClient(transport, qps=10, burst=1, clock=FakeClock(), observer=seen.append)
    caplog.clear()  # the test runs once per event loop
    with caplog.at_level(logging.INFO, "quarterdeck.client"):
        await rest.request("GET", "/x")
        assert caplog.records == []
        await rest.request("GET", "/y", verb="list")
    assert [round(record.throttled or 0.0, 3) for record in seen] == [0.0, 0.1]
    (line,) = caplog.records
    assert line.getMessage() == "request waited for the client-side rate limit"
    assert (line.__dict__["verb"], line.__dict__["path"], line.__dict__["seconds"]) == ("list", "/y", 0.1)


async def test_leases_do_not_wait_for_the_rate_limit() -> None:
    clock = FakeClock()
    seen: list[RequestRecord] = []
    rest = RestClient(FunctionTransport(lambda asked: OK), qps=1, burst=1, clock=clock, observer=seen.append)
    for _ in range(3):
        await rest.request("PUT", "/lease", lane=LaneName.LEASE)
    assert clock.slept == []
    assert [record.throttled for record in seen] == [None, None, None]


def failing(times: int, error: Callable[[], Exception]) -> Callable[[], "asyncio.Future[int]"]:
    left = [times]

    async def function() -> int:
        if left[0]:
            left[0] -= 1
            raise error()
        return 7

    return lambda: asyncio.ensure_future(function())


async def test_conflict_is_retried_until_it_passes() -> None:
    clock = FakeClock()
    result = await retry_on_conflict(failing(4, lambda: Conflict("x")), clock=clock, random=FixedRandom(1.0))
    assert result == 7
    assert clock.slept == pytest.approx([0.011] * 4)


async def test_last_conflict_is_raised() -> None:
    with pytest.raises(Conflict):
        await retry_on_conflict(failing(5, lambda: Conflict("x")), clock=FakeClock())


async def test_other_errors_end_the_retry() -> None:
    clock = FakeClock()
    with pytest.raises(Invalid):
        await retry_on_conflict(failing(1, lambda: Invalid("x")), clock=clock)
    assert clock.slept == []


def test_backoff_numbers_are_those_of_client_go() -> None:
    assert (DEFAULT_RETRY.steps, DEFAULT_RETRY.base, DEFAULT_RETRY.factor, DEFAULT_RETRY.jitter) == (
        5,
        0.01,
        1.0,
        0.1,
    )
    assert list(DEFAULT_BACKOFF.delays(FixedRandom())) == pytest.approx([0.01, 0.05, 0.25])
    assert list(Backoff(4, 1, 10, cap=5).delays(FixedRandom())) == [1, 5, 5]


def test_error_details_are_values() -> None:
    assert ErrorDetails(name="a") == ErrorDetails(name="a")


def test_asked_is_a_record() -> None:
    assert Asked("GET", "/", "", {}, b"").method == "GET"
