"""The steps of a trainer scenario."""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

from quarterdeck.wire.patch import apply_merge_patch
from tests.harness.case import CaseFailure
from tests.harness.matching import MISSING
from tests.harness.words import Table, Tagged, Words, words

from .always import check_always
from .caseobjects import CaseObjects, Outcome
from .environment import Environment
from .expect import EXPECTATION, REF, Expectation
from .watch import WATCHED, ObjectLog

Json = dict[str, Any]

_SOMEONE: Final = "someone-else"
_TRIES: Final = 20
_LOOK: Final = 0.1
"""Seconds between two looks."""
_SETTLE: Final = 2.0
"""Seconds until something that is to stay so must be so."""
_FINALIZER: Final = "trainer.kubeflow.org/resource-in-use"
_ENV: Final = words("replicatedJob", "container", "name", "value", "valueFrom")


def _step(*free: str, **tables: Table) -> Words:
    common = words("bypassAdmission", "note", "comment", rejected=words("httpStatus", "contains"))
    return words(*free, **tables, **common)


_STEPS: Final = {
    "create": _step("object"),
    "createMany": _step("object", "template", "count", "parallel"),
    "patch": _step("mergePatch", "fieldManager", ref=REF),
    "patchStatus": _step("mergePatch", "fieldManager", ref=REF),
    "delete": _step("propagation", ref=REF),
    "forceDelete": _step(ref=REF),
    "tamper": _step("fieldManager", ref=REF, setEnv=_ENV, removeEnv=_ENV),
    "readForLaterUpdate": _step("as", "name", ref=REF),
    "updateStale": _step("as", "name", "from", "remembered", "mergePatch", "patch", "set", ref=REF),
    "expect": _step("withinSeconds", **EXPECTATION),
    "hold": _step("seconds", **EXPECTATION),
    "remember": _step("as", "path", ref=REF),
    "pause": _step("component"),
    "resume": _step("component"),
    "restartController": _step("controller", "component"),
    "failRequests": _step("verb", "kind", "times", "count", "n", "httpStatus", "status", "code"),
    "delayRequests": _step("verb", "kind", "milliseconds", "seconds"),
    "expectAlways": _step(
        **{word: EXPECTATION[word] for word in ("pods", "objects", "count", "same", "differs")}
    ),
}
STEP: Final = Tagged(
    "op",
    {**_STEPS, "parallel": _step("repeat", "ignoreRejections", steps=[[Tagged("op", _STEPS)]])},
)


