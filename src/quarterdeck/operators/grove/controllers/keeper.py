"""What only the leader says and makes: the operator's status, its events, the topology of the configuration.

Whoever does not lead has nothing to say: its configuration may be older or newer than the leader's. Errors
say which part of the start failed, which is also the exit code of the program.
"""

from __future__ import annotations

import asyncio
from typing import Final

from quarterdeck.api import ObjectMeta
from quarterdeck.client import Client
from quarterdeck.errors import NotFound, QuarterdeckError, ignore_not_found
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.backends.error import BackendError
from quarterdeck.operators.grove.types import ClusterTopologyBinding, ClusterTopologySpec

from .operatorstatus import OperatorStatus
from .preflight import StartError, find_topology
from .shared import SharedState

TOPOLOGY_FAILED: Final = 3
BACKEND_FAILED: Final = 5


class Keeper:
    """Writes once when it begins to lead, and when something changes while it does."""

    name: Final = "grove-keeper"
    needs_leader_election: Final = True

    def __init__(self, shared: SharedState, client: Client, status: OperatorStatus) -> None:
        self._shared: Final = shared
        self._client: Final = client
        self._status: Final = status
        self._stranded: frozenset[str] = frozenset()
        """Backends that have gangs and did not start."""

    async def run(self) -> None:
        """Lead until cancelled; raises ``StartError``."""
        try:
            await self._begin()
            await asyncio.Event().wait()
        finally:
            self._shared.backends.follow()

    async def _begin(self) -> None:
        backends, configuration = self._shared.backends, self._shared.configuration
        active = configuration.scheduler_name
        await backends.recall()
        try:
            if backends.error is not None:
                raise backends.error
            await backends.lead()
        except BackendError as error:
            await self._status.write()
            self._status.failed(active)
            raise StartError(str(error), BACKEND_FAILED) from error
        await self._drain()
        await self.save()
        self._status.started(active, configuration.enabled_schedulers)
        self._status.deprecated(backends.notices)
        try:
            await self._sync_topology()
        except QuarterdeckError as error:
            raise StartError(f"failed to sync the topology: {error}", TOPOLOGY_FAILED) from error

    def activated(self, backend: str) -> None:
        """A backend is the active one in this process, which says so to who asks it."""
        self._status.active = backend

    async def failed(self, backend: str) -> None:
        """A backend that was to become the active one did not start."""
        if self._shared.backends.is_leading:
            await self._status.write()
            self._status.failed(backend)

    async def switched(self, previous: str, backend: str) -> None:
        """Another backend is the active one."""
        self._status.previous = previous
        self.activated(backend)
        if self._shared.backends.is_leading:
            await self.save()
            self._status.started(backend)
            self._status.deprecated(self._shared.backends.notices)

    async def save(self) -> None:
        """Write what is, and what the next life needs to know: the options of backends with work to do."""
        backends = self._shared.backends
        if not backends.is_leading:
            return
        busy = self._stranded | backends.backends.keys()
        self._status.options = {name: each for name, each in backends.options.items() if name in busy}
        await self._status.write()

    async def _drain(self) -> None:
        """Start the backends whose gangs are older than the configuration."""
        shared = self._shared
        try:
            gangs = await shared.gangs(self._client)
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

    async def _sync_topology(self) -> None:
        """Keep the topology of the configuration; without the feature there is none, except of others."""
        if self._shared.is_limited:
            return  # its name is one for the whole cluster
        levels = self._shared.default_levels
        present = await find_topology(self._client, is_wanted=bool(levels))
        if levels:
            wanted = ClusterTopologyBinding(
                metadata=ObjectMeta(name=names.DEFAULT_TOPOLOGY, labels={names.MANAGED_BY: names.OPERATOR}),
                spec=ClusterTopologySpec(levels=levels),
            )
            await self._client.apply(wanted, field_manager=names.FIELD_MANAGER, force=True)
        elif present is not None and not self._shared.has_topology:
            with ignore_not_found():
                await self._client.delete(present)
