"""A configuration tried on a cluster before it is applied: would the operator start, and what would change?

``quarterdeck grove check-config`` is this. It goes through the start of the operator in the same order and
with the same code, but writes nothing: backends get a client whose writes are dry runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from quarterdeck.errors import ConfigError, NotFound, QuarterdeckError
from quarterdeck.runtime.log import get_logger
from quarterdeck.runtime.loop.clock import LoopClock, time_now
from quarterdeck.runtime.metrics import Registry
from quarterdeck.runtime.operator.program import Program
from quarterdeck.runtime.rbac import missing_permissions

from . import names
from .backends.contract import HookContext
from .backends.error import BackendError
from .backends.guard import guarded_client
from .backends.manager import BackendManager
from .backends.registry import default_registry
from .backends.report import BackendReport
from .configuration import OperatorConfiguration
from .controllers.keeper import BACKEND_FAILED, TOPOLOGY_FAILED
from .controllers.preflight import StartError, check_cluster, find_topology
from .controllers.shared import SharedState
from .metrics import GroveMetrics
from .program import MANAGER_FAILED, RUN_FAILED, GroveProgram, exit_code_of
from .webhooks import LiveReader, SetGuard


async def rehearse(program: GroveProgram, *, account: str, tell: Callable[[str], None]) -> int:
    """Tell line by line what would be; returns the exit code.

    ``account`` is the operator's service account, whose permissions count instead of the caller's.
    """
    try:
        configuration = program.load()
    except ConfigError as error:
        tell(f"configuration: {error}")
        return exit_code_of(error)
    tell("configuration: can be read")
    try:
        made = program.make(configuration)
    except ConfigError as error:
        tell(f"cluster: {error}")
        return MANAGER_FAILED
    async with made.manager:
        rehearsal = _Rehearsal(made, configuration, tell)
        try:
            await rehearsal.start()
            await rehearsal.compare()
            return await rehearsal.permissions(account)
        except StartError as error:
            tell(str(error))
            return error.exit_code
        except (QuarterdeckError, OSError) as error:
            tell(f"cluster: {error}")
            return MANAGER_FAILED


class _Rehearsal:
    """One configuration and one cluster."""

    def __init__(
        self, program: Program, configuration: OperatorConfiguration, tell: Callable[[str], None]
    ) -> None:
        self._program: Final = program
        self._client: Final = program.manager.client
        self._configuration: Final = configuration
        self._tell: Final = tell
        clock = LoopClock()
        self._recorder: Final = program.manager.recorder(names.OPERATOR)  # nobody sends what it records
        report = BackendReport(
            GroveMetrics(Registry()), self._recorder, now=lambda: time_now(clock), clock=clock.monotonic
        )
        self._shared: Final = SharedState(
            configuration,
            BackendManager(default_registry, report, is_leading=False),
            report,
            watch_namespaces=program.options.watch_namespaces,
            namespace=program.options.namespace,
        )

    async def start(self) -> None:
        """The operator's start; raises ``StartError`` as it would."""
        shared, configuration = self._shared, self._configuration
        await check_cluster(self._client, configuration)
        try:
            await shared.start_backends(self._client, self._recorder)
        except BackendError as error:
            raise StartError(f"scheduler backend: {error}", BACKEND_FAILED) from error
        self._tell(f"scheduler backend: {', '.join(sorted(configuration.enabled_schedulers))} would start")
        for notice in shared.backends.notices.values():
            self._tell(f"scheduler backend: {notice}")
        if shared.is_limited:
            return
        try:
            await find_topology(self._client, is_wanted=bool(shared.default_levels))
        except QuarterdeckError as error:
            raise StartError(f"topology: {error}", TOPOLOGY_FAILED) from error

    async def compare(self) -> None:
        """Which gangs stay with which scheduler, and which sets could not be created again."""
        try:
            gangs = await self._shared.gangs(self._client)
            sets = await self._shared.sets(self._client)
        except NotFound:
            self._tell("the definitions are not installed: quarterdeck grove install-crds")
            return
        active = self._configuration.scheduler_name
        label = names.SCHEDULER_NAME
        owners = Counter(each.metadata.labels.get(label, "the scheduler of their pods") for each in gangs)
        for scheduler, count in sorted(owners.items()):
            self._tell(f"PodGangs that stay with {scheduler}: {count}")
        self._tell(f"new PodCliqueSets: {active}, unless they name another that is enabled")
        hook = HookContext(guarded_client(self._client, "validation"), get_logger(__name__))
        guard = SetGuard(self._shared, LiveReader(self._client), hook)
        for each in sets:
            errors, _ = await guard.judge(each)
            for error in errors:
                self._tell(f"PodCliqueSet {each.key} goes on, but could not be created again: {error}")

    async def permissions(self, account: str) -> int:
        """Say what is not allowed; returns the exit code."""
        options = self._program.options
        missing = await missing_permissions(
            self._client,
            self._program.manager.rules(),
            namespaces=options.watch_namespaces,
            account=f"{options.namespace}/{account}" if account else "",
        )
        for each in missing:
            self._tell(f"permission is missing: {each}")
        if not missing:
            self._tell("permissions: complete")
        return RUN_FAILED if missing else 0