class Steps:
    """Runs the steps of one case; `patience` stretches what a real cluster is given."""

    def __init__(self, objects: CaseObjects, running: Environment, *, note: str = "") -> None:
        self._objects: Final = objects
        self._running: Final = running
        self._remembered: Final[dict[str, Any]] = {}
        self._expectation: Final = Expectation(objects, self._remembered)
        self._observed: list[ObjectLog] = []
        self._read: Json = {}
        self._waits_for_finalizer = "wait until the finalizer is present" in note

    async def run(self, step: Json) -> None:
        """One step; raises CaseFailure for one that is not understood or does not hold."""
        outcome = await self._handle(step)
        if outcome is not None:
            _check_outcome(step, outcome)
        elif "rejected" in step:
            raise CaseFailure(f"step {step['op']} cannot be rejected")

    async def _handle(self, step: Json) -> Outcome | None:
        """One step, whose words ``STEP`` has."""
        handler: Callable[[Json], Awaitable[Outcome | None]] = getattr(self, f"_{_snake(step['op'])}")
        return await handler(step)

    def _bypasses(self, step: Json) -> bool:
        return bool(step.get("bypassAdmission")) or not self._running.has_admission

    async def _create(self, step: Json) -> Outcome:
        return await self._objects.create(step["object"], bypasses=self._bypasses(step))

    async def _create_many(self, step: Json) -> None:
        width = int(step.get("parallel") or 1)

        async def create(index: int) -> None:
            document = _numbered(step.get("object") or step["template"], index)
            _check_outcome(step, await self._objects.create(document, bypasses=self._bypasses(step)))

        for first in range(0, step["count"], width):
            await asyncio.gather(*(create(each) for each in range(first, min(first + width, step["count"]))))

    async def _patch(self, step: Json) -> Outcome:
        return await self._objects.patch(
            step["ref"],
            step["mergePatch"],
            manager=step.get("fieldManager", ""),
            bypasses=self._bypasses(step),
        )

    async def _patch_status(self, step: Json) -> Outcome:
        manager = step.get("fieldManager", "")
        return await self._objects.patch(step["ref"], step["mergePatch"], status=True, manager=manager)

    async def _delete(self, step: Json) -> Outcome:
        if self._waits_for_finalizer:
            await self._wait_for_finalizer(step["ref"])
        return await self._objects.delete(step["ref"], step.get("propagation", ""))

    async def _wait_for_finalizer(self, ref: Json) -> None:
        """The note of a case asks for it: before its first look, a runtime is not protected."""
        self._waits_for_finalizer = False
        wanted = {
            "apiVersion": ref["apiVersion"],
            "kind": ref["kind"],
            "metadata": {
                "name": ref["name"],
                "namespace": ref.get("namespace", ""),
                "finalizers": [_FINALIZER],
            },
        }
        await self._become({"objects": [wanted]}, 30.0)

    async def _force_delete(self, step: Json) -> None:
        await self._objects.force_delete(await self._objects.path(step["ref"]))

    async def _tamper(self, step: Json) -> Outcome:
        """Read, change one variable, write; again if somebody was faster."""
        manager = step.get("fieldManager", _SOMEONE)
        path = await self._objects.path(step["ref"])
        for _ in range(_TRIES):
            jobset = await self._objects.read(step["ref"])
            if not jobset:
                raise CaseFailure(f"there is no {step['ref']['kind']} {step['ref']['name']}")
            _tamper_env(jobset, step)
            outcome = await self._objects.request(
                "PUT", path, jobset, manager=manager, bypasses=bool(step.get("bypassAdmission"))
            )
            if outcome.code != 409:
                return outcome
        return outcome

    async def _read_for_later_update(self, step: Json) -> None:
        self._read = self._remembered[_name_of(step)] = await self._objects.read(step["ref"])

    async def _update_stale(self, step: Json) -> Outcome:
        """PUT what was read earlier, changed, with the version it had then."""
        old = self._remembered.get(_name_of(step), self._read)
        if not isinstance(old, dict) or not old:
            raise CaseFailure("nothing was read to be updated")
        document = apply_merge_patch(copy.deepcopy(old), _change_of(step))
        metadata = document["metadata"]
        place = {"kind": document["kind"], "apiVersion": document["apiVersion"], "name": metadata["name"]}
        original = next(
            (name for name, real in self._objects.namespaces.items() if real == metadata.get("namespace")),
            None,
        )
        path = await self._objects.path({**place, "namespace": original})
        return await self._objects.request("PUT", path, document, bypasses=self._bypasses(step))

    async def _expect(self, step: Json) -> None:
        await self._become(_wanted(step), step.get("withinSeconds", 30) * self._objects.server.patience)

    async def _become(self, wanted: Json, limit: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit
        while True:
            lines = await self._expectation.mismatches(wanted)
            if not lines:
                return
            if loop.time() >= deadline:
                raise CaseFailure(f"not within {limit:g} s:", *lines)
            await asyncio.sleep(_LOOK)

    async def _hold(self, step: Json) -> None:
        """It must be so, now or as soon as what the steps before have begun shows, and then stay so."""
        wanted = _wanted(step)
        await self._become(wanted, min(_SETTLE, step["seconds"]) * self._objects.server.patience)
        loop = asyncio.get_running_loop()
        began = loop.time()
        while (age := loop.time() - began) < step["seconds"]:
            await asyncio.sleep(min(_LOOK, step["seconds"] - age))
            lines = await self._expectation.mismatches(wanted)
            if lines:
                raise CaseFailure(f"not any more after {loop.time() - began:.1f} s:", *lines)

    async def _remember(self, step: Json) -> None:
        value = await self._expectation.value(step["ref"], step["path"])
        if value is MISSING:
            raise CaseFailure(f"there is nothing at {step['path']} to remember")
        self._remembered[step["as"]] = value

    async def _pause(self, step: Json) -> None:
        await self._running.pause(step["component"])

    async def _resume(self, step: Json) -> None:
        await self._running.resume(step["component"])

    async def _restart_controller(self, step: Json) -> None:
        await self._running.restart(step.get("controller") or step["component"])

    async def _fail_requests(self, step: Json) -> None:
        times = next((step[key] for key in ("times", "count", "n") if key in step), 1)
        code = next((step[key] for key in ("httpStatus", "status", "code") if key in step), 500)
        await self._running.fail_requests(step.get("verb", ""), step.get("kind", ""), times=times, code=code)

    async def _delay_requests(self, step: Json) -> None:
        seconds = step["seconds"] if "seconds" in step else step["milliseconds"] / 1000
        await self._running.delay_requests(step.get("verb", ""), step.get("kind", ""), seconds)

    async def _parallel(self, step: Json) -> None:
        """Lists of steps side by side, again and again; what happens meanwhile is written down."""
        ignores = bool(step.get("ignoreRejections"))

        async def play(steps: list[Json]) -> None:
            for _ in range(step.get("repeat", 1)):
                for each in steps:
                    await self._run_beside(each, ignores=ignores)

        self._observed = [
            ObjectLog(self._objects, kind, name)
            for kind in WATCHED
            for name in self._objects.namespaces.values()
        ]
        for log in self._observed:
            await log.begin()
        try:
            await asyncio.gather(*(play(steps) for steps in step["steps"]))
            await asyncio.sleep(2.0)  # what was set going last
        finally:
            for log in self._observed:
                await log.end()

    async def _run_beside(self, step: Json, *, ignores: bool) -> None:
        outcome = await self._handle(step)
        if outcome is not None and not (ignores and outcome.is_refused):
            _check_outcome(step, outcome)
        await asyncio.sleep(0)

    async def _expect_always(self, step: Json) -> None:
        """Something that held after every event of the parallel step."""
        if not self._observed:
            raise CaseFailure("there was no parallel step to look at")
        await check_always(step, self._objects, self._observed, self._remembered)


def _snake(name: str) -> str:
    return re.sub(r"([A-Z])", lambda match: f"_{match[1].lower()}", name)


def _wanted(step: Json) -> Json:
    return {key: value for key, value in step.items() if key in EXPECTATION}


def _name_of(step: Json) -> str:
    return str(next((step[key] for key in ("from", "remembered", "as", "name") if key in step), ""))


def _change_of(step: Json) -> Json:
    change: Json = next((step[key] for key in ("mergePatch", "patch", "set") if key in step), {})
    return change


def _check_outcome(step: Json, outcome: Outcome) -> None:
    rejected = step.get("rejected")
    if rejected is None:
        if outcome.is_refused:
            raise CaseFailure(f"step {step['op']} answered {outcome.code}: {outcome.message}")
        return
    if not outcome.is_refused:
        raise CaseFailure(f"step {step['op']} was not rejected")
    if "httpStatus" in rejected and outcome.code != rejected["httpStatus"]:
        raise CaseFailure(f"expected {rejected['httpStatus']}, got {outcome.code}: {outcome.message}")
    missing = [text for text in rejected.get("contains") or () if text not in outcome.message]
    if missing:
        raise CaseFailure(f"{missing} is not in {outcome.message!r}")


def _numbered(value: Any, index: int) -> Any:
    if isinstance(value, dict):
        return {key: _numbered(each, index) for key, each in value.items()}
    if isinstance(value, list):
        return [_numbered(each, index) for each in value]
    return value.replace("${i}", str(index)) if isinstance(value, str) else value


def _tamper_env(jobset: Json, step: Json) -> None:
    change = step.get("setEnv") or step["removeEnv"]
    job = next(e for e in jobset["spec"]["replicatedJobs"] if e["name"] == change["replicatedJob"])
    pod = job["template"]["spec"]["template"]["spec"]
    containers = [*(pod.get("containers") or ()), *(pod.get("initContainers") or ())]
    container = next(each for each in containers if each["name"] == change["container"])
    kept = [entry for entry in container.get("env") or () if entry["name"] != change["name"]]
    if "setEnv" in step:
        entry = {key: change[key] for key in ("name", "value", "valueFrom") if key in change}
        places = [e["name"] for e in container.get("env") or ()]
        place = places.index(change["name"]) if change["name"] in places else len(kept)
        kept.insert(place, entry)
    container["env"] = kept
