"""Cases of the configuration and of the start of the operator."""

from __future__ import annotations

import json
from inspect import isawaitable
from typing import Final

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import ConfigMap, Pod
from quarterdeck.errors import ConfigError, QuarterdeckError
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.backends import BackendManager
from quarterdeck.operators.grove.configuration import effective_document, load_configuration
from quarterdeck.wire.http import Request
from tests.harness.case import Case, CaseFailure
from tests.harness.run import Run
from tests.harness.words import words

from .casebackend import TEST_BACKEND, CaseBackends
from .caseobjects import CaseObjects
from .guard import empty_registry
from .kind import GroveKind, Json, Lines
from .match import contains, differs
from .operator import OperatorRun, Refusal
from .recordcheck import EVENT, METRIC, check_event, check_metric
from .server import GroveServer

__all__ = ["ConfigKind", "StartupKind"]

_NAMESPACE: Final = "default"


class ConfigKind(GroveKind):
    """Loading a configuration."""

    given = words(testBackends=[TEST_BACKEND])
    when = words("config")
    then = words("valid", "messageContains", "effectiveContains")

    def run(self, case: Case, run: Run) -> None:
        self.refuse_unknown(case)
        registry, then = empty_registry(), case.then
        refused = CaseBackends(case.given.get("testBackends") or []).register(registry)
        if refused:
            raise CaseFailure(*(text for _, text in refused))
        try:
            configuration = load_configuration(case.when["config"], registry)
        except ConfigError as error:
            if then["valid"]:
                raise CaseFailure(f"expected to be valid, found {error}") from error
            missing = [text for text in then.get("messageContains") or () if text not in str(error)]
            if missing:
                raise CaseFailure(*(f"{text!r} is not in {error}" for text in missing)) from error
            return
        if not then["valid"]:
            raise CaseFailure("expected an error, and there is none")
        lines = contains(
            "configuration", then.get("effectiveContains") or {}, effective_document(configuration)
        )
        if lines:
            raise CaseFailure(*lines)


class StartupKind(GroveKind):
    """The start of the operator."""

    given = words("config", "previousActiveBackend", "objects", "env", testBackends=[TEST_BACKEND])
    when = words("startOperator", "registerOnly", "preparePodWithoutInit", "readStatusBeforeInit")
    then = words(
        "running", "activeBackend", "exitCodeNonZero", "exitCode", "stderrContains", "errorContains", "ready",
        metric=METRIC,
        event=EVENT,
        condition=words("type", "status", "reason", "message"),
        registrationError=words("index", "contains"),
    )  # fmt: skip

    async def check(self, case: Case, server: GroveServer, objects: CaseObjects) -> Lines:
        given, then = case.given, case.then
        previous = given.get("previousActiveBackend")
        if previous:
            metadata = ObjectMeta(
                name=names.STATUS_CONFIG_MAP,
                namespace=_NAMESPACE,
                labels={names.MANAGED_BY: names.OPERATOR},
            )
            await server.client.create(ConfigMap(metadata=metadata, data={"activeBackend": previous}))
        for document in given.get("objects") or ():
            await objects.make(document)
        operator = OperatorRun(server, given, environ=given.get("env"))
        lines = _judge_registration(then.get("registrationError"), operator.refused)
        if case.when.get("registerOnly"):
            return lines
        if case.when.get("preparePodWithoutInit"):
            return lines + _judge_pod_without_backend(then, operator)
        if case.when.get("readStatusBeforeInit"):
            return lines + await _judge_status_before(then, operator, given.get("config") or {})
        refusal: Refusal | None = None
        try:
            await operator.start(given.get("config") or {})
        except Refusal as error:
            refusal = error
        try:
            return lines + await self._judge(then, operator, refusal, objects)
        finally:
            await operator.stop()

    async def _judge(
        self, then: Json, operator: OperatorRun, refusal: Refusal | None, objects: CaseObjects
    ) -> Lines:
        lines: Lines = []
        if then.get("running", True) is (refusal is not None):
            return [f"running: expected {then.get('running')}, found {refusal or 'a running operator'}"]
        if then.get("exitCodeNonZero") and (refusal is None or not refusal.exit_code):
            lines.append("the exit code is 0")
        if "exitCode" in then:
            lines += contains("exit code", then["exitCode"], refusal.exit_code if refusal else 0)
        lines += [
            f"stderr does not contain {text!r}: {refusal}"
            for text in then.get("stderrContains") or ()
            if text not in str(refusal)
        ]
        status = await objects.read("ConfigMap", names.STATUS_CONFIG_MAP)
        data = (status or {}).get("data") or {}
        if "activeBackend" in then:
            lines += contains("active backend", then["activeBackend"], data.get("activeBackend"))
        if "condition" in then:
            wanted = then["condition"]
            conditions = {each["type"]: each for each in json.loads(data.get("conditions", "[]"))}
            lines += contains("condition", wanted, conditions.get(wanted["type"]))
        if "event" in then:
            lines += check_event(then["event"], operator.events.events)
        if "metric" in then:
            lines += check_metric(then["metric"], operator.metrics.registry.expose().decode())
        return lines


def _judge_registration(wanted: Json | None, refused: list[tuple[int, str]]) -> Lines:
    if wanted is None:
        return [f"test backend {index} was refused: {text}" for index, text in refused]
    fits = any(index == wanted["index"] and wanted["contains"] in text for index, text in refused)
    return [] if fits else differs("registrationError", wanted, refused)


def _judge_pod_without_backend(then: Json, operator: OperatorRun) -> Lines:
    """A pod through the backends, of which none was initialised."""
    try:
        BackendManager(operator.registry).prepare_pod(Pod(metadata=ObjectMeta(name="p")))
    except QuarterdeckError as error:
        wanted = then["errorContains"]
        return [] if wanted in str(error) else differs("the error", wanted, str(error))
    return differs("the error", then["errorContains"], "nothing")


async def _judge_status_before(then: Json, operator: OperatorRun, config: Json) -> Lines:
    """What the operator says of itself before its backend is initialised."""
    _, served = operator.assemble(config)
    answer = served.open_endpoints[names.STATUS_PATH](Request("GET", names.STATUS_PATH))
    document = json.loads((await answer if isawaitable(answer) else answer).body)
    lines: Lines = []
    if "condition" in then:
        conditions = {each["type"]: each for each in document["conditions"]}
        lines += contains("condition", then["condition"], conditions.get(then["condition"]["type"]))
    if "ready" in then:
        problems = [check() for check in served.checks.values()]
        found = not any([await each if isawaitable(each) else each for each in problems])
        lines += contains("ready", then["ready"], found)
    return lines
