"""Cases of the webhooks: writes through schema and admission, and requests to the authorizer."""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.request

from quarterdeck.operators.grove import names
from tests.harness.case import Case
from tests.harness.words import words

from .caseobjects import CaseObjects, Outcome
from .guard import make_shared, make_webhooks
from .kind import GroveKind, Json, Lines
from .match import contains, differs
from .server import GroveServer

__all__ = ["AdmissionKind", "AuthorizerKind"]


class AdmissionKind(GroveKind):
    """A write, with schema and webhooks in force."""

    when = words("create", "update")
    then = words("allowed", "messageContains", "rejectedBy", "storedContains", "warningsContain")
    is_private = False

    async def check(self, case: Case, server: GroveServer, objects: CaseObjects) -> Lines:
        shared = await make_shared(server.client, case.given.get("config") or {})
        server.answer_with(make_webhooks(shared, server.client))
        for document in case.given.get("objects") or ():
            await objects.make(document)
        if "update" in case.when:
            outcome = await objects.replace(case.when["update"])
        else:
            outcome = await objects.create(case.when["create"])
        return _judge_write(case.then, outcome)


def _judge_write(then: Json, outcome: Outcome) -> Lines:
    if then["allowed"] is outcome.is_refused:
        return [f"allowed: expected {then['allowed']}, found {outcome.code}: {outcome.message}"]
    lines = [
        line
        for text in then.get("messageContains") or ()
        if text not in outcome.message
        for line in differs("message", text, outcome.message)
    ]
    layer = "webhook" if outcome.message.startswith("admission webhook") else "schema"
    wanted = then.get("rejectedBy", "any")
    if outcome.is_refused and wanted not in ("any", layer):
        lines += differs("rejectedBy", wanted, f"{layer}: {outcome.message}")
    lines += contains("stored", then.get("storedContains") or {}, outcome.document)
    lines += [
        f"no warning contains {text!r}: {outcome.warnings}"
        for text in then.get("warningsContain") or ()
        if not any(text in warning for warning in outcome.warnings)
    ]
    return lines


class AuthorizerKind(GroveKind):
    """One request to the authorizer, over the wire."""

    given = words("config", "objects", "operatorUser")
    when = words("user", "operation", "object", "newObject")
    then = words("allowed", "messageContains", "warningsContain", "code")
    is_private = False

    async def check(self, case: Case, server: GroveServer, objects: CaseObjects) -> Lines:
        given, when, then = case.given, case.when, case.then
        shared = await make_shared(server.client, given.get("config") or {})
        exempt = shared.configuration.authorizer.exempt_service_account_user_names
        server.answer_with(make_webhooks(shared, server.client, (given["operatorUser"], *exempt)))
        for document in given.get("objects") or ():
            await objects.make(document)
        response = await _ask(server, names.AUTHORIZER_PATH, _review(when))
        status = response.get("status") or {}
        lines: Lines = []
        if response.get("allowed") is not then["allowed"]:
            return differs("allowed", then["allowed"], response)
        if "code" in then:
            lines += contains("code", then["code"], status.get("code"))
        lines += [
            f"the message does not contain {text!r}: {status.get('message')}"
            for text in then.get("messageContains") or ()
            if text not in status.get("message", "")
        ]
        return lines + [
            f"no warning contains {text!r}: {response.get('warnings')}"
            for text in then.get("warningsContain") or ()
            if not any(text in warning for warning in response.get("warnings") or ())
        ]


def _review(when: Json) -> Json:
    document = when["object"]
    group, _, version = document["apiVersion"].rpartition("/")
    kind = {"group": group, "version": version, "kind": document["kind"]}
    resource = {"group": group, "version": version, "resource": f"{document['kind'].lower()}s"}
    is_create = when["operation"] == "CREATE"
    request = {
        "uid": "case",
        "kind": kind,
        "resource": resource,
        "name": document["metadata"].get("name", ""),
        "namespace": document["metadata"].get("namespace", ""),
        "operation": when["operation"],
        "userInfo": {"username": when["user"], "groups": ["system:authenticated"]},
        "object": document if is_create else when.get("newObject", document),
        "oldObject": None if is_create else document,
        "dryRun": False,
        "options": None,
    }
    if when["operation"] == "DELETE":
        request["object"] = None
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


async def _ask(server: GroveServer, path: str, review: Json) -> Json:
    """POST a review to the webhooks and return the response."""
    context = ssl.create_default_context(cadata=server.webhook_authority.decode())
    request = urllib.request.Request(
        f"{server.webhook_url}{path}",
        data=json.dumps(review).encode(),
        headers={"Content-Type": "application/json"},
        method="POST",
    )

    def post() -> Json:
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:
            document: Json = json.loads(answer.read())
            return document

    document = await asyncio.to_thread(post)
    response: Json = document["response"]
    return response
