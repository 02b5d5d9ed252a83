"""The start of the operator: before any controller works, its backends do.

It is a server to the manager, so that everything else waits for it, and runs on every replica: webhooks ask
the backends, too. It writes nothing; that is up to the ``Keeper``, which only the leader runs.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from quarterdeck.api import Scheme
from quarterdeck.client import Client
from quarterdeck.errors import QuarterdeckError
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.backends.contract import HealthChecked
from quarterdeck.operators.grove.backends.error import BackendError
from quarterdeck.operators.grove.backends.guard import awaited
from quarterdeck.operators.grove.configuration import OperatorConfiguration
from quarterdeck.runtime.contract import Recorder
from quarterdeck.runtime.log import get_logger
from quarterdeck.runtime.loop.runnable import Group

from .keeper import Keeper
from .preflight import check_cluster
from .shared import SharedState

_PERIOD: Final = 30.0
_log: Final = get_logger(__name__)


async def start_backends(shared: SharedState, client: Client, recorder: Recorder) -> None:
    """Start what the configuration names, on a cluster that is fit for it.

    Raises ``StartError``, and ``BackendError`` if a backend does not start.
    """
    configuration = shared.configuration
    await check_cluster(client, configuration)
    others = configuration.scheduler.profiles if configuration.scheduler is not None else ()
    await shared.backends.initialize(
        client,
        client.scheme or Scheme(),
        recorder,
        configuration.scheduler_name,
        config=configuration.options_of(configuration.scheduler_name),
        profiles={profile.name: profile.config for profile in others},
    )


class Startup:
    """Starts the backends, and looks after their health from then on."""

    name: Final = "grove"
    needs_leader_election: Final = False
    group: Final = Group.SERVERS

    def __init__(self, shared: SharedState, client: Client, keeper: Keeper, recorder: Recorder) -> None:
        self._shared: Final = shared
        self._client: Final = client
        self._keeper: Final = keeper
        self._recorder: Final = recorder
        self._stopping: Final = asyncio.Event()
        self._problems: dict[str, str] = {}
        self.is_serving = False
        """Whether the backends have started."""

    def request_stop(self) -> None:
        """Begin to stop."""
        self._stopping.set()

    def check(self) -> str | None:
        """Why the operator is not ready."""
        condition = self._shared.report.condition
        if condition.status != "True":
            return condition.message
        return "; ".join(f"{name}: {text}" for name, text in sorted(self._problems.items())) or None

    async def run(self) -> None:
        """Start, then poll backends until stopped; raises ``StartError``."""
        await self._start()
        self.is_serving = True
        while not self._stopping.is_set():
            await self._check_health()
            await self._retire()
            try:
                async with asyncio.timeout(_PERIOD):
                    await self._stopping.wait()
            except TimeoutError:
                continue

    async def _start(self) -> None:
        try:
            await start_backends(self._shared, self._client, self._recorder)
        except BackendError as error:
            # Told by the keeper, which ends the operator: here another replica may lead, and be well.
            _log.error("the scheduler backend does not start", error, trace=False)
        else:
            self._keeper.activated(self._shared.configuration.scheduler_name)

    async def switch(self, configuration: OperatorConfiguration) -> None:
        """Take over the scheduler of another configuration, for sets to come; the rest needs a restart.

        Raises ``BackendError`` if its backend does not start: the old one goes on then.
        """
        shared = self._shared
        present, name, options = (
            shared.configuration,
            configuration.scheduler_name,
            configuration.scheduler_config,
        )
        if configuration.scheduler is not None or present.scheduler is not None:
            _log.info("profiles of schedulers change with a restart only")
            return
        if (name, options) == (present.scheduler_name, present.scheduler_config):
            if shared.report.condition.status != "True":  # a switch failed, and was taken back
                shared.report.kept(name)
                await self._keeper.save()
            return
        try:
            await shared.backends.switch(name, options)
        except BackendError:
            await self._keeper.failed(name)
            raise
        shared.configuration = msgspec.structs.replace(present, scheduler_name=name, scheduler_config=options)
        await self._keeper.switched(present.scheduler_name, name)

    async def _retire(self) -> None:
        """Let go of draining backends whose last gang is gone."""
        backends = self._shared.backends
        draining = sorted(backends.draining)
        for name in draining:
            try:
                gangs = await self._shared.gangs(self._client, labels={names.SCHEDULER_NAME: name}, limit=1)
            except QuarterdeckError as error:
                _log.warning("cannot tell whether a scheduler backend is drained", error, backend=name)
                return
            if not gangs:
                backends.retire(name)
                self._problems.pop(name, None)
        if backends.draining != frozenset(draining):
            await self._keeper.save()

    async def _check_health(self) -> None:
        for name, backend in self._shared.backends.backends.items():
            if not isinstance(backend, HealthChecked):
                continue
            try:
                await awaited(backend.health())
            except Exception as error:  # noqa: BLE001  code of others: it says that something is wrong
                self._problems[name] = str(error) or type(error).__name__
                _log.warning("scheduler backend is not healthy", error, backend=name)
            else:
                self._problems.pop(name, None)
            self._shared.report.checked(name, is_healthy=name not in self._problems)
