"""Cases of the controllers: what they make, and what they do over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from quarterdeck.operators.grove import names
from tests.harness.case import Case, CaseFailure
from tests.harness.words import words

from .casebackend import TEST_BACKEND
from .caseobjects import CaseObjects
from .check import check_names, check_objects, check_pod_gangs, check_pods, check_starts_after
from .history import History
from .kind import GroveKind, Json, Lines
from .match import contains
from .nodes import Machines
from .operator import OperatorRun, Refusal
from .server import GroveServer
from .step import STEP, Steps

__all__ = ["ChildrenKind", "LifecycleKind"]

_LIFE: Final = words(
    "config",
    "objects",
    "pausePodCreation",
    "limitPodCreation",
    "injectGateOnPodCreate",
    "env",
    testBackends=[TEST_BACKEND],
    scheduler=frozenset({"none", "kai"}),
    kubelet=frozenset({"none", "ready"}),
    nodes=words("total", "podsPerNode", "labels"),
)


class ChildrenKind(GroveKind):
    """What is made for a set, without a scheduler."""

    given = _LIFE
    when = words("apply", "settle")
    then = words("names", "podGangs", "startsAfter", "pods", "podCount", "objects")

    async def check(self, case: Case, server: GroveServer, objects: CaseObjects) -> Lines:
        async with _Life(case, server, objects) as steps:
            await steps.run([{"apply": case.when["apply"]}, {"settle": True}])
            return await self._judge(case.then, case.when["apply"]["metadata"]["name"], objects)

    async def _judge(self, then: Json, pcs: str, objects: CaseObjects) -> Lines:
        lines: Lines = []
        if "names" in then:
            lines += await check_names(then["names"], objects, pcs)
        lines += await check_pod_gangs(then.get("podGangs") or {}, objects)
        lines += await check_starts_after(then.get("startsAfter") or {}, objects)
        if "pods" in then:
            lines += await check_pods(then["pods"], objects)
        if "podCount" in then:
            found = len(await objects.items("Pod", f"{names.PART_OF}={pcs}"))
            lines += contains("podCount", then["podCount"], found)
        return lines + await check_objects(then.get("objects") or [], objects)


class LifecycleKind(GroveKind):
    """Steps, and what holds between them."""

    given = _LIFE
    when = words(steps=[STEP])
    then = words(allStepsPass=frozenset({True}))

    async def check(self, case: Case, server: GroveServer, objects: CaseObjects) -> Lines:
        async with _Life(case, server, objects) as steps:
            await steps.run(case.when["steps"])
        return []


class _Life:
    """Operator and machines for the time of a block."""

    def __init__(self, case: Case, server: GroveServer, objects: CaseObjects) -> None:
        self._given: Final = case.given
        self._server: Final = server
        self._objects: Final = objects
        self._operator: Final = OperatorRun(server, case.given, environ=case.given.get("env"))
        self._machines: Final = Machines(objects, case.given, set(_queues_in(case.raw)))
        self._history: History | None = None

    async def __aenter__(self) -> Steps:
        try:
            return await self._start()
        except BaseException:
            await self._stop()
            raise

    async def _start(self) -> Steps:
        if self._operator.refused:
            raise CaseFailure(*(text for _, text in self._operator.refused))
        self._history = History(self._server.client, await self._objects.version())
        self._history.start()
        await self._machines.start()
        config: Mapping[str, Any] = self._given.get("config") or {}
        try:
            await self._operator.start(config)
        except Refusal as error:
            raise CaseFailure(f"the operator does not start: {error}") from error
        for document in self._given.get("objects") or ():
            await self._objects.make(document)
        return Steps(self._objects, self._operator, self._machines, self._history, dict(config))

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def _stop(self) -> None:
        await self._operator.stop()
        await self._machines.stop()
        if self._history is not None:
            await self._history.stop()


def _queues_in(value: Any) -> Iterator[str]:
    """All KAI queues that a case mentions."""
    if isinstance(value, dict):
        queue = value.get(names.KAI_QUEUE)
        if isinstance(queue, str):
            yield queue
        for each in value.values():
            yield from _queues_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from _queues_in(each)
