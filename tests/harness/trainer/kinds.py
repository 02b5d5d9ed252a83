"""The kinds of trainer cases: `admission`, `render`, `scenario`.

All of them run on one server, one after the other (`trainer_stage`). Scenarios need a server that this
program made: they bring the controllers of a cluster along and hold them at will.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any, Final

from tests.harness.case import Case, CaseFailure
from tests.harness.kind import KnownWords
from tests.harness.matching import show
from tests.harness.registry import Kind
from tests.harness.run import Run
from tests.harness.words import words

from .caseobjects import CaseObjects, Outcome, refers_to_uids
from .environment import ENVIRONMENT, TRAINER, Environment
from .expect import EXPECTATION, Expectation
from .match import object_mismatches
from .server import server_of
from .step import STEP, Steps

Json = dict[str, Any]

_LANE: Final = "trainer"
_RENDER_LIMIT: Final = 30.0
_LOOK: Final = 0.05
_RUN_NOTE: Final = re.compile(r"pods run (\d+(?:\.\d+)?) s")


class _TrainerKind(KnownWords):
    """What the kinds share: one lane and one server."""

    given = words("objects")

    def lane(self, case: Case) -> str:
        return _LANE

    def run(self, case: Case, run: Run) -> None:
        self.refuse_unknown(case)
        server = server_of(run)

        async def play() -> None:
            objects = CaseObjects(server, case)
            await objects.open()
            try:
                await self.play(case, objects)
            finally:
                await objects.close()

        server.play(play())

    async def play(self, case: Case, objects: CaseObjects) -> None:
        raise NotImplementedError


async def _make(objects: CaseObjects, document: Json) -> None:
    """An object that exists beforehand: past admission, with the status it is given."""
    outcome = await objects.create(
        {key: value for key, value in document.items() if key != "status"}, bypasses=True
    )
    name = f"given {document['kind']} {document['metadata']['name']}"
    if outcome.is_refused:
        raise CaseFailure(f"{name}: {outcome.code}: {outcome.message}")
    if document.get("status"):
        outcome = await objects.patch(document, {"status": document["status"]}, status=True, bypasses=True)
        if outcome.is_refused:
            raise CaseFailure(f"status of {name}: {outcome.code}: {outcome.message}")


class AdmissionKind(_TrainerKind):
    """One write of a user, and what becomes of it."""

    when = words("object", "oldObject", operation=frozenset({"CREATE", "UPDATE"}))
    then = words(
        "allowed", "httpStatus", "warningsContain", "warnings", "stored", errors=[words("field", "contains")]
    )

    async def play(self, case: Case, objects: CaseObjects) -> None:
        present, when = case.given.get("objects") or [], case.when
        for document in present:
            if not refers_to_uids(document):
                await _make(objects, document)
        if when["operation"] == "UPDATE":
            await _make(objects, when["oldObject"])
        for document in present:
            if refers_to_uids(document):
                await _make(objects, document)
        if when["operation"] == "CREATE":
            outcome = await objects.create(when["object"])
        else:
            outcome = await objects.replace(when["object"])
        _check_verdict(case.then, outcome)
        if "stored" in case.then:
            stored = await objects.read(when["object"])
            lines = object_mismatches(await objects.resolved(case.then["stored"]), stored)
            if lines:
                raise CaseFailure("stored:", *lines)


def _check_verdict(then: Json, outcome: Outcome) -> None:
    if then["allowed"] == outcome.is_refused:
        raise CaseFailure(f"allowed: expected {then['allowed']}, got {outcome.code}: {outcome.message}")
    if outcome.is_refused and "httpStatus" in then and outcome.code != then["httpStatus"]:
        raise CaseFailure(f"expected {then['httpStatus']}, got {outcome.code}: {outcome.message}")
    lines = [line for error in then.get("errors") or () for line in _missing_error(error, outcome)]
    absent = [text for text in then.get("warningsContain") or () if not _is_among(text, outcome.warnings)]
    if absent:
        lines.append(f"no warning {show(absent)} among {show(list(outcome.warnings))}")
    if "warnings" in then and list(outcome.warnings) != then["warnings"]:
        lines.append(f"warnings: expected {show(then['warnings'])}, got {show(list(outcome.warnings))}")
    if lines:
        raise CaseFailure(*lines)


def _is_among(text: str, warnings: tuple[str, ...]) -> bool:
    return any(text in warning for warning in warnings)


def _missing_error(wanted: Json, outcome: Outcome) -> list[str]:
    field = wanted.get("field", "").lower()
    texts = wanted.get("contains") or []
    # Some errors are not told apart; then all of the message counts, and the field must be in it.
    candidates = [(path, f"{path}: {text}") for path, text in outcome.causes] or [(field, outcome.message)]
    candidates += [("", outcome.message)] if not field else []
    for path, text in candidates:
        if (not field or path.lower() == field) and all(each in text for each in texts):
            if path == field and not outcome.causes and field not in outcome.message.lower():
                continue
            return []
    return [f"no error like {show(wanted)}:", f"  {outcome.message}", f"  causes {show(outcome.causes)}"]


class RenderKind(_TrainerKind):
    """A TrainJob, and the objects that the operator makes of it."""

    when = words("create")
    then = words("objects", absent=EXPECTATION["absent"], events=EXPECTATION["events"])

    async def play(self, case: Case, objects: CaseObjects) -> None:
        environment = {"controllers": [TRAINER], "admission": [TRAINER], "garbageCollector": False}
        for document in case.given.get("objects") or ():
            await _make(objects, document)
        async with Environment(objects, environment):
            outcome = await objects.create(case.when["create"])
            if outcome.is_refused:
                raise CaseFailure(f"create answered {outcome.code}: {outcome.message}")
            await _become(Expectation(objects, {}), case.then)


async def _become(expectation: Expectation, wanted: Json) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _RENDER_LIMIT
    while lines := await expectation.mismatches(wanted):
        if loop.time() >= deadline:
            raise CaseFailure(*lines)
        await asyncio.sleep(_LOOK)


class ScenarioKind(_TrainerKind):
    """Steps, with controllers that can be held, stopped and disturbed."""

    given = words("objects", environment=ENVIRONMENT)
    when = words(steps=[STEP])
    then = words("summary", allStepsHold=frozenset({True}))

    async def play(self, case: Case, objects: CaseObjects) -> None:
        note = str(case.raw.get("note", ""))
        for document in case.given.get("objects") or ():
            await _make(objects, document)
        async with Environment(objects, _environment(case, note)) as running:
            steps = Steps(objects, running, note=note)
            for place, step in enumerate(case.when["steps"]):
                try:
                    await steps.run(step)
                except CaseFailure as error:
                    raise CaseFailure(f"step {place} ({step.get('op')}):", *error.lines) from error


def _environment(case: Case, note: str) -> Json:
    """The environment, with what the note of a case says about pods."""
    environment: Json = dict(case.given.get("environment") or {})
    match = _RUN_NOTE.search(note)
    if match is not None:
        environment["simulator"] = {"podRunSeconds": float(match[1]), **(environment.get("simulator") or {})}
    return environment


KINDS: Final[Mapping[str, Kind]] = {
    "admission": AdmissionKind(),
    "render": RenderKind(),
    "scenario": ScenarioKind(),
}
