"""The operator of a grove case: started, stopped, started again."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from quarterdeck.client import Call, Client, Response
from quarterdeck.errors import ConfigError, InternalError, QuarterdeckError
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.assembly import GroveOperator
from quarterdeck.operators.grove.program import exit_code_of
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.manager.option import ManagerOptions
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.runtime.operator import OperatorEnvironment, OperatorWebhooks
from quarterdeck.testing import EventLog, ManagerRun

from .casebackend import CaseBackends
from .guard import empty_registry
from .interception import Send, with_hook
from .server import GroveServer

__all__ = ["OperatorRun", "PodFaults", "Refusal"]

Json = dict[str, Any]

_ENVIRON: Final = {names.INIT_IMAGE_ENV: "grove-initc", names.ACCOUNT_ENV: "grove-operator"}


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

        async def send(call: Call, proceed: Send) -> Response:
            is_pod = call.verb == "create" and call.gvk.kind == "Pod" and not call.subresource
            return await proceed(self._changed(call) if is_pod else call)

        return with_hook(client, send)

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

    def __init__(self, server: GroveServer, given: Json, *, environ: Mapping[str, str] | None = None) -> None:
        self._server: Final = server
        self._faults: Final = PodFaults(given)
        self._environ: Final = _ENVIRON if environ is None else environ
        self.backends: Final = CaseBackends(given.get("testBackends") or [])
        self.registry: Final = empty_registry()
        self.refused: Final = self.backends.register(self.registry)
        """Index and text of test backends that could not be registered."""
        self.events: Final = EventLog()
        self.metrics = RuntimeMetrics()
        self.manager: Manager | None = None
        self._run: ManagerRun | None = None

    def assemble(self, config: Mapping[str, Any]) -> tuple[Manager, OperatorWebhooks]:
        """The operator before its start; raises ``Refusal``."""
        client = self._faults.around(self._server.patient(self._server.cluster.link(name="grove").client))
        self.metrics = RuntimeMetrics()
        manager = Manager(
            client,
            metrics=self.metrics,
            recorder=self.events,
            options=ManagerOptions(watch_loop=False),
            clock=self._server.cluster.clock,
            rng=random.Random(0),
        )
        operator = GroveOperator(self.registry, self._environ)
        environment = OperatorEnvironment(
            name="grove", settings=config, namespace="default", is_embedded=False
        )
        try:
            return manager, operator.setup(manager, environment)
        except ConfigError as error:
            raise Refusal(error) from error

    async def start(self, config: Mapping[str, Any]) -> None:
        """Start; raises ``Refusal``."""
        manager, webhooks = self.assemble(config)
        parts = (webhooks, *webhooks.others)
        self._server.answer_with([hook for part in parts for hook in part.admission])
        run = ManagerRun(manager, name="grove")
        try:
            await run.start()
        except Exception as error:
            raise Refusal(error) from error
        self.manager, self._run = manager, run

    async def stop(self) -> None:
        """Stop in order."""
        run, self.manager, self._run = self._run, None, None
        if run is None:
            return
        try:
            await run.stop()
        except QuarterdeckError as error:
            raise Refusal(error) from error
