"""Admission and schema cases of kai."""

from __future__ import annotations

import copy
import itertools
import json
import secrets
from typing import Any, Final

from tests.harness.case import Case, CaseFailure, expect_equal
from tests.harness.kind import KnownWords
from tests.harness.objects import ServerObjects, warnings_of
from tests.harness.run import Run
from tests.harness.wire import Answer
from tests.harness.words import words

from .server import KaiServer, judged, message_of, server_of

Json = dict[str, Any]

_JSON: Final = {"Content-Type": "application/json"}
_PATHS: Final = {
    "PodGroup": "/validate-scheduling-run-ai-v2alpha2-podgroup",
    "Queue": "/validate-scheduling-run-ai-v2-queue",
}
_OPERATIONS: Final = frozenset({"CREATE", "UPDATE", "DELETE"})
_numbers: Final = itertools.count()


class KaiKind(KnownWords):
    """What the kinds share: the server and the operator of the run."""

    def run(self, case: Case, run: Run) -> None:
        self.refuse_unknown(case)
        self.check(case, server_of(run))

    def check(self, case: Case, server: KaiServer) -> None:
        raise NotImplementedError


class AdmissionKind(KaiKind):
    """One request about a PodGroup: to the webhook itself, and through the API server."""

    given = words("object", "oldObject")
    when = words("subresource", operation=_OPERATIONS)
    then = words("allowed", "message")

    def check(self, case: Case, server: KaiServer) -> None:
        if "subresource" not in case.when:
            _check_review(case, server)
        objects = server.connect()
        server.register(objects)
        with server.namespace(objects) as namespace:
            answer = _perform(case, objects, lambda each: _moved(each, namespace))
        _check_answer(case, answer)


class QueueAdmissionKind(KaiKind):
    """One request about a Queue."""

    given = words("object", "oldObject")
    when = words(operation=_OPERATIONS)
    then = words("allowed", "message", "warnings")

    def check(self, case: Case, server: KaiServer) -> None:
        _check_review(case, server)
        objects = server.connect()
        server.register(objects)
        name = _fresh_name(case.given["object"])
        try:
            answer = _perform(case, objects, lambda each: _renamed(each, name))
            _check_answer(case, answer)
            if "warnings" in case.then:
                expect_equal("warnings", case.then["warnings"], warnings_of(answer))
        finally:
            objects.delete(_renamed(case.given["object"], name))


class SchemaKind(KaiKind):
    """A write with nothing but the definitions in the way."""

    given = words("object", "oldObject")
    when = words(operation=_OPERATIONS)
    then = words("allowed", "field", "messageContains")

    def check(self, case: Case, server: KaiServer) -> None:
        objects = server.connect()
        name = _fresh_name(case.given["object"])
        try:
            answer = _perform(case, objects, lambda each: _renamed(each, name), is_judged=False)
        finally:
            objects.delete(_renamed(case.given["object"], name))
        if case.then["allowed"]:
            expect_equal("accepted", True, answer.status < 300, answer.text())
            return
        expect_equal("status", 422, answer.status, answer.text())
        for key in ("field", "messageContains"):
            if key in case.then and case.then[key] not in message_of(answer):
                raise CaseFailure(f"{key} {case.then[key]!r} is not in", f"  {message_of(answer)!r}")


def _perform(case: Case, objects: ServerObjects, place: Any, *, is_judged: bool = True) -> Answer:
    """Do what a case says; ``place`` puts objects where they do not meet those of other cases."""
    new = place(case.given["object"])
    wanted = judged(new) if is_judged else new
    match case.when["operation"]:
        case "CREATE":
            return objects.create(wanted)
        case "UPDATE":
            objects.make(place(case.given["oldObject"]))
            return objects.replace(wanted, subresource=case.when.get("subresource", ""))
        case "DELETE":
            objects.make(place(case.given.get("oldObject") or case.given["object"]))
            return objects.delete(wanted)
        case other:
            raise CaseFailure(f"operation {other} is not understood")


def _check_answer(case: Case, answer: Answer) -> None:
    if case.then["allowed"]:
        expect_equal("allowed", True, answer.status < 300, answer.text())
        return
    expect_equal("denied", 403, answer.status, answer.text())
    wanted = case.then.get("message", "")
    if wanted not in message_of(answer):
        raise CaseFailure("message:", f"  expected {wanted!r} in", f"  {message_of(answer)!r}")


def _check_review(case: Case, server: KaiServer) -> None:
    """The same request, sent to the webhook as an API server would."""
    operation, new = case.when["operation"], case.given["object"]
    old = case.given.get("oldObject") or (new if operation == "DELETE" else None)
    request = {
        "uid": case.id,
        "kind": _kind_of(new),
        "resource": {**_kind_of(new), "resource": f"{new['kind'].lower()}s"},
        "operation": operation,
        "userInfo": {"username": "case"},
        "object": None if operation == "DELETE" else new,
        "oldObject": old,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    connection = server.operator.webhooks.connect()
    answer = connection.request("POST", _PATHS[new["kind"]], body=json.dumps(review).encode(), headers=_JSON)
    connection.close()
    response = answer.json()["response"]
    expect_equal("webhook: allowed", case.then["allowed"], response["allowed"], response)
    if not case.then["allowed"]:
        message = (response.get("status") or {}).get("message", "")
        if not message.startswith(case.then.get("message", "")):
            raise CaseFailure(
                "webhook: message", f"  expected {case.then['message']!r}", f"  found {message!r}"
            )
    if "warnings" in case.then:
        expect_equal("webhook: warnings", case.then["warnings"], response.get("warnings") or [])


def _kind_of(document: Json) -> Json:
    group, _, version = document["apiVersion"].partition("/")
    return {"group": group, "version": version, "kind": document["kind"]}


def _moved(document: Json, namespace: str) -> Json:
    made = copy.deepcopy(document)
    made["metadata"]["namespace"] = namespace
    return made


def _renamed(document: Json, name: str) -> Json:
    made = copy.deepcopy(document)
    made["metadata"]["name"] = name
    return made


def _fresh_name(document: Json) -> str:
    return f"{document['metadata']['name']}-{next(_numbers)}-{secrets.token_hex(3)}"
