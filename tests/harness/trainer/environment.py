"""What runs during a trainer case: controllers, admission, a simulator, as its environment says."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final, Self

from quarterdeck.operators.jobset.webhooks import CONFIGURATION, jobset_webhooks
from quarterdeck.testing import FaultRule, Latency, Refuse
from tests.harness.case import CaseFailure
from tests.harness.words import refuse_unknown, words

from .caseobjects import CaseObjects
from .component import (
    GARBAGE_COLLECTOR,
    SIMULATOR,
    Component,
    behavior_of,
    fill_garbage_collector,
    fill_job,
    fill_jobset,
    fill_simulator,
    fill_trainer,
    make_node,
)
from .server import BYPASS, MASTERS

Json = dict[str, Any]

TRAINER: Final = "trainer"
JOBSET: Final = "jobset"
RELEASE_2_1: Final = {"protectRuntimes": True, "runtimeSnapshot": False}
"""What the cases go by, unless one says otherwise: runtimes were not yet kept for each TrainJob."""
ENVIRONMENT: Final = words(
    "settings",
    "garbageCollector",
    controllers=[frozenset({TRAINER, JOBSET, "job", "node-simulator"})],
    admission=[frozenset({TRAINER, JOBSET})],
    simulator=SIMULATOR,
)


class Environment:
    """Runs for the time of a block."""

    def __init__(self, objects: CaseObjects, environment: Json) -> None:
        refuse_unknown(environment, ENVIRONMENT, "environment")
        self._objects: Final = objects
        self._environment: Final = environment
        self._admission: Final = tuple(environment.get("admission") or ())
        self._components: Final[dict[str, Component]] = {}

    @property
    def has_admission(self) -> bool:
        """Whether the operator's webhooks see what users write."""
        return TRAINER in self._admission

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    async def _start(self) -> None:
        server = self._objects.server
        if JOBSET in self._admission:
            await server.register(CONFIGURATION, jobset_webhooks(), tuple(self._objects.namespaces.values()))
        wanted = self._environment.get("controllers") or ()
        if self._environment.get("garbageCollector", True):
            self._add(GARBAGE_COLLECTOR, fill_garbage_collector)
        if TRAINER in wanted:
            self._add(TRAINER, fill_trainer({**RELEASE_2_1, **(self._environment.get("settings") or {})}))
        if JOBSET in wanted:
            self._add(JOBSET, fill_jobset)
        if "job" in wanted:
            self._add("job", fill_job)
        if "node-simulator" in wanted:
            behavior = behavior_of(self._environment.get("simulator") or {})
            await make_node(self._objects.client)
            self._add("node-simulator", fill_simulator(behavior))
        for component in self._components.values():
            await component.start()

    def _add(self, name: str, fill: Any) -> None:
        cluster = self._objects.server.cluster
        # Where admission is off, it is off for the controllers' own writes as well.
        link = (
            cluster.link(name=name)
            if self.has_admission
            else cluster.link(user=BYPASS, groups=(MASTERS,), name=name)
        )
        self._components[name] = Component(name, cluster, link, self._objects.namespaces.values(), fill)

    async def _stop(self) -> None:
        for component in reversed(self._components.values()):
            await component.stop()
        if "node-simulator" in self._components:
            await self._objects.force_delete("/api/v1/nodes/case-node")
        if JOBSET in self._admission:
            await self._objects.server.unregister(CONFIGURATION, jobset_webhooks())

    def _find(self, name: str) -> Component:
        component = self._components.get(name.removeprefix("controller:"))
        if component is None:
            raise CaseFailure(f"there is no component {name}")
        return component

    async def pause(self, component: str) -> None:
        """Hold a controller, or the events of a kind on their way to the operator."""
        if component.startswith("watch:"):
            resource = await self._objects.resource(component.removeprefix("watch:"))
            self._find(TRAINER).link.hold(resource)
        else:
            self._find(component).link.hold()

    async def resume(self, component: str) -> None:
        """Let it go on with what it has missed."""
        if component.startswith("watch:"):
            resource = await self._objects.resource(component.removeprefix("watch:"))
            self._find(TRAINER).link.release(resource)
        else:
            self._find(component).link.release()

    async def restart(self, name: str) -> None:
        """End a controller and start it anew, without its memory."""
        component = self._find(name)
        await component.stop()
        await component.start()

    async def fail_requests(self, verb: str, kind: str, *, times: int, code: int) -> None:
        """Let requests of controllers fail so often."""
        rule = Refuse(code, times=times, verbs=_verbs(verb), resources=await self._resources(kind))
        self._plan(rule)

    async def delay_requests(self, verb: str, kind: str, seconds: float) -> None:
        """Slow requests of controllers down."""
        resources = await self._resources(kind)
        self._plan(Latency((seconds, seconds), verbs=_verbs(verb), resources=resources))

    async def _resources(self, kind: str) -> frozenset[str]:
        return frozenset({await self._objects.resource(kind)}) if kind else frozenset()

    def _plan(self, rule: FaultRule) -> None:
        for component in self._components.values():
            component.link.plan.add(rule)


def _verbs(verb: str) -> frozenset[str]:
    """A verb as cases name it; to apply is to patch."""
    return frozenset({verb, "apply"} if verb == "patch" else {verb} if verb else ())
