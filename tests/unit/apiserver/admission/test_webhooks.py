"""Admission webhooks over TLS: order, patches, refusals, failures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from quarterdeck.apiserver.admission.attributes import Attributes
from quarterdeck.apiserver.admission.chain import AdmissionChain
from quarterdeck.apiserver.status import StatusError
from quarterdeck.apiserver.webhookclient import WebhookClient

from .hookendpoint import Answer, HookEndpoint, admission, hook_endpoint, http
from .world import ALICE, World, rule

Json = dict[str, Any]
Hooks = Callable[[HookEndpoint], list[Json]]

MUTATING = "mutatingwebhookconfigurations"
VALIDATING = "validatingwebhookconfigurations"


def hook(server: HookEndpoint, name: str = "a", **changes: Any) -> Json:
    return {
        "name": f"{name}.example.com",
        "clientConfig": server.config(f"/{name}"),
        "rules": [rule(operations=["*"])],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 5,
        **changes,
    }


class Run:
    """One write through a chain with one configuration."""

    def __init__(self, kind: str, answer: Answer, hooks: Hooks | None = None) -> None:
        self._kind = kind
        self._answer = answer
        self._hooks = hooks or (lambda server: [hook(server)])
        self.world = World()
        self.reviews: list[Json] = []
        self.paths: list[str] = []

    def __call__(self, attributes: Attributes | None = None) -> Attributes:
        return asyncio.run(self._run(attributes or self.world.request()))

    async def _run(self, attributes: Attributes) -> Attributes:
        async with hook_endpoint(self._answer) as server:
            client = WebhookClient()
            chain = AdmissionChain(self.world, client)
            chain.apply_change(self._kind, "c", {"webhooks": self._hooks(server)})
            try:
                await chain.mutate(attributes)
                await chain.validate(attributes)
            finally:
                client.close()
                self.reviews = [review["request"] for review in server.reviews()]
                self.paths = [path.partition("?")[0].strip("/") for path, _ in server.requests]
        return attributes


def allow(path: str, body: bytes) -> bytes:
    return admission(body)


def by_path(**responses: Json) -> Answer:
    """Answers per hook name; a patch may look at the object."""

    def answer(path: str, body: bytes) -> bytes:
        return admission(body, **responses.get(path.partition("?")[0].strip("/"), {}))

    return answer


def add(path: str, value: Any) -> Json:
    return {"patch": [{"op": "add", "path": path, "value": value}]}


def refused(run: Run, attributes: Attributes | None = None) -> Json:
    with pytest.raises(StatusError) as raised:
        run(attributes)
    return raised.value.to_status()


def test_the_review_tells_everything_about_the_write() -> None:
    run = Run(VALIDATING, allow)
    old = {"metadata": {"name": "x"}, "data": {"k": "1"}}
    new = {"metadata": {"name": "x"}, "data": {"k": "2"}}
    run(run.world.request("UPDATE", obj=new, old=old))
    [request] = run.reviews
    assert request.pop("uid")
    kind = {"group": "", "version": "v1", "kind": "ConfigMap"}
    resource = {"group": "", "version": "v1", "resource": "configmaps"}
    whole = {"apiVersion": "v1", "kind": "ConfigMap"}
    new["metadata"]["namespace"] = "team"
    assert request == {
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": "x",
        "namespace": "team",
        "operation": "UPDATE",
        "userInfo": {"username": "alice", "groups": ["devs", "system:authenticated"]},
        "object": {**whole, **new},
        "oldObject": {**whole, **old},
        "dryRun": False,
        "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"},
    }


def test_subresources_are_named() -> None:
    run = Run(VALIDATING, allow, lambda s: [hook(s, rules=[rule("configmaps/status", operations=["*"])])])
    run(run.world.request("UPDATE", subresource="status"))
    assert run.reviews[0]["subResource"] == run.reviews[0]["requestSubResource"] == "status"


def test_an_equivalent_version_is_converted_for_the_webhook_and_back() -> None:
    rules = [rule("things", apiGroups=["ex.io"], apiVersions=["v2"])]
    run = Run(MUTATING, by_path(a=add("/metadata/labels", {"l": "1"})), lambda s: [hook(s, rules=rules)])
    attributes = run(run.world.request(group="ex.io", resource="things"))
    request = run.reviews[0]
    assert request["kind"]["version"] == request["resource"]["version"] == "v2"
    assert request["requestKind"]["version"] == request["requestResource"]["version"] == "v1"
    assert request["object"]["apiVersion"] == "ex.io/v2"
    assert attributes.object == {
        "apiVersion": "ex.io/v1",
        "kind": "Thing",
        "metadata": {"name": "x", "namespace": "team", "labels": {"l": "1"}},
    }


def test_mutating_webhooks_run_in_order_each_on_the_outcome_of_the_last() -> None:
    run = Run(
        MUTATING,
        by_path(a=add("/data", {"a": "1"}), b=add("/data/b", "2")),
        lambda s: [hook(s, "a"), hook(s, "b")],
    )
    attributes = run()
    assert run.paths == ["a", "b"]
    assert run.reviews[1]["object"]["data"] == {"a": "1"}
    assert attributes.object is not None
    assert attributes.object["data"] == {"a": "1", "b": "2"}


def test_a_webhook_that_asks_for_it_runs_again_after_a_later_change() -> None:
    run = Run(
        MUTATING,
        by_path(b=add("/data", {"k": "b"})),
        lambda s: [hook(s, "a", reinvocationPolicy="IfNeeded"), hook(s, "b")],
    )
    run()
    assert run.paths == ["a", "b", "a"]
    assert run.reviews[2]["object"]["data"] == {"k": "b"}


def test_nothing_runs_again_when_nothing_changed_afterwards() -> None:
    run = Run(
        MUTATING,
        by_path(a=add("/data", {"k": "a"})),
        lambda s: [hook(s, "a", reinvocationPolicy="IfNeeded"), hook(s, "b", reinvocationPolicy="IfNeeded")],
    )
    run()
    assert run.paths == ["a", "b"]


def test_validating_webhooks_run_at_the_same_time_and_the_first_in_the_list_is_reported() -> None:
    async def run() -> tuple[StatusError, list[str]]:
        world = World()
        arrived = asyncio.Barrier(2)

        async def answer(path: str, body: bytes) -> bytes:
            await arrived.wait()
            if path.startswith("/a"):
                await asyncio.sleep(0.05)
            return admission(body, allowed=False, status={"message": path[1]}, warnings=[path[1]])

        async with hook_endpoint(answer) as server, asyncio.timeout(5):
            client = WebhookClient()
            chain = AdmissionChain(world, client)
            chain.apply_change(VALIDATING, "c", {"webhooks": [hook(server, "a"), hook(server, "b")]})
            with pytest.raises(StatusError) as raised:
                await chain.validate(world.request())
            client.close()
            return raised.value, world.warnings

    error, warnings = asyncio.run(run())
    assert error.message == 'admission webhook "a.example.com" denied the request: a'
    assert sorted(warnings) == ["a", "b"]


@pytest.mark.parametrize(
    ("result", "code", "message", "reason"),
    [
        (None, 400, "denied the request without explanation", None),
        ({"reason": "Foo"}, 400, "denied the request: Foo", "Foo"),
        ({"message": "m", "code": 200}, 400, "denied the request: m", None),
        ({"message": "full", "code": 422, "reason": "Invalid"}, 422, "denied the request: full", "Invalid"),
    ],
)
def test_refusals(result: Json | None, code: int, message: str, reason: str | None) -> None:
    for kind in (MUTATING, VALIDATING):
        status = refused(Run(kind, by_path(a={"allowed": False, "status": result})))
        assert status["code"] == code
        assert status["message"] == f'admission webhook "a.example.com" {message}'
        assert status.get("reason") == reason


def test_details_of_a_refusal_are_kept() -> None:
    details = {"kind": "k", "causes": [{"message": "c"}]}
    response = {"allowed": False, "status": {"message": "m", "details": details}}
    assert refused(Run(VALIDATING, by_path(a=response)))["details"] == details


BOOM = 'failed to call webhook: an error on the server ("boom") has prevented the request from succeeding'
OTHER_VERSION = (
    "failed to call webhook: converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion"
)
NO_BOOL = (
    "failed to call webhook: json: cannot unmarshal string into Go struct field "
    "AdmissionResponse.response.allowed of type bool"
)
NO_CODE = (
    "failed to call webhook: json: cannot unmarshal string into Go struct field "
    "Status.response.status.code of type int32"
)
NO_PATCH = (
    'failed calling webhook "a.example.com": received invalid webhook response: '
    "webhook returned response.patchType but not response.patch"
)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (
            lambda path, body: http(b"boom", status=500, media="text/plain"),
            BOOM,
        ),
        (lambda path, body: http({}), "received invalid webhook response: webhook response was absent"),
        (
            lambda path, body: http(
                {"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "response": {}}
            ),
            OTHER_VERSION,
        ),
        (
            by_path(a={"allowed": False, "status": {"code": "409"}}),
            NO_CODE,
        ),
        (
            by_path(a={"allowed": "yes"}),
            NO_BOOL,
        ),
        (
            by_path(a=add("/x", 1)),
            "received invalid webhook response: validating webhook may not return response.patch",
        ),
    ],
)
def test_calls_without_a_usable_answer_fail_the_write_or_are_ignored(answer: Answer, text: str) -> None:
    status = refused(Run(VALIDATING, answer))
    assert status["code"] == 500
    assert status["reason"] == "InternalError"
    assert status["message"] == f'Internal error occurred: failed calling webhook "a.example.com": {text}'
    Run(VALIDATING, answer, lambda s: [hook(s, failurePolicy="Ignore")])()


def test_a_foreign_uid_is_refused() -> None:
    status = refused(Run(VALIDATING, by_path(a={"uid": "other"})))
    assert 'received invalid webhook response: expected response.uid="' in status["message"]
    assert status["message"].endswith('got "other"')


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (
            {"patchType": "JSONPatch"},
            NO_PATCH,
        ),
        (
            {"patch": [{"op": "add", "path": "/a", "value": 1}], "patchType": "Foo"},
            'failed calling webhook "a.example.com": unsupported patch type "Foo"',
        ),
        (
            add("/a/b", 1),
            'add operation does not apply: doc is missing path: "/a/b": missing value',
        ),
        (
            add("/data", {"a": 1}),
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
    ],
)
def test_patches_that_cannot_be_used(response: Json, text: str) -> None:
    assert refused(Run(MUTATING, by_path(a=response)))["message"] == f"Internal error occurred: {text}"


def test_a_deletion_cannot_be_patched() -> None:
    run = Run(MUTATING, by_path(a=add("/data", {})))
    status = refused(run, run.world.request("DELETE", old={"metadata": {"name": "x"}}))
    assert status["message"] == (
        'Internal error occurred: admission webhook "a.example.com" attempted to modify the object, '
        "which is not supported for this operation"
    )


def test_a_patch_may_not_move_the_object_to_another_namespace() -> None:
    status = refused(Run(MUTATING, by_path(a=add("/metadata/namespace", "other"))))
    assert status["code"] == 400
    assert status["message"].startswith("the namespace of the provided object does not match")


def test_a_patch_may_not_turn_the_object_into_another_kind() -> None:
    status = refused(Run(MUTATING, by_path(a=add("/kind", "Secret"))))
    assert status["message"].startswith(
        'Internal error occurred: no kind "Secret" is registered for version "v1"'
    )


def test_field_ownership_that_a_webhook_broke_is_put_back() -> None:
    run = Run(MUTATING, by_path(a=add("/metadata/managedFields", [{"manager": "m", "operation": "Walk"}])))
    owned = {"name": "x", "managedFields": [{"manager": "me"}]}
    attributes = run(run.world.request(obj={"metadata": owned}))
    assert (attributes.object or {})["metadata"]["managedFields"] == [{"manager": "me"}]
    assert run.world.warnings[0].startswith(".metadata.managedFields was in an invalid state after admission")


def test_dry_run_needs_a_webhook_without_side_effects() -> None:
    run = Run(VALIDATING, allow, lambda s: [hook(s, sideEffects="Some")])
    status = refused(run, run.world.request(dry_run=True))
    assert (status["code"], status["reason"]) == (400, "BadRequest")
    assert status["message"] == 'admission webhook "a.example.com" does not support dry run'
    quiet = Run(VALIDATING, allow, lambda s: [hook(s, sideEffects="NoneOnDryRun")])
    quiet(quiet.world.request(dry_run=True))
    assert quiet.reviews[0]["dryRun"] is True


def test_warnings_reach_the_client() -> None:
    run = Run(VALIDATING, by_path(a={"warnings": ["careful now"]}))
    run()
    assert run.world.warnings == ["careful now"]


def test_conditions_decide_whether_a_webhook_is_called() -> None:
    conditions = [{"name": "labelled", "expression": "has(object.metadata.labels)"}]
    run = Run(VALIDATING, by_path(a={"allowed": False}), lambda s: [hook(s, matchConditions=conditions)])
    run()
    assert run.paths == []
    labelled = {"metadata": {"name": "x", "labels": {"a": "b"}}}
    assert refused(run, run.world.request(obj=labelled))["code"] == 400


def test_conditions_that_fail_refuse_or_skip() -> None:
    conditions = [{"name": "c", "expression": "object.nope == 1"}]
    run = Run(VALIDATING, allow, lambda s: [hook(s, matchConditions=conditions)])
    status = refused(run)
    assert status["code"] == 403
    assert status["message"] == (
        "configmaps \"x\" is forbidden: expression 'object.nope == 1' resulted in error: no such key: nope"
    )
    skipped = Run(VALIDATING, allow, lambda s: [hook(s, matchConditions=conditions, failurePolicy="Ignore")])
    skipped()
    assert skipped.paths == []


def test_reviews_of_the_old_version_are_sent_where_only_that_is_accepted() -> None:
    run = Run(VALIDATING, allow, lambda s: [hook(s, admissionReviewVersions=["v1beta1"])])
    run()
    assert len(run.reviews) == 1


def test_only_covered_writes_need_admission() -> None:
    world = World()
    chain = AdmissionChain(world, WebhookClient())
    key = ("", "configmaps", "", "CREATE")
    assert not chain.needs_admission(*key, ALICE)
    entry = {
        "name": "a",
        "rules": [rule("configmaps", "*/*", apiGroups=["*"])],
        "clientConfig": {"url": "https://x"},
    }
    chain.apply_change(VALIDATING, "c", {"webhooks": [entry]})
    assert chain.needs_admission(*key, ALICE)
    assert not chain.needs_admission("", "configmaps", "", "DELETE", ALICE)
    assert not chain.needs_admission("admissionregistration.k8s.io", VALIDATING, "", "DELETE", ALICE)
    chain.apply_change(VALIDATING, "c", None)
    assert not chain.needs_admission(*key, ALICE)


def test_reviews_are_plain_json() -> None:
    run = Run(VALIDATING, allow)
    run(run.world.request(obj={"metadata": {"name": "ü"}, "data": {"k": "\u2028"}}))
    assert json.loads(json.dumps(run.reviews[0]))["object"]["data"] == {"k": "\u2028"}


@pytest.mark.parametrize("change", ["deleted", "moved"])
def test_the_idle_connections_of_a_webhook_that_is_gone_are_closed(change: str) -> None:
    async def run() -> bool:
        async with hook_endpoint(allow) as server:
            client, world = WebhookClient(), World()
            chain = AdmissionChain(world, client)
            chain.apply_change(VALIDATING, "c", {"webhooks": [hook(server)]})
            await chain.validate(world.request())
            [[(connection, _)]] = client._idle.values()
            moved = {"webhooks": [hook(server, clientConfig={"url": "https://127.0.0.1:1/x"})]}
            chain.apply_change(VALIDATING, "c", None if change == "deleted" else moved)
            closed: bool = connection.closed
            client.close()
            return closed

    assert asyncio.run(run())
