"""The operator of a grove case: started, stopped, started again."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from quarterdeck.client import Call, Client, Interceptor, Proceed, Response, Verb
from quarterdeck.errors import ConfigError, InternalError, QuarterdeckError
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.assembly import GroveOperator
from quarterdeck.operators.grove.program import exit_code_of
from quarterdeck.runtime.manager.manager import Manager, ManagerOptions
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.runtime.operator import OperatorEnvironment
from quarterdeck.testing import EventLog

from .guard import empty_registry
from .spy import Spies
from .stage import Stage

__all__ = ["OperatorRun", "PodFaults", "Refusal"]

Json = dict[str, Any]

_ENVIRON: Final = {names.INIT_IMAGE_ENV: "grove-initc", names.ACCOUNT_ENV: "grove-operator"}
_STEP: Final = 0.001


class Refusal(Exception):
    """The operator did not start."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.exit_code: Final = exit_code_of(error)


class PodFaults:
    """What happens to pods that the operator creates."""

    def __init__(self, given: Json) -> None:
        self._is_paused: Final = bool(given.get("pausePodCreation"))
        self._limits: Final[Mapping[str, int]] = given.get("limitPodCreation") or {}
        self._gate: Final[str] = given.get("injectGateOnPodCreate") or ""
        self._created: Final[dict[str, int]] = {}

    def around(self, client: Client) -> Client:
        """A client like ``client`` with these faults."""
        if not self._is_paused and not self._limits and not self._gate:
            return client

        async def create(call: Call, proceed: Proceed) -> Response:
            if call.gvk.kind != "Pod" or call.subresource:
                return await client.send(call)
            return await client.send(self._changed(call))

        async def other(call: Call, proceed: Proceed) -> Response:
            return await client.send(call)

        verbs: tuple[Verb, ...] = ("get", "list", "update", "patch", "apply", "delete", "deletecollection")
        interceptors: dict[Verb, Interceptor] = dict.fromkeys(verbs, other)
        return Client(
            client.rest,
            scheme=client.scheme,
            mapper=client.mapper,
            interceptors={**interceptors, "create": create},
            stream_interceptor=lambda call, proceed: client.open(call),
        )

    def _changed(self, call: Call) -> Call:
        if self._is_paused:
            raise InternalError("pods are not created now")
        document = json.loads(call.body)
        clique = document["metadata"]["labels"].get(names.PODCLIQUE, "")
        made = self._created.get(clique, 0)
        if clique in self._limits and made >= self._limits[clique]:
            raise InternalError(f"no more pods of {clique} are created now")
        self._created[clique] = made + 1
        if self._gate:
            document["spec"].setdefault("schedulingGates", []).append({"name": self._gate})
        return msgspec.structs.replace(call, body=json.dumps(document).encode())


class OperatorRun:
    """The operator of one case, over all its lives."""

    def __init__(self, stage: Stage, given: Json, *, environ: Mapping[str, str] | None = None) -> None:
        self._stage: Final = stage
        self._faults: Final = PodFaults(given)
        self._environ: Final = _ENVIRON if environ is None else environ
        self.spies: Final = Spies(given.get("testBackends") or [])
        self.registry: Final = empty_registry()
        self.refused: Final = self.spies.register(self.registry)
        """Index and text of test backends that could not be registered."""
        self.events: Final = EventLog()
        self.metrics = RuntimeMetrics()
        self.manager: Manager | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, config: Mapping[str, Any]) -> None:
        """Start; raises ``Refusal``."""
        client = self._faults.around(self._stage.patient(self._stage.cluster.link(name="grove").client))
        self.metrics = RuntimeMetrics()
        manager = Manager(
            client,
            metrics=self.metrics,
            recorder=self.events,
            options=ManagerOptions(watch_loop=False),
            clock=self._stage.cluster.clock,
            rng=random.Random(0),
        )
        operator = GroveOperator(self.registry, self._environ)
        environment = OperatorEnvironment(
            name="grove", settings=config, namespace="default", is_embedded=False
        )
        try:
            webhooks = operator.setup(manager, environment)
        except ConfigError as error:
            raise Refusal(error) from error
        parts = (webhooks, *webhooks.others)
        self._stage.answer_with([hook for part in parts for hook in part.admission])
        self.manager = manager
        self._task = asyncio.create_task(_serve(manager), name="grove")
        while not self._task.done() and not manager.is_leading:  # noqa: ASYNC110  nobody signals it
            await asyncio.sleep(_STEP)
        if self._task.done():
            failure = self._task.exception()
            self.manager = self._task = None
            assert isinstance(failure, Exception)
            raise Refusal(failure) from failure

    async def stop(self) -> None:
        """Stop in order."""
        if self.manager is None or self._task is None:
            return
        self.manager.request_stop()
        try:
            await self._task
        except QuarterdeckError as error:
            raise Refusal(error) from error
        finally:
            self.manager = self._task = None


async def _serve(manager: Manager) -> None:
    async with manager:
        await manager.serve()
