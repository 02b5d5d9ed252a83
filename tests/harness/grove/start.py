"""Cases of the configuration and of the start of the operator."""

from __future__ import annotations

import json
from typing import Final

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import ConfigMap
from quarterdeck.errors import ConfigError
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.configuration import effective_document, load_configuration
from tests.harness.case import Case, CaseFailure
from tests.harness.run import Run

from .guard import empty_registry
from .kind import GroveKind, Json, Lines
from .match import contains, differs
from .operator import OperatorRun, Refusal
from .recordcheck import check_event, check_metric
from .spy import Spies
from .stage import Stage
from .world import World

__all__ = ["ConfigKind", "StartupKind"]

_NAMESPACE: Final = "default"


class ConfigKind(GroveKind):
    """Loading a configuration."""

    given_keys = frozenset({"testBackends"})
    when_keys = frozenset({"config"})
    then_keys = frozenset({"valid", "messageContains", "effectiveContains"})

    def run(self, case: Case, run: Run) -> None:
        self.refuse_unknown(case)
        registry, then = empty_registry(), case.then
        refused = Spies(case.given.get("testBackends") or []).register(registry)
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

    given_keys = frozenset({"config", "testBackends", "previousActiveBackend", "objects", "env"})
    when_keys = frozenset({"startOperator", "registerOnly"})
    then_keys = frozenset(
        {
            "running",
            "activeBackend",
            "metric",
            "exitCodeNonZero",
            "exitCode",
            "stderrContains",
            "event",
            "condition",
            "registrationError",
        }
    )

    async def check(self, case: Case, stage: Stage, world: World) -> Lines:
        given, then = case.given, case.then
        previous = given.get("previousActiveBackend")
        if previous:
            metadata = ObjectMeta(
                name=names.STATUS_CONFIG_MAP,
                namespace=_NAMESPACE,
                labels={names.MANAGED_BY: names.OPERATOR},
            )
            await stage.client.create(ConfigMap(metadata=metadata, data={"activeBackend": previous}))
        for document in given.get("objects") or ():
            await world.make(document)
        operator = OperatorRun(stage, given, environ=given.get("env"))
        lines = _judge_registration(then.get("registrationError"), operator.refused)
        if case.when.get("registerOnly"):
            return lines
        refusal: Refusal | None = None
        try:
            await operator.start(given.get("config") or {})
        except Refusal as error:
            refusal = error
        try:
            return lines + await self._judge(then, operator, refusal, world)
        finally:
            await operator.stop()

    async def _judge(self, then: Json, operator: OperatorRun, refusal: Refusal | None, world: World) -> Lines:
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
        status = await world.read("ConfigMap", names.STATUS_CONFIG_MAP)
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
