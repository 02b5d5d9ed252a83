"""Kinds of the nodegroup cases: `convert`, `convert_roundtrip`, `convert_http`, `admit`, `schema`, `status`.

Conversion and admission cases call the operator's own webhook server over TLS, while the objects of
`given` exist on the server under test; admission cases marked `endToEnd` are then repeated through that
server, with the definition and both webhooks installed. Schema cases use the definition alone.

All cases use the same few cluster-wide names, so they run one after the other.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from quarterdeck.operators.nodegroup import names
from quarterdeck.wire.patch import apply_merge_patch
from tests.harness.case import Case, CaseFailure
from tests.harness.kind import KnownWords
from tests.harness.objects import warnings_of
from tests.harness.registry import Kind
from tests.harness.run import Run
from tests.harness.wire import Answer
from tests.harness.words import words

from .server import NodeGroupServer, server_of
from .status import reconciled_status

Json = dict[str, Any]

_LANE: Final = "nodegroup"
_PATHS: Final = {names.SIMPLE_WEBHOOK: names.SIMPLE_PATH, names.POLICY_WEBHOOK: names.POLICY_PATH}
_QUOTED_FIELD: Final = re.compile(r'"([^"]+)" must validate')


class _NodeGroupKind(KnownWords):
    """What the kinds share: one lane, and the objects that are given."""

    given = words("objects", "now")

    def lane(self, case: Case) -> str:
        return _LANE

    def run(self, case: Case, run: Run) -> None:
        self.refuse_unknown(case)
        server = server_of(run)
        with server.given(case.given.get("objects") or []):
            self.check(case, server)

    def check(self, case: Case, server: NodeGroupServer) -> None:
        raise NotImplementedError


class ConvertKind(_NodeGroupKind):
    """One review through the bare endpoint."""

    when = words("review")
    then = words("result", "message", "messagePrefix", "convertedObjects")

    def check(self, case: Case, server: NodeGroupServer) -> None:
        review = case.when["review"]
        answer = server.post(names.CONVERT_PATH, json.dumps(review).encode()).json()
        response = answer.get("response") or {}
        _expect("response.uid", review["request"]["uid"], response.get("uid"))
        _expect_conversion(case.then, response)


class RoundTripKind(_NodeGroupKind):
    """Conversions and user edits in turn."""

    when = words("object", steps=[words("convertTo", "mergePatch")])
    then = words("equalsInput", "object", compare=frozenset({"exact", "ignoreConversionData"}))

    def check(self, case: Case, server: NodeGroupServer) -> None:
        current = copy.deepcopy(case.when["object"])
        for step in case.when["steps"]:
            if "convertTo" in step:
                current = _convert(server, current, step["convertTo"])
            if "mergePatch" in step:
                current = apply_merge_patch(current, step["mergePatch"])
        expected = case.when["object"] if case.then.get("equalsInput") else case.then["object"]
        compare = case.then.get("compare", "exact")
        if compare == "ignoreConversionData":
            expected, current = _without_memory(expected), _without_memory(current)
        _expect("object", expected, current)


class ConvertHttpKind(_NodeGroupKind):
    """Any body, and the HTTP answer to it."""

    when = words("method", "path", "body")
    then = words("httpStatus", "contentType", "body")

    def check(self, case: Case, server: NodeGroupServer) -> None:
        when, then = case.when, case.then
        body = when.get("body", "")
        raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        answer = server.post(when.get("path", names.CONVERT_PATH), raw, method=when.get("method", "POST"))
        if "httpStatus" in then:
            _expect("HTTP status", then["httpStatus"], answer.status)
        if "contentType" in then:
            found = ", ".join(answer.header("Content-Type")).partition(";")[0]
            _expect("content type", then["contentType"], found)
        if "body" not in then:
            return
        document = answer.json()
        wanted = copy.deepcopy(then["body"])
        response = wanted.get("response") or {}
        if "convertedObjects" in response:
            objects = (document.get("response") or {}).get("convertedObjects")
            _expect_objects(response.pop("convertedObjects"), objects)
        _expect_subset("body", wanted, document)


class AdmitKind(_NodeGroupKind):
    """One admission request through the bare endpoint and, if the case says so, end to end."""

    when = words("webhook", "request")
    then = words("allowed", "code", "message", "messagePrefix", "warnings")

    def check(self, case: Case, server: NodeGroupServer) -> None:
        self._check_bare(case, server)
        if case.raw.get("endToEnd"):
            with server.webhooks():
                self._check_end_to_end(case, server)

    def _check_bare(self, case: Case, server: NodeGroupServer) -> None:
        review = _admission_review(case.id, case.when["request"])
        answer = server.post(_PATHS[case.when["webhook"]], json.dumps(review).encode()).json()
        response = answer.get("response") or {}
        then = case.then
        _expect("response.uid", review["request"]["uid"], response.get("uid"))
        _expect("allowed", then["allowed"], response.get("allowed"), response)
        if not then["allowed"]:
            status = response.get("status") or {}
            if "code" in then:
                _expect("status.code", then["code"], status.get("code"), response)
            _expect_message(then, status.get("message", ""))
        _expect("warnings", then.get("warnings") or [], response.get("warnings") or [])

    def _check_end_to_end(self, case: Case, server: NodeGroupServer) -> None:
        request, then = case.when["request"], case.then
        target = request.get("object") or request["oldObject"]
        try:
            if request["operation"] != "CREATE":
                old = server.create(request["oldObject"])
                if old.status != 201:
                    raise CaseFailure(f"end to end: creating oldObject answered {old.status}: {old.text()}")
            answer = _perform(server, request)
            if then["allowed"]:
                _expect("end to end: accepted", True, answer.status < 300, answer.text())
                _expect("end to end: warnings", then.get("warnings") or [], warnings_of(answer))
            else:
                _expect("end to end: refused", True, answer.status >= 400, answer.text())
                wanted = then["message"] if "message" in then else then.get("messagePrefix", "")
                message = answer.json().get("message", "")
                if wanted not in message:
                    raise CaseFailure("end to end: message", f"  expected {wanted!r} in", f"  {message!r}")
        finally:
            server.delete(target)


class SchemaKind(_NodeGroupKind):
    """A write with nothing but the definition installed."""

    when = words("operation", "object", "oldObject")
    then = words("valid", "fieldPrefix", "object")

    def check(self, case: Case, server: NodeGroupServer) -> None:
        when, then = case.when, case.then
        with server.definition_only():
            try:
                if when.get("operation") == "UPDATE":
                    old = server.create(when["oldObject"])
                    if old.status != 201:
                        raise CaseFailure(f"creating oldObject answered {old.status}: {old.text()}")
                self._check_write(when, then, server)
            finally:
                server.delete(when["object"])

    def _check_write(self, when: Json, then: Json, server: NodeGroupServer) -> None:
        if "object" in then:
            # Not the answer: that has been through the storage version and its defaults.
            with server.admission_observer(when["object"]["apiVersion"]) as observed:
                seen = observed(lambda: _perform(server, when, dry_run=True))
            _expect("spec at admission", then["object"]["spec"], seen.get("spec"))
        answer = _perform(server, when)
        if then["valid"]:
            _expect("accepted", True, answer.status < 300, answer.text())
            return
        _expect("status", 422, answer.status, answer.text())
        prefix = then.get("fieldPrefix")
        if prefix is None:
            return
        causes = (answer.json().get("details") or {}).get("causes") or []
        fields = [_field_of(cause) for cause in causes]
        if not any(re.fullmatch(rf"{re.escape(prefix)}([.\[].*)?", field) for field in fields):
            raise CaseFailure(f"no cause at or below {prefix}: {fields}", answer.text())


def _field_of(cause: Json) -> str:
    """The field of a cause; failures of `oneOf` name it in the message only."""
    field = str(cause.get("field"))
    quoted = _QUOTED_FIELD.search(str(cause.get("message"))) if field == "<nil>" else None
    return quoted.group(1) if quoted is not None else field


class StatusKind(_NodeGroupKind):
    """One reconciliation at a given time."""

    when = words("reconcile")
    then = words("status")

    def check(self, case: Case, server: NodeGroupServer) -> None:
        with server.definition_only():
            found = reconciled_status(
                server, case.when["reconcile"], case.given.get("objects") or [], case.given.get("now", "")
            )
        wanted = dict(case.then["status"])
        conditions = wanted.pop("conditions", {})
        statuses = {item["type"]: item["status"] for item in found.get("conditions") or []}
        _expect("conditions", conditions, {kind: statuses.get(kind) for kind in conditions}, found)
        _expect("status", wanted, {key: found.get(key) for key in wanted}, found)


def _convert(server: NodeGroupServer, document: Json, target: str) -> Json:
    request = {"uid": "round-trip", "desiredAPIVersion": target, "objects": [document]}
    review = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
    response = server.post(names.CONVERT_PATH, json.dumps(review).encode()).json()["response"]
    _expect(f"conversion to {target}", "Success", response["result"]["status"], response)
    converted: Json = response["convertedObjects"][0]
    return converted


def _perform(server: NodeGroupServer, request: Json, *, dry_run: bool = False) -> Answer:
    match request.get("operation", "CREATE"):
        case "CREATE":
            return server.create(request["object"], dry_run=dry_run)
        case "UPDATE":
            return server.replace(request["object"], dry_run=dry_run)
        case "DELETE":
            return server.delete(request["oldObject"])
        case other:
            raise CaseFailure(f"operation {other} is not understood")


def _admission_review(uid: str, request: Json) -> Json:
    known = request.get("object") or request.get("oldObject") or {}
    group, _, version = str(known.get("apiVersion", names.V1)).partition("/")
    kind = {"group": group, "version": version, "kind": known.get("kind", names.KIND)}
    resource = {"group": group, "version": version, "resource": "nodegroups"}
    frame: Json = {
        "uid": uid,
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "userInfo": {"username": "case", "groups": ["system:authenticated"]},
        "object": None,
        "oldObject": None,
        "dryRun": False,
        "options": None,
    }
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {**frame, **request},
    }


def _expect(what: str, expected: Any, found: Any, context: Any = None) -> None:
    if not _same(expected, found):
        lines = [f"{what}:", f"  expected {json.dumps(expected)}", f"  found    {json.dumps(found)}"]
        raise CaseFailure(*lines, *([f"  in {str(context)[:1500]}"] if context is not None else []))


def _same(one: Any, other: Any) -> bool:
    """JSON equality: 1 and true differ, 1 and 1.0 do not."""
    return json.dumps(_canonical(one), sort_keys=True) == json.dumps(_canonical(other), sort_keys=True)


def _canonical(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _canonical(item) for key, item in value.items()}
    return [_canonical(item) for item in value] if isinstance(value, list) else value


def _expect_subset(what: str, wanted: Any, found: Any) -> None:
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key, value in wanted.items():
            _expect_subset(f"{what}.{key}", value, found.get(key))
    else:
        _expect(what, wanted, found)


def _expect_message(then: Json, message: str) -> None:
    if "message" in then:
        _expect("message", then["message"], message)
    if "messagePrefix" in then and not message.startswith(then["messagePrefix"]):
        raise CaseFailure("message:", f"  expected prefix {then['messagePrefix']!r}", f"  found {message!r}")


def _expect_conversion(then: Json, response: Json) -> None:
    result = response.get("result") or {}
    _expect("result.status", then["result"], result.get("status"), response)
    if then["result"] == "Success":
        _expect_objects(then["convertedObjects"], response.get("convertedObjects"))
    else:
        _expect("convertedObjects", [], response.get("convertedObjects") or [])
        _expect_message(then, result.get("message", ""))


def _expect_objects(wanted: list[Json], found: list[Json] | None) -> None:
    objects = [_without_memory(item) for item in found or []]
    _expect("convertedObjects", [_without_memory(item) for item in wanted], objects)


def _without_memory(document: Json) -> Json:
    cleaned = copy.deepcopy(document)
    annotations = (cleaned.get("metadata") or {}).get("annotations")
    if annotations is not None:
        annotations.pop(names.CONVERSION_DATA, None)
        if not annotations:
            del cleaned["metadata"]["annotations"]
    return cleaned


KINDS: Final[Mapping[str, Kind]] = {
    "convert": ConvertKind(),
    "convert_roundtrip": RoundTripKind(),
    "convert_http": ConvertHttpKind(),
    "admit": AdmitKind(),
    "schema": SchemaKind(),
    "status": StatusKind(),
}
