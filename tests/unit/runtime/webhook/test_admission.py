"""Admission: outcomes, patches, chains, bad input, and the whole way through the embedded server."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.api import GroupVersionKind, ObjectMeta, crd
from quarterdeck.api.k8s import ConfigMap
from quarterdeck.client import apply_json_patch
from quarterdeck.errors import (
    ConfigError,
    ErrorCause,
    ErrorDetails,
    Forbidden,
    Invalid,
    QuarterdeckError,
    TransportError,
)
from quarterdeck.runtime.certificate import FileCertificates
from quarterdeck.runtime.log.field import current_fields
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.runtime.trace import NoTracer
from quarterdeck.runtime.webhook import (
    Admission,
    AdmissionHandler,
    AdmissionWebhook,
    Chain,
    Defaulter,
    Denied,
    Rule,
    UrlTarget,
    Validator,
    WebhookOptions,
    WebhookServer,
    webhook_configurations,
    webhook_path,
)
from quarterdeck.runtime.webhook.endpoint import AdmissionEndpoint
from quarterdeck.wire.http import Request, Response
from tests.unit.runtime.servicekit import Authority, Gang, GangSpec, Web, client_of, embedded, install

pytestmark = pytest.mark.real_time

JSON = {"content-type": "application/json"}
DYNAMIC = GroupVersionKind("example.io", "v1", "Gang")


def document(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.io/v1",
        "kind": "Gang",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": spec,
    }


def review(
    obj: Any = None, *, old: Any = None, operation: str = "CREATE", version: str = "v1", **request: Any
) -> dict[str, Any]:
    return {
        "apiVersion": f"admission.k8s.io/{version}",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u-1",
            "kind": {"group": "example.io", "version": "v1", "kind": "Gang"},
            "resource": {"group": "example.io", "version": "v1", "resource": "gangs"},
            "name": "train",
            "namespace": "default",
            "operation": operation,
            "userInfo": {"username": "ann", "groups": ["dev"], "extra": {"scopes": ["a", "b"]}},
            "object": obj,
            "oldObject": old,
            "dryRun": False,
            "options": {"fieldManager": "kubectl"},
            "somethingNew": {"added": "later"},
            **request,
        },
    }


async def ask(
    webhook: AdmissionWebhook, body: Any, *, panics: RuntimeMetrics | None = None
) -> dict[str, Any]:
    endpoint = AdmissionEndpoint(webhook, panics=panics.webhook_panics if panics is not None else None)
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = endpoint.handle(Request("POST", webhook.path, "", JSON, raw))
    response = answer if isinstance(answer, Response) else await answer
    assert response.status == 200
    decoded: dict[str, Any] = json.loads(response.body)
    assert decoded["kind"] == "AdmissionReview"
    return decoded


def patch_of(answer: dict[str, Any]) -> list[dict[str, Any]]:
    response = answer["response"]
    assert response["patchType"] == "JSONPatch"
    decoded: list[dict[str, Any]] = json.loads(b64decode(response["patch"]))
    return decoded


def accept(admission: Admission, gang: Gang) -> None:
    return None


def json_documents() -> st.SearchStrategy[Any]:
    names = st.sampled_from(
        [
            "apiVersion",
            "kind",
            "metadata",
            "spec",
            "name",
            "queue",
            "subGroups",
            "tags",
            "minMember",
            "odd",
            "request",
        ]
    )
    words = st.sampled_from(["example.io/v1", "Gang", "AdmissionReview", "admission.k8s.io/v1", "a", "", "Ü"])
    leaves = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | words
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=6)
    )


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_an_allowed_request_echoes_version_and_uid(version: str) -> None:
    answer = await ask(Validator(Gang, accept), review(document(), version=version))
    assert answer["apiVersion"] == f"admission.k8s.io/{version}"
    assert answer["response"] == {"uid": "u-1", "allowed": True, "status": {"metadata": {}, "code": 200}}


async def test_a_denial_is_403_with_the_message_and_warnings_travel_along() -> None:
    def check(admission: Admission, gang: Gang) -> None:
        admission.warn("w" * 300)
        admission.annotate("rule", "queue")
        raise Denied(f"queue {gang.spec.queue} is closed")

    answer = await ask(Validator(Gang, check), review(document(queue="q")))
    assert answer["response"] == {
        "uid": "u-1",
        "allowed": False,
        "status": {"metadata": {}, "code": 403, "reason": "Forbidden", "message": "queue q is closed"},
        "warnings": ["w" * 256],
        "auditAnnotations": {"rule": "queue"},
    }


async def test_a_denial_may_name_the_fields_at_fault() -> None:
    def check(admission: Admission, gang: Gang) -> None:
        raise Denied(
            "no", ErrorCause("FieldValueInvalid", "too many", "spec.replicas"), ErrorCause(message="late")
        )

    status = (await ask(Validator(Gang, check), review(document())))["response"]["status"]
    assert (status["code"], status["message"]) == (403, "no")
    assert status["details"] == {
        "causes": [
            {"reason": "FieldValueInvalid", "message": "too many", "field": "spec.replicas"},
            {"message": "late"},
        ]
    }


async def test_an_api_error_passes_through_word_for_word() -> None:
    causes = (ErrorCause("FieldValueInvalid", "must be small", "spec.replicas"),)

    async def check(admission: Admission, gang: Gang) -> None:
        await asyncio.sleep(0)
        raise Invalid("Gang is invalid", details=ErrorDetails(name="train", kind="Gang", causes=causes))

    status = (await ask(Validator(Gang, check), review(document())))["response"]["status"]
    assert (status["code"], status["reason"], status["message"]) == (422, "Invalid", "Gang is invalid")
    assert status["details"]["causes"] == [
        {"reason": "FieldValueInvalid", "message": "must be small", "field": "spec.replicas"}
    ]


async def test_operations_reach_their_functions() -> None:
    seen: list[Any] = []
    validator = Validator(
        Gang,
        lambda admission, gang: seen.append(("check", gang.spec.queue)),
        create=lambda admission, gang: seen.append(("create", gang.spec.queue)),
        update=lambda admission, old, new: seen.append(("update", old.spec.queue, new.spec.queue)),
        delete=lambda admission, gang: seen.append(("delete", gang.spec.queue)),
    )
    await ask(validator, review(document(queue="a")))
    await ask(validator, review(document(queue="b"), old=document(queue="a"), operation="UPDATE"))
    await ask(validator, review(None, old=document(queue="c"), operation="DELETE"))
    connect = await ask(validator, review(None, operation="CONNECT"))
    assert connect["response"]["allowed"] is True
    assert seen == [("check", "a"), ("create", "a"), ("check", "b"), ("update", "a", "b"), ("delete", "c")]
    unknown = await ask(validator, review(document(), operation="PATCH"))
    assert unknown["response"]["status"]["code"] == 400
    assert unknown["response"]["status"]["message"] == 'unknown operation "PATCH"'


async def test_several_checks_stop_at_the_first_denial_sync_or_async() -> None:
    ran: list[str] = []

    def one(admission: Admission, gang: Gang) -> None:
        ran.append("one")

    async def two(admission: Admission, gang: Gang) -> None:
        ran.append("two")
        raise Denied("no")

    def three(admission: Admission, gang: Gang) -> None:
        ran.append("three")

    update = review(document(), old=document(), operation="UPDATE")
    for body in (review(document()), update):
        answer = await ask(
            Validator(Gang, one, two, three, update=lambda a, o, n: ran.append("update")), body
        )
        assert answer["response"]["status"]["message"] == "no"
    assert ran == ["one", "two", "one", "two"]


async def test_an_undecodable_or_foreign_object_is_400() -> None:
    validator = Validator(Gang, accept)
    wrong_type = await ask(validator, review(document(queue=7)))
    assert wrong_type["response"]["status"]["code"] == 400
    assert "spec.queue" in wrong_type["response"]["status"]["message"]
    pod = await ask(validator, review({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}))
    assert pod["response"]["status"] == {
        "metadata": {}, "code": 400, "message": "expected a Gang but got a Pod"
    }  # fmt: skip
    missing = await ask(validator, review(None))
    assert missing["response"]["status"]["code"] == 400
    version = await ask(validator, review({**document(), "apiVersion": "example.io/v2"}))
    assert version["response"]["status"]["message"] == "expected Gang of example.io/v1 but got example.io/v2"


@settings(max_examples=300)
@given(st.binary(max_size=200) | json_documents().map(lambda value: json.dumps(value).encode()))
def test_any_body_gets_a_review_with_a_client_error(body: bytes) -> None:
    answer = asyncio.run(ask(Validator(Gang, accept), body))
    assert answer["apiVersion"] == "admission.k8s.io/v1"
    assert answer["response"]["allowed"] is False
    assert answer["response"]["status"]["code"] == 400


@settings(max_examples=300)
@given(json_documents(), st.sampled_from(["CREATE", "UPDATE", "DELETE"]))
def test_any_object_is_judged_or_refused_never_a_panic(obj: Any, operation: str) -> None:
    body = review(obj, old=obj, operation=operation)
    validator = Validator(Gang, accept, delete=accept)
    for webhook in (validator, Defaulter(Gang, default_queue), Defaulter(DYNAMIC, lambda a, o: None)):
        response = asyncio.run(ask(webhook, body))["response"]
        assert response["allowed"] is True or response["status"]["code"] == 400, response


async def test_a_panic_is_500_counted_and_does_not_stop_the_server() -> None:
    metrics = RuntimeMetrics()

    def broken(admission: Admission, gang: Gang) -> None:
        raise KeyError("oops")

    async def broken_later(admission: Admission, gang: Gang) -> None:
        await asyncio.sleep(0)
        raise RuntimeError("later")

    for check, text in ((broken, "'oops'"), (broken_later, "later")):
        answer = await ask(Validator(Gang, check), review(document()), panics=metrics)
        assert answer["response"]["uid"] == "u-1"
        assert answer["response"]["status"]["code"] == 500
        assert answer["response"]["status"]["message"] == f"panic: {text} [recovered]"
    assert metrics.webhook_panics.value == 2


async def test_a_cluster_that_cannot_be_read_is_500_and_no_panic() -> None:
    metrics = RuntimeMetrics()

    async def check(admission: Admission, gang: Gang) -> None:
        raise TransportError("no route")

    answer = await ask(Validator(Gang, check), review(document()), panics=metrics)
    assert answer["response"]["status"] == {"metadata": {}, "code": 500, "message": "no route"}
    assert metrics.webhook_panics.value == 0


@pytest.mark.parametrize(
    ("field", "value", "place", "told"),
    [
        ("message", "fine", "status", {"metadata": {}, "code": 200, "message": "fine"}),
        ("warnings", ["old"], "warnings", ["old"]),
        ("audit_annotations", {"k": "v"}, "auditAnnotations", {"k": "v"}),
    ],
)
async def test_each_thing_that_an_admission_says_is_told(
    field: str, value: Any, place: str, told: Any
) -> None:
    def handle(admission: Admission) -> None:
        if isinstance(value, str):
            setattr(admission, field, value)
        elif isinstance(value, list):
            getattr(admission, field).extend(value)
        else:
            getattr(admission, field).update(value)

    hook = AdmissionHandler("/any", handle)
    assert not hook.is_mutating
    answer = await ask(hook, review(document()))
    assert answer["response"]["allowed"] is True
    assert answer["response"][place] == told


async def test_a_handler_sees_the_whole_request_and_logs_with_its_keys() -> None:
    seen: dict[str, Any] = {}

    def handle(admission: Admission) -> None:
        seen.update(
            gvk=admission.gvk,
            gvr=admission.gvr,
            request_gvk=admission.request_gvk,
            request_gvr=admission.request_gvr,
            user=admission.user,
            dry_run=admission.is_dry_run,
            options=admission.options,
            subresource=admission.subresource,
            document=admission.document(),
            old=admission.old_document(),
            fields=dict(current_fields()),
        )
        admission.message = "fine"

    kind = {"group": "example.io", "version": "v1alpha1", "kind": "Gang"}
    body = review(
        document(),
        old=document(queue="o"),
        operation="UPDATE",
        dryRun=True,
        subResource="scale",
        requestKind=kind,
    )
    answer = await ask(AdmissionHandler("/any", handle), body)
    assert answer["response"]["status"] == {"metadata": {}, "code": 200, "message": "fine"}
    assert seen["gvk"] == DYNAMIC
    assert seen["request_gvk"].version == "v1alpha1"
    assert seen["gvr"].resource == seen["request_gvr"].resource == "gangs"
    assert (seen["user"].username, seen["user"].groups) == ("ann", ("dev",))
    assert dict(seen["user"].extra) == {"scopes": ("a", "b")}
    assert (seen["dry_run"], seen["subresource"]) == (True, "scale")
    assert seen["options"] == {"fieldManager": "kubectl"}
    assert seen["document"]["kind"] == "Gang"
    assert seen["old"]["spec"] == {"queue": "o"}
    assert seen["fields"]["Gang"] == {"name": "train", "namespace": "default"}
    assert (seen["fields"]["webhookGroup"], seen["fields"]["webhookKind"]) == ("example.io", "Gang")
    assert (seen["fields"]["user"], seen["fields"]["requestID"]) == ("ann", "u-1")
    assert seen["fields"]["resource"] == {"group": "example.io", "version": "v1", "resource": "gangs"}


def default_queue(admission: Admission, gang: Gang) -> Gang:
    return gang if gang.spec.queue else gang.evolve(spec=gang.spec.evolve(queue="default"))


async def test_an_unchanged_object_is_allowed_without_a_patch() -> None:
    answer = await ask(Defaulter(Gang, default_queue), review(document(queue="mine")))
    assert answer["response"] == {"uid": "u-1", "allowed": True, "status": {"metadata": {}, "code": 200}}
    equal = Defaulter(Gang, lambda admission, gang: gang.evolve(spec=gang.spec.evolve()))
    assert "patch" not in (await ask(equal, review(document(queue="mine"))))["response"]


async def test_a_patch_holds_the_change_and_nothing_else() -> None:
    raw = document(tags={}, subGroups=[{"name": "a"}], minMember=3)
    answer = await ask(Defaulter(Gang, default_queue), review(raw))
    # not replicas (a default of the class), not tags (empty, so the class leaves it out)
    assert patch_of(answer) == [{"op": "add", "path": "/spec/queue", "value": "default"}]


async def test_unknown_fields_survive_a_mutation_at_every_depth() -> None:
    raw = document(
        subGroups=[{"name": "a", "future": {"deep": [1, {"x": None}]}}, {"name": "b", "minMember": 2}],
        future="kept",
    )
    raw["metadata"]["futureMeta"] = "kept"
    raw["topLevel"] = ["kept"]

    def change(admission: Admission, gang: Gang) -> Gang:
        draft = gang.draft()
        draft.spec.queue = "q"
        draft.spec.sub_groups[0].min_member = 4
        draft.metadata.labels["team"] = "a"
        return draft.done()

    operations = patch_of(await ask(Defaulter(Gang, change), review(raw)))
    assert not [operation for operation in operations if operation["op"] == "remove"]
    result = apply_json_patch(raw, operations)
    assert result["spec"]["subGroups"][0] == {
        "name": "a", "future": {"deep": [1, {"x": None}]}, "minMember": 4
    }  # fmt: skip
    assert result["spec"]["subGroups"][1] == {"name": "b", "minMember": 2}
    assert result["spec"]["future"] == "kept"
    assert result["topLevel"] == ["kept"]
    assert result["metadata"] == {**raw["metadata"], "labels": {"team": "a"}}


async def test_removing_a_list_element_keeps_what_the_others_had() -> None:
    raw = document(subGroups=[{"name": "a"}, {"name": "b", "future": 1}, {"name": "c"}])

    def change(admission: Admission, gang: Gang) -> Gang:
        return gang.evolve(spec=gang.spec.evolve(sub_groups=gang.spec.sub_groups[1:]))

    result = apply_json_patch(raw, patch_of(await ask(Defaulter(Gang, change), review(raw))))
    assert result["spec"]["subGroups"] == [{"name": "b", "future": 1}, {"name": "c"}]


async def test_changes_run_in_order_and_delete_asks_nobody() -> None:
    def twice(admission: Admission, gang: Gang) -> Gang:
        return gang.evolve(spec=gang.spec.evolve(replicas=gang.spec.replicas * 2))

    async def plus_one(admission: Admission, gang: Gang) -> Gang:
        await asyncio.sleep(0)
        return gang.evolve(spec=gang.spec.evolve(replicas=gang.spec.replicas + 1))

    defaulter = Defaulter(Gang, twice, plus_one, twice)
    operations = patch_of(await ask(defaulter, review(document(replicas=3))))
    assert operations == [{"op": "replace", "path": "/spec/replicas", "value": 14}]
    deleted = await ask(defaulter, review(None, old=document(), operation="DELETE"))
    assert deleted["response"]["allowed"] is True
    assert "patch" not in deleted["response"]


async def test_a_defaulter_that_forgets_to_return_is_a_panic_and_may_deny() -> None:
    forgetful = Defaulter(Gang, lambda admission, gang: None)  # type: ignore[arg-type,return-value]  # the point
    answer = await ask(forgetful, review(document()))
    assert (
        answer["response"]["status"]["message"]
        == "panic: a defaulting function must return the object [recovered]"
    )

    def deny(admission: Admission, gang: Gang) -> Gang:
        raise Denied("closed")

    assert (await ask(Defaulter(Gang, deny), review(document())))["response"]["status"]["code"] == 403


async def test_dictionaries_may_be_changed_in_place() -> None:
    def change(admission: Admission, gang: dict[str, Any]) -> None:
        gang["spec"]["queue"] = "q"

    operations = patch_of(await ask(Defaulter(DYNAMIC, change), review(document(future=1))))
    assert operations == [{"op": "add", "path": "/spec/queue", "value": "q"}]
    assert "patch" not in (await ask(Defaulter(DYNAMIC, change), review(document(queue="q"))))["response"]


async def test_a_chain_feeds_each_the_object_of_the_one_before_and_sends_one_patch() -> None:
    def replicas(admission: Admission, gang: dict[str, Any]) -> dict[str, Any]:
        assert gang["spec"]["queue"] == "default", "sees the change of the one before"
        admission.warn("scaled")
        return {**gang, "spec": {**gang["spec"], "replicas": 5}}

    def check(admission: Admission, gang: Gang) -> None:
        if gang.spec.replicas > 4:
            admission.warn("large")
        if gang.spec.min_member == 0:
            raise Denied("minMember must be at least 1")

    chain = Chain(Defaulter(Gang, default_queue), Defaulter(DYNAMIC, replicas), Validator(Gang, check))
    assert (chain.path, chain.is_mutating) == ("/mutate-example-io-v1-gang", True)
    answer = await ask(chain, review(document(future=1)))
    assert apply_json_patch(document(future=1), patch_of(answer))["spec"] == {
        "future": 1, "queue": "default", "replicas": 5
    }  # fmt: skip
    assert answer["response"]["warnings"] == ["scaled", "large"]
    denied = await ask(chain, review(document(minMember=0)))
    assert denied["response"]["allowed"] is False
    assert denied["response"]["warnings"] == ["scaled", "large"]
    assert "patch" not in denied["response"]


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


async def test_a_path_is_registered_once_and_must_be_callable(tmp_path: Path) -> None:
    server = WebhookServer(certificates=FileCertificates(tmp_path))
    server.add(Validator(Gang, accept))
    with pytest.raises(ConfigError, match="can't register duplicate path: /validate-example-io-v1-gang"):
        server.add(Validator(Gang, accept))
    with pytest.raises(ConfigError, match="invalid webhook path"):
        Validator(Gang, accept, path="no-slash")
    assert webhook_path("mutate", GroupVersionKind("", "v1", "Pod")) == "/mutate--v1-pod"


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

    rule = Rule(("example.io",), ("v1",), ("gangs", "gangs/scale"), ("CREATE", "DELETE"), "Namespaced")
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
