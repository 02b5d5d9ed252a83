"""Kind `http`: requests sent in order, each answer compared with its expectation."""

from __future__ import annotations

import base64
import json
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final
from urllib.parse import quote, urlencode

from .case import Case, CaseFailure
from .hook import HookSession
from .matching import MISSING, mismatches
from .registry import EXCLUSIVE, Kind
from .run import Run
from .variable import lookup, substitute, unresolved
from .wire import Answer, Connection, WireError

Json = dict[str, Any]

_GIVEN_KEYS: Final = frozenset({"fixtures", "namespace", "needs", "hooks"})
_NEEDS: Final = frozenset({"gc", "namespace-controller", "hooks"})
_STEP_KEYS: Final = frozenset(
    {
        "method", "path", "query", "body", "rawBody", "rawBase64", "contentType", "accept", "headers",
        "save", "until", "wait",
    }
)  # fmt: skip
_THEN_KEYS: Final = frozenset({"status", "body", "events", "text", "headers"})
_REPEAT_EVERY: Final = 0.2
_ANSWER_TIMEOUT: Final = 60.0
_JSON: Final = {"Content-Type": "application/json", "Accept": "application/json"}


class HttpKind:
    """Runs a case over one connection of its own."""

    def lane(self, case: Case) -> str:
        if "hooks" not in (case.given.get("needs") or []):
            return ""
        return EXCLUSIVE if _reaches_other_namespaces(case) else "hooks"

    def run(self, case: Case, run: Run) -> None:
        _check_words(case)
        connection = run.target().connect(_ANSWER_TIMEOUT)
        variables: Json = {"u": secrets.token_hex(4)}
        try:
            self._prepare(case, run, connection, variables)
            with _hooks(case, run, variables) as hooks:
                for index, step in enumerate(case.when["steps"]):
                    expectation = case.then["steps"][index]
                    _Step(index, step, expectation, variables, run.patience).run(connection)
                if "hookCalls" in case.then:
                    expected = substitute(case.then["hookCalls"], variables)
                    calls = [call for call in hooks.calls if not _is_foreign(call)] if hooks else []
                    found = mismatches(expected, calls, variables, "hookCalls")
                    if found:
                        raise CaseFailure(*found)
        finally:
            if "ns" in variables:
                run.leave_namespace(variables["ns"])
            connection.close()

    def _prepare(self, case: Case, run: Run, connection: Connection, variables: Json) -> None:
        for name in case.given.get("fixtures") or []:
            if name not in case.file.fixtures:
                raise CaseFailure(f"given.fixtures: the file has no fixture {name!r}")
            run.fixtures.ensure(connection, name, case.file.fixtures[name])
        if case.given.get("namespace", True):
            variables["ns"] = _create_namespace(connection, f"case-{variables['u']}")


def _check_words(case: Case) -> None:
    """A word this runner does not know could change what the case means: refuse it."""
    unknown = [f"given.{key}" for key in case.given.keys() - _GIVEN_KEYS]
    unknown += [f"given.needs: {need}" for need in set(case.given.get("needs") or []) - _NEEDS]
    unknown += [f"when.{key}" for key in case.when.keys() - {"steps"}]
    unknown += [f"then.{key}" for key in case.then.keys() - {"steps", "hookCalls"}]
    steps, expectations = case.when.get("steps"), case.then.get("steps")
    if not isinstance(steps, list) or not isinstance(expectations, list) or len(steps) != len(expectations):
        raise CaseFailure("when.steps and then.steps must be lists of the same length")
    for index, (step, expectation) in enumerate(zip(steps, expectations, strict=True)):
        unknown += [f"when.steps[{index}].{key}" for key in step.keys() - _STEP_KEYS]
        unknown += [f"then.steps[{index}].{key}" for key in expectation.keys() - _THEN_KEYS]
    if unknown:
        raise CaseFailure(*(f"{word} is not understood" for word in sorted(unknown)))


def _reaches_other_namespaces(case: Case) -> bool:
    """Whether a webhook of the case could be called for requests of other cases."""
    for step in case.when.get("steps") or []:
        body = step.get("body")
        if not isinstance(body, dict) or not str(body.get("kind", "")).endswith("WebhookConfiguration"):
            continue
        for webhook in body.get("webhooks") or []:
            if not webhook.get("namespaceSelector") and not webhook.get("objectSelector"):
                return True
    return False


@contextmanager
def _hooks(case: Case, run: Run, variables: Json) -> Iterator[HookSession | None]:
    if "hooks" not in (case.given.get("needs") or []):
        yield None
        return
    server = run.hooks()
    session = server.open(variables["u"], substitute(case.given.get("hooks") or {}, variables))
    variables["hookURL"] = session.url
    variables["hookCA"] = server.ca_bundle
    try:
        if session.unknown_keys():
            raise CaseFailure(*(f"given.hooks.{key} is not understood" for key in session.unknown_keys()))
        yield session
    finally:
        server.close_session(variables["u"])


_IN_EVERY_NAMESPACE: Final = (("configmaps", "kube-root-ca.crt"), ("serviceaccounts", "default"))
"""What a cluster puts into a new namespace, in its own time."""


def _create_namespace(connection: Connection, name: str) -> str:
    body = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).encode()
    answer = connection.request("POST", "/api/v1/namespaces", body=body, headers=_JSON)
    if answer.status != 201:
        raise CaseFailure(f"creating namespace {name} answered {answer.status}: {answer.text()}")
    return name


