"""The webhook server: connections, paths, its start and its end, and an API server that calls it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.api import GroupVersionKind, ObjectMeta, crd
from quarterdeck.api.k8s import ConfigMap
from quarterdeck.errors import (
    ConfigError,
    Forbidden,
    QuarterdeckError,
)
from quarterdeck.runtime.certificate import FileCertificates
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.runtime.trace import NoTracer
from quarterdeck.runtime.webhook import (
    Admission,
    AdmissionHandler,
    AdmissionWebhook,
    Defaulter,
    Denied,
    UrlTarget,
    Validator,
    WebhookOptions,
    WebhookRule,
    WebhookServer,
    webhook_configurations,
    webhook_path,
)
from quarterdeck.runtime.webhook.server import _instrumented
from quarterdeck.wire.http import Request, Response
from tests.unit.runtime.servicekit import Authority, Gang, GangSpec, Web, client_of, embedded, install
from tests.unit.runtime.webhook.admissionkit import JSON, accept, default_queue, document, review

pytestmark = pytest.mark.real_time


@asynccontextmanager
async def serving(
    tmp_path: Path, *webhooks: AdmissionWebhook, metrics: RuntimeMetrics | None = None
) -> AsyncIterator[tuple[WebhookServer, Web, Authority]]:
    authority = Authority()
    authority.issue(tmp_path)
    server = WebhookServer(
        WebhookOptions(host="127.0.0.1", port=0), certificates=FileCertificates(tmp_path), metrics=metrics
    )
    server.add(*webhooks)
    async with server:
        web = await Web.connect(server.port, authority.client_context())
        try:
            yield server, web, authority
        finally:
            await web.close()


async def test_bad_input_is_answered_inside_a_review_and_the_connection_lives_on(
    tmp_path: Path,
) -> None:
    validator = Validator(Gang, accept)
    path = validator.path
    big = json.dumps(review(document(queue="x" * 8 * 1024 * 1024))).encode()
    cases: list[tuple[bytes, dict[str, str], int, str]] = [
        (b"", {}, 400, "request body is empty"),
        (b"{}", {"Content-Type": "text/plain"}, 400, "contentType=text/plain, expected application/json"),
        (b"{not json", {}, 400, "couldn't get version/kind; json parse error: "),
        (b"[1]", {}, 400, "couldn't decode the AdmissionReview: "),
        (b'{"kind":"\xff"}', {}, 400, "couldn't get version/kind; json parse error: "),
        (b'{"a":' * 100_000, {}, 400, "couldn't get version/kind; json parse error: "),
        (b"{}", {}, 400, "Object 'Kind' is missing"),
        (json.dumps({**review(document()), "kind": "Pod"}).encode(), {}, 400, 'no kind "Pod" is registered'),
        (
            json.dumps(review(document(), version="v2")).encode(),
            {},
            400,
            'no kind "AdmissionReview" is registered for version "admission.k8s.io/v2"',
        ),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}', {}, 400, "has no request"),
        (json.dumps(review(document(), name=7)).encode(), {}, 400, "couldn't decode the AdmissionReview: "),
        (big, {}, 413, "request entity is too large; limit is 7340032 bytes"),
    ]
    async with serving(tmp_path, validator) as (_, web, _):
        for body, headers, code, message in cases:
            status, raw = await web.send("POST", path, body, {"Content-Type": "application/json", **headers})
            answer = json.loads(raw)
            assert status == 200, message
            assert (answer["kind"], answer["apiVersion"]) == ("AdmissionReview", "admission.k8s.io/v1")
            assert answer["response"]["allowed"] is False
            assert answer["response"]["status"]["code"] == code
            assert message in answer["response"]["status"]["message"]
        bad = await web.post(path, {**review(document()), "kind": "Pod"})
        assert bad["response"]["uid"] == "u-1", "the uid is echoed whenever it can be read"
        good = await web.post(path, review(document()))
        assert good["response"]["allowed"] is True


async def test_seven_mebibytes_are_accepted(tmp_path: Path) -> None:
    body = json.dumps(review(document(queue="x" * (7 * 1024 * 1024 - 2000)))).encode()
    assert 7 * 1024 * 1024 - 2000 < len(body) < 7 * 1024 * 1024
    async with serving(tmp_path, Validator(Gang, accept)) as (_, web, _):
        assert (await web.post("/validate-example-io-v1-gang", body))["response"]["allowed"] is True


async def test_paths_methods_and_broken_http(tmp_path: Path) -> None:
    async with serving(tmp_path, Validator(Gang, accept)) as (server, web, authority):
        assert await web.send("POST", "/nothing", b"{}") == (404, b"404 page not found\n")
        status, body = await web.send("GET", "/validate-example-io-v1-gang")
        assert (status, json.loads(body)["response"]["status"]["message"]) == (200, "request body is empty")
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", server.port, ssl=authority.client_context(), server_hostname="localhost"
        )
        writer.write(b"NONSENSE\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 400 Bad Request")
        writer.close()


async def test_pipelined_requests_are_answered_in_order(tmp_path: Path) -> None:
    async def slow(admission: Admission, gang: Gang) -> None:
        await asyncio.sleep(0.02 if gang.spec.queue == "slow" else 0)
        admission.message = gang.spec.queue

    async with serving(tmp_path, Validator(Gang, slow)) as (server, _, authority):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", server.port, ssl=authority.client_context(), server_hostname="localhost"
        )
        queues = ["slow", "b", "slow", *(f"q{i}" for i in range(30))]
        for queue in queues:
            body = json.dumps(review(document(queue=queue))).encode()
            head = (
                "POST /validate-example-io-v1-gang HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n"
            )
            writer.write(head.encode() + body)
        for queue in queues:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
            answer = json.loads(await reader.readexactly(length))
            assert answer["response"]["status"]["message"] == queue
        writer.transport.abort()


async def test_requests_under_way_end_before_the_server_stops(tmp_path: Path) -> None:
    entered, release = asyncio.Event(), asyncio.Event()

    async def slow(admission: Admission, gang: Gang) -> None:
        entered.set()
        await release.wait()

    metrics = RuntimeMetrics()
    async with serving(tmp_path, Validator(Gang, slow), metrics=metrics) as (server, web, _):
        pending = asyncio.create_task(web.post("/validate-example-io-v1-gang", review(document())))
        await entered.wait()
        path = "/validate-example-io-v1-gang"
        assert metrics.registry.value("controller_runtime_webhook_requests_in_flight", path) == 1
        stopping = asyncio.create_task(server.stop())
        await asyncio.sleep(0.05)
        assert not stopping.done()
        release.set()
        assert (await pending)["response"]["allowed"] is True
        await stopping
        assert not server.is_serving
        assert metrics.registry.value("controller_runtime_webhook_requests_in_flight", path) == 0
        assert metrics.registry.value("controller_runtime_webhook_requests_total", path, "200") == 1
        assert metrics.registry.value("controller_runtime_webhook_latency_seconds", path) == 1
        assert 0 <= metrics.webhook_latency.labelled(path).sum < 600


async def test_a_path_is_registered_once_and_must_be_callable(tmp_path: Path) -> None:
    server = WebhookServer(certificates=FileCertificates(tmp_path))
    server.add(Validator(Gang, accept))
    with pytest.raises(ConfigError, match="can't register duplicate path: /validate-example-io-v1-gang"):
        server.add(Validator(Gang, accept))
    with pytest.raises(ConfigError, match="invalid webhook path"):
        Validator(Gang, accept, path="no-slash")
    assert webhook_path("mutate", GroupVersionKind("", "v1", "Pod")) == "/mutate--v1-pod"


async def test_a_folder_serves_what_is_below_it_and_exact_paths_come_first(tmp_path: Path) -> None:
    server = WebhookServer(certificates=FileCertificates(tmp_path))
    server.register_folder("/files", lambda request: Response(200, b"folder"))
    server.register("/files/special", lambda request: Response(200, b"special"))
    with pytest.raises(ConfigError, match="can't register duplicate path: /files"):
        server.register_folder("/files", lambda request: Response(200, b""))

    def answer(path: str) -> bytes | None:
        route = server._find(path)
        if route is None:
            return None
        response = route.handler(Request("GET", path))
        assert isinstance(response, Response)
        return response.body

    assert answer("/files/any/thing") == b"folder"
    assert answer("/files/special") == b"special"
    assert answer("/files") is None
    assert answer("/filesystem") is None


@pytest.mark.parametrize("waits", [False, True])
async def test_a_handler_that_fails_is_counted_as_500_and_is_no_longer_under_way(waits: bool) -> None:
    def fail(request: Request) -> Response:
        raise ValueError("bug")

    async def fail_later(request: Request) -> Response:
        raise ValueError("bug")

    metrics = RuntimeMetrics()
    handle = _instrumented(fail_later if waits else fail, metrics.webhook("/x"))
    with pytest.raises(ValueError, match="bug"):
        await handle(Request("POST", "/x"))  # type: ignore[misc]  # it raises before or after
    value = metrics.registry.value
    assert value("controller_runtime_webhook_requests_in_flight", "/x") == 0
    assert value("controller_runtime_webhook_requests_total", "/x", "500") == 1
    assert value("controller_runtime_webhook_requests_total", "/x", "200") == 0
    assert 0 <= metrics.webhook_latency.labelled("/x").sum < 60


def test_an_answer_that_need_not_wait_is_counted_and_timed() -> None:
    metrics = RuntimeMetrics()
    handle = _instrumented(lambda request: Response(404, b""), metrics.webhook("/x"))
    assert isinstance(handle(Request("POST", "/x")), Response)
    assert metrics.registry.value("controller_runtime_webhook_requests_in_flight", "/x") == 0
    assert metrics.registry.value("controller_runtime_webhook_requests_total", "/x", "404") == 1
    assert 0 <= metrics.webhook_latency.labelled("/x").sum < 600


async def test_what_fails_outside_of_a_review_is_answered_with_500(tmp_path: Path) -> None:
    def fail(request: Request) -> Response:
        raise ValueError("bug")

    async with serving(tmp_path, Validator(Gang, accept)) as (server, web, _):
        server.register("/fails", fail)
        assert await web.send("GET", "/fails") == (500, b"500 internal server error\n")


async def test_a_server_without_certificate_does_not_start(tmp_path: Path) -> None:
    server = WebhookServer(WebhookOptions(port=0), certificates=FileCertificates(tmp_path))
    server.register("/anything", lambda request: Response(200, b""))
    with pytest.raises(ConfigError, match="cannot read the serving certificate"):
        await server.start()
    with pytest.raises(QuarterdeckError, match="has not been started yet"):
        await server.check()
    disabled = WebhookServer(WebhookOptions(port=-1), certificates=FileCertificates(tmp_path))
    async with disabled:
        assert disabled.is_serving
        await disabled.check()


async def test_requests_are_traced_when_there_is_a_tracer(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []

    class Tracer(NoTracer):
        is_enabled = True  # type: ignore[misc]  # the point

        @contextmanager
        def span(self, name: str, attributes: Any = None, *, parent: str = "") -> Iterator[Any]:
            span = {"name": name, **(attributes or {})}
            seen.append(span)

            class Span:
                def set(self, key: str, value: Any) -> None:
                    span[key] = value

            yield Span()

    server = WebhookServer(certificates=FileCertificates(tmp_path), tracer=Tracer())
    server.add(Validator(Gang, accept))
    route = server._routes["/validate-example-io-v1-gang"]
    body = json.dumps(review(document())).encode()
    answer: Any = route.handler(Request("POST", "/x", "", JSON, body))
    assert json.loads((await answer).body)["response"]["allowed"] is True
    assert seen == [
        {"name": "webhook", "webhook": "/validate-example-io-v1-gang", "bytes": len(body), "code": 200}
    ]


async def test_a_started_server_passes_its_own_check(tmp_path: Path) -> None:
    async with serving(tmp_path, Validator(Gang, accept)) as (server, _, _):
        await server.check()


async def test_generated_configurations_make_an_api_server_call_us(tmp_path: Path) -> None:
    def check(admission: Admission, gang: Gang) -> None:
        admission.warn("checked")
        if gang.spec.replicas > 5:
            raise Denied("too many replicas")

    async with (
        embedded() as server,
        serving(tmp_path, Defaulter(Gang, default_queue), Validator(Gang, check, operations=("CREATE",))) as (
            hooks,
            _,
            authority,
        ),
    ):
        await install(client_of(server), crd(Gang))
        client = client_of(server)
        target = UrlTarget(f"https://localhost:{hooks.port}")
        publish = hooks.installer(client, "gangs", target)
        assert await publish(authority.pem)
        made = await client.create(
            Gang(metadata=ObjectMeta(name="a", namespace="default"), spec=GangSpec(replicas=2))
        )
        assert made.spec.queue == "default"
        with pytest.raises(Forbidden, match=r'"vgang.example.io" denied the request: too many replicas'):
            await client.create(
                Gang(metadata=ObjectMeta(name="b", namespace="default"), spec=GangSpec(replicas=6))
            )
        await client.create(ConfigMap(metadata=ObjectMeta(name="other", namespace="default")))
        before = [
            (await client.get(type(each), "gangs")).metadata.resource_version
            for each in webhook_configurations("gangs", hooks.webhooks, target)
        ]
        assert await publish(authority.pem), "applied again"
        after = [
            (await client.get(type(each), "gangs")).metadata.resource_version
            for each in webhook_configurations("gangs", hooks.webhooks, target)
        ]
        assert before == after, "nothing is written when nothing differs"


async def test_a_configuration_carries_every_option() -> None:
    from quarterdeck.api import LabelSelector

    rule = WebhookRule(("example.io",), ("v1",), ("gangs", "gangs/scale"), ("CREATE", "DELETE"), "Namespaced")
    hook = AdmissionHandler(
        "/x",
        lambda admission: None,
        is_mutating=True,
        name="x.example.io",
        rules=(rule,),
        failure_policy="Ignore",
        match_policy="Exact",
        side_effects="NoneOnDryRun",
        timeout=3,
        reinvocation="IfNeeded",
        namespace_selector=LabelSelector(match_labels={"team": "a"}),
        object_selector=LabelSelector(match_labels={"app": "b"}),
        match_conditions={"not-me": "request.userInfo.username != 'me'"},
        review_versions=("v1", "v1beta1"),
    )
    [made] = webhook_configurations("name", [hook], UrlTarget("https://h:1", b"pem"))
    assert made.to_dict()["webhooks"] == [
        {
            "name": "x.example.io",
            "clientConfig": {"url": "https://h:1/x", "caBundle": "cGVt"},
            "rules": [
                {
                    "operations": ["CREATE", "DELETE"],
                    "apiGroups": ["example.io"],
                    "apiVersions": ["v1"],
                    "resources": ["gangs", "gangs/scale"],
                    "scope": "Namespaced",
                }
            ],
            "failurePolicy": "Ignore",
            "matchPolicy": "Exact",
            "namespaceSelector": {"matchLabels": {"team": "a"}},
            "objectSelector": {"matchLabels": {"app": "b"}},
            "sideEffects": "NoneOnDryRun",
            "timeoutSeconds": 3,
            "admissionReviewVersions": ["v1", "v1beta1"],
            "reinvocationPolicy": "IfNeeded",
            "matchConditions": [{"name": "not-me", "expression": "request.userInfo.username != 'me'"}],
        }
    ]
    with pytest.raises(ConfigError, match="has no name or rules"):
        webhook_configurations(
            "name", [AdmissionHandler("/y", lambda admission: None)], UrlTarget("https://h")
        )
