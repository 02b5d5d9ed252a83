"""Admission: outcomes, patches, chains, bad input, and the whole way through the embedded server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.errors import (
    ErrorCause,
    ErrorDetails,
    Invalid,
    TransportError,
)
from quarterdeck.runtime.log.field import current_fields
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.runtime.webhook import (
    Admission,
    AdmissionHandler,
    Defaulter,
    Denied,
    Validator,
)
from tests.unit.runtime.servicekit import Gang
from tests.unit.runtime.webhook.admissionkit import DYNAMIC, accept, ask, default_queue, document, review

pytestmark = pytest.mark.real_time


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


async def test_all_checks_are_asked_in_turn_whether_they_wait_or_not() -> None:
    ran: list[str] = []

    async def waiting(admission: Admission, gang: Gang) -> None:
        ran.append("waiting")

    def plain(admission: Admission, gang: Gang) -> None:
        ran.append("plain")

    update = review(document(), old=document(), operation="UPDATE")
    for body in (review(document()), update):
        answer = await ask(Validator(Gang, waiting, plain, waiting, plain), body)
        assert answer["response"]["allowed"]
    assert ran == ["waiting", "plain"] * 4


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
            name=admission.name,
            namespace=admission.namespace,
            username=admission.username,
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
    assert (seen["name"], seen["namespace"], seen["username"]) == ("train", "default", "ann")
    assert seen["options"] == {"fieldManager": "kubectl"}
    assert seen["document"]["kind"] == "Gang"
    assert seen["old"]["spec"] == {"queue": "o"}
    assert seen["fields"]["Gang"] == {"name": "train", "namespace": "default"}
    assert (seen["fields"]["webhookGroup"], seen["fields"]["webhookKind"]) == ("example.io", "Gang")
    assert (seen["fields"]["user"], seen["fields"]["requestID"]) == ("ann", "u-1")
    assert seen["fields"]["resource"] == {"group": "example.io", "version": "v1", "resource": "gangs"}


@pytest.mark.parametrize("kind", [Gang, DYNAMIC], ids=["class", "dictionary"])
@pytest.mark.parametrize("waits", [False, True], ids=["plain", "waiting"])
async def test_an_update_is_shown_before_and_after_once_all_checks_passed(kind: Any, waits: bool) -> None:
    seen: list[Any] = []

    async def later() -> None:
        seen.append("waited")

    def check(admission: Admission, obj: Any) -> Any:
        return later() if waits else None

    def update(admission: Admission, old: Any, new: Any) -> Any:
        queues = [each["spec"]["queue"] if isinstance(each, dict) else each.spec.queue for each in (old, new)]
        seen.append(queues)
        return later() if waits else None

    body = review(document(queue="new"), old=document(queue="old"), operation="UPDATE")
    answer = await ask(Validator(kind, check, update=update), body)
    assert answer["response"]["allowed"] is True
    assert seen == (["waited", ["old", "new"], "waited"] if waits else [["old", "new"]])


async def test_a_check_of_an_update_that_need_not_wait_is_asked_after_one_that_must() -> None:
    seen: list[str] = []

    async def check(admission: Admission, gang: Gang) -> None:
        seen.append("check")

    def update(admission: Admission, old: Gang, new: Gang) -> None:
        seen.append("update")

    body = review(document(), old=document(), operation="UPDATE")
    assert (await ask(Validator(Gang, check, update=update), body))["response"]["allowed"] is True
    assert seen == ["check", "update"]
