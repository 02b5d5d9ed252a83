"""The start of the operator: before any controller works, its backends do.

It is a server to the manager, so that everything else waits for it. Its errors say which part of the start
failed, which is also the exit code of the program.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from quarterdeck.api import ObjectMeta, Scheme
from quarterdeck.client import Client
from quarterdeck.errors import NotFound, QuarterdeckError, ignore_not_found
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.backends.contract import HealthChecked
from quarterdeck.operators.grove.backends.error import BackendError
from quarterdeck.operators.grove.backends.guard import awaited
from quarterdeck.operators.grove.backends.served import is_served
from quarterdeck.operators.grove.configuration import OperatorConfiguration
from quarterdeck.operators.grove.logic.mnnvl import COMPUTE_DOMAIN
from quarterdeck.operators.grove.types import ClusterTopologyBinding, ClusterTopologySpec, PodGang
from quarterdeck.runtime.contract import Recorder
from quarterdeck.runtime.log import get_logger

from .operatorstatus import OperatorStatus
from .shared import SharedState

__all__ = ["StartError", "Startup"]

_PERIOD: Final = 30.0
_log: Final = get_logger(__name__)

TOPOLOGY_FAILED: Final = 3
BACKEND_FAILED: Final = 5
MNNVL_FAILED: Final = 7
_PREFLIGHT: Final = "MNNVL preflight check failed"


class StartError(QuarterdeckError):
    """The operator does not start."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code: Final = exit_code


class Startup:
    """Starts the backends, and looks after their health from then on."""

    name: Final = "grove"
    needs_leader_election: Final = False

    def __init__(
        self, shared: SharedState, client: Client, status: OperatorStatus, recorder: Recorder
    ) -> None:
        self._shared: Final = shared
        self._client: Final = client
        self._status: Final = status
        self._recorder: Final = recorder
        self._stopping: Final = asyncio.Event()
        self._problems: dict[str, str] = {}
        self._stranded: frozenset[str] = frozenset()
        """Backends that have gangs and did not start."""
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
        shared, configuration = self._shared, self._shared.configuration
        await self._status.read()
        shared.backends.remember(self._status.options)
        await self._check_mnnvl()
        others = configuration.scheduler.profiles if configuration.scheduler is not None else ()
        try:
            await shared.backends.initialize(
                self._client,
                self._client.scheme or Scheme(),
                self._recorder,
                configuration.scheduler_name,
                config=configuration.options_of(configuration.scheduler_name),
                profiles={profile.name: profile.config for profile in others},
            )
        except BackendError as error:
            await self._status.write()
            self._status.failed(configuration.scheduler_name)
            raise StartError(str(error), BACKEND_FAILED) from error
        await self._drain()
        await self._save(configuration.scheduler_name)
        self._status.started(configuration.scheduler_name, configuration.enabled_schedulers)
        try:
            await self._sync_topology()
        except QuarterdeckError as error:
            raise StartError(f"failed to sync the topology: {error}", TOPOLOGY_FAILED) from error

    async def _check_mnnvl(self) -> None:
        if not self._shared.has_mnnvl:
            return
        try:
            has_domains = await is_served(self._client, COMPUTE_DOMAIN)
        except QuarterdeckError as error:
            raise StartError(
                f"{_PREFLIGHT}: failed to discover API resources: {error}", MNNVL_FAILED
            ) from error
        if not has_domains:
            text = (
                f"{_PREFLIGHT}: MNNVL is enabled but ComputeDomain CRD "
                f"(computedomains.{COMPUTE_DOMAIN.group}) is not installed. Please install the NVIDIA DRA "
                "driver or disable MNNVL in the operator configuration"
            )
            raise StartError(text, MNNVL_FAILED)

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
                await self._status.write()
            return
        try:
            await shared.backends.switch(name, options)
        except BackendError:
            await self._status.write()
            self._status.failed(name)
            raise
        shared.configuration = msgspec.structs.replace(present, scheduler_name=name, scheduler_config=options)
        self._status.previous = present.scheduler_name
        await self._save(name)
        self._status.started(name)

    async def _save(self, active: str = "") -> None:
        """Write what is, and what the next life needs to know: the options of backends with work to do."""
        backends = self._shared.backends
        busy = self._stranded | backends.backends.keys()
        self._status.options = {name: each for name, each in backends.options.items() if name in busy}
        await self._status.write(active)

    async def _drain(self) -> None:
        """Start the backends whose gangs are older than the configuration."""
        shared = self._shared
        try:
            gangs = await self._client.list(PodGang)
        except NotFound:
            return  # the kind is installed later
        failed: dict[str, Exception] = {}
        for gang in gangs:
            label = gang.metadata.labels.get(names.SCHEDULER_NAME, "")
            if not label or label in shared.backends.backends:
                continue
            if label not in failed:
                try:
                    await shared.backends.drain(label)
                    continue
                except BackendError as error:
                    failed[label] = error
            shared.report.failed(gang, "Init", failed[label])
        self._stranded = frozenset(failed)

    async def _retire(self) -> None:
        """Let go of draining backends whose last gang is gone."""
        backends = self._shared.backends
        draining = sorted(backends.draining)
        for name in draining:
            try:
                gangs = await self._client.list(PodGang, labels={names.SCHEDULER_NAME: name}, limit=1)
            except QuarterdeckError as error:
                _log.warning("cannot tell whether a scheduler backend is drained", error, backend=name)
                return
            if not gangs.items:
                backends.retire(name)
                self._problems.pop(name, None)
        if backends.draining != frozenset(draining):
            await self._save()

    async def _sync_topology(self) -> None:
        """Keep the topology of the configuration; without the feature there is none."""
        levels = self._shared.default_levels
        if levels:
            wanted = ClusterTopologyBinding(
                metadata=ObjectMeta(name=names.DEFAULT_TOPOLOGY, labels={names.MANAGED_BY: names.OPERATOR}),
                spec=ClusterTopologySpec(levels=levels),
            )
            await self._client.apply(wanted, field_manager=names.FIELD_MANAGER, force=True)
        elif not self._shared.has_topology:
            with ignore_not_found():
                await self._client.delete(ClusterTopologyBinding, names.DEFAULT_TOPOLOGY)

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