def _is_foreign(call: Json) -> bool:
    """Whether a hook was called about a write of a cluster's own controllers (kube-root-ca.crt, say)."""
    request = call["request"]
    user = (request.get("userInfo") or {}).get("username", "")
    is_of_controller = str(user).startswith("system:serviceaccount:kube-system:")
    return is_of_controller or (request["resource"]["resource"], request.get("name")) in _IN_EVERY_NAMESPACE


class _Step:
    def __init__(self, index: int, step: Json, expectation: Json, variables: Json, patience: float) -> None:
        self._index = index
        self._raw = step
        self._expectation = expectation
        self._variables = variables
        self._patience = patience

    def run(self, connection: Connection) -> None:
        if self._raw.get("wait"):
            time.sleep(float(self._raw["wait"]))
        deadline = time.monotonic() + float(self._raw.get("until") or 0) * self._patience
        while True:
            step = substitute(self._raw, self._variables)
            answer, found = self._attempt(connection, step)
            if answer is not None and not found:
                self._save(answer)
                return
            if time.monotonic() >= deadline:
                title = f"step {self._index} {step['method']} {url_of(step)}"
                raise CaseFailure(title, *(f"  {line}" for line in found), *_shown(answer))
            time.sleep(_REPEAT_EVERY)

    def _attempt(self, connection: Connection, step: Json) -> tuple[Answer | None, list[str]]:
        unset = unresolved([step["path"], step.get("query")])
        if unset:
            return None, [f"no variable {name} was saved" for name in unset]
        try:
            answer = connection.request(
                step["method"],
                url_of(step),
                body=body_of(step),
                headers=headers_of(step),
                timeout=_ANSWER_TIMEOUT + float((step.get("query") or {}).get("timeoutSeconds") or 0),
            )
        except WireError as error:
            return None, [str(error)]
        return answer, compare(substitute(self._expectation, self._variables), answer, self._variables)

    def _save(self, answer: Answer) -> None:
        """An answer without the path (a refusal, say) leaves the variable as it was."""
        for name, path in (self._raw.get("save") or {}).items():
            with suppress(KeyError, ValueError):
                self._variables[name] = lookup(answer.json(), path)


def _shown(answer: Answer | None) -> list[str]:
    if answer is None:
        return []
    text = answer.text()
    return [f"  answer {answer.status}: {text if len(text) <= 1500 else text[:1500] + '...'}"]


def url_of(step: Json) -> str:
    path = quote(step["path"], safe="/:?=&%,;@+$!*'()~.-_")
    query = step.get("query")
    if not query:
        return path
    joint = "&" if "?" in path else "?"
    return f"{path}{joint}{urlencode(query, doseq=True)}"


def body_of(step: Json) -> bytes | None:
    if "rawBase64" in step:
        return base64.b64decode(step["rawBase64"])
    if "rawBody" in step:
        return str(step["rawBody"]).encode()
    return json.dumps(step["body"], ensure_ascii=False).encode() if "body" in step else None


def headers_of(step: Json) -> dict[str, str]:
    headers: dict[str, str] = {}
    accept = step.get("accept", "application/json")
    if accept:
        headers["Accept"] = accept
    content_type = step.get("contentType", "application/json")
    if content_type and body_of(step) is not None:
        headers["Content-Type"] = content_type
    for name, value in (step.get("headers") or {}).items():
        for known in [key for key in headers if key.lower() == name.lower()]:
            del headers[known]
        headers[name] = value
    return headers


def compare(expectation: Mapping[str, Any], answer: Answer, variables: Mapping[str, Any]) -> list[str]:
    """How an answer differs from what a step expects of it."""
    found: list[str] = []
    if "status" in expectation:
        found += mismatches(expectation["status"], answer.status, variables, "status")
    if "body" in expectation:
        found += _compare_body(expectation["body"], answer, variables)
    if "events" in expectation:
        found += _compare_events(expectation["events"], answer, variables)
    if "text" in expectation:
        found += mismatches(expectation["text"], answer.text(), variables, "text")
    for name, expected in (expectation.get("headers") or {}).items():
        found += mismatches(
            expected, _header_value(expected, answer.header(name)), variables, f"headers.{name}"
        )
    return found


def _compare_body(expected: Any, answer: Answer, variables: Mapping[str, Any]) -> list[str]:
    try:
        body = answer.json()
    except ValueError:
        return ["body: expected JSON"]
    return mismatches(expected, body, variables, "body")


def _compare_events(expected: Any, answer: Answer, variables: Mapping[str, Any]) -> list[str]:
    try:
        events = [json.loads(line) for line in answer.body.splitlines() if line.strip()]
    except ValueError:
        return ["events: expected one JSON document per line"]
    return mismatches(expected, events, variables, "events")


def _header_value(expected: Any, values: list[str]) -> Any:
    """A header that is sent several times is a list where a list is asked for, else one text."""
    wants_list = isinstance(expected, list) or (
        isinstance(expected, dict) and expected.keys() & {"$includes", "$excludes", "$unordered", "$len"}
    )
    if wants_list:
        return values
    return ", ".join(values) if values else MISSING


KINDS: Final[Mapping[str, Kind]] = {"http": HttpKind()}
