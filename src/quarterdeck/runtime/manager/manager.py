"""The manager: starts everything in order, keeps it running, stops it in order.

Start, each waiting for the one before: servers, webhooks, caches, others, warm-up, leader election, and
when the lease is won the controllers. Stop, within one grace period: others, controllers, caches,
webhooks, servers; then the election ends, which releases the lease. Caches are waited for until they are
synced or until it is clear that they cannot be (a permission or a CRD is missing): one blocked kind must
not keep controllers from working that do not need it.

Everything that runs is supervised (``loop.supervision``). A runnable that raises stops the manager unless it
was added with another policy, and its error is raised by ``serve()``; while anything that should run does
not, the manager is not ready. ``run()`` is ``serve()`` with signal handlers and an exit code.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar, overload

import msgspec

from quarterdeck.api import Resource, Scheme, UnsetType
from quarterdeck.api.kind import GroupKind
from quarterdeck.client import Client, Config, Observer
from quarterdeck.client.clock import Clock
from quarterdeck.errors import ConfigError, QuarterdeckError
from quarterdeck.runtime.cache.cache import Cache
from quarterdeck.runtime.cache.metrics import follow_caches
from quarterdeck.runtime.cache.options import CacheOptions
from quarterdeck.runtime.contract import Elector, KeyElector, Recorder, RecorderSource
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.environment import ControllerEnvironment
from quarterdeck.runtime.log.field import get_logger
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.loop.execution import Execution
from quarterdeck.runtime.loop.lag import LoopLag
from quarterdeck.runtime.loop.runnable import Group, Runnable
from quarterdeck.runtime.loop.step import unless
from quarterdeck.runtime.loop.supervision import Loop, Policy
from quarterdeck.runtime.loop.taskerror import unwrapped
from quarterdeck.runtime.manager.check import BuiltinChecks
from quarterdeck.runtime.manager.cluster import Cluster, ClusterProvider
from quarterdeck.runtime.manager.fleet import Fleet
from quarterdeck.runtime.manager.leadership import Leadership
from quarterdeck.runtime.manager.making import choose_elector, connect, make_recorders
from quarterdeck.runtime.manager.option import (
    GracePeriodExceeded,
    LeaderElectionLost,
    ManagerMetrics,
    ManagerOptions,
    ManagerStatistics,
)
from quarterdeck.runtime.manager.runnable import RunnableGroup, describe, group_of
from quarterdeck.runtime.manager.stopsignal import stop_on_signals
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.runtime.rbac import (
    ELECTION_RULES,
    SHARD_RULES,
    Rule,
    event_rules,
    merge_rules,
    missing_permissions,
)
from quarterdeck.runtime.trace import NO_TRACER, Tracer

if TYPE_CHECKING:
    from quarterdeck.runtime.election import LeaderElection
    from quarterdeck.runtime.webhook import AdmissionWebhook, Converter, WebhookServer

T = TypeVar("T", bound=Resource)
_log: Final = get_logger(__name__)


class Manager:
    """Runs controllers, caches, servers and whatever else has a life.

    - ``target``: where the cluster is (a ``Config``), or a client to it.
    - ``cache``: what the cache holds.
    - ``leader_election``: how to campaign (a ``LeaderElection``), or an elector.
    - ``webhooks``: the webhook server.
    - ``recorder``: who records events; by default they are written to the cluster.
    - ``metrics``, ``tracer``, ``observer``: who is told what happens.
    """

    def __init__(
        self,
        target: Config | Client,
        *,
        cache: CacheOptions | None = None,
        leader_election: "LeaderElection | Elector | KeyElector | None" = None,
        webhooks: Runnable | None = None,
        metrics: ManagerMetrics | None = None,
        recorder: Recorder | RecorderSource | None = None,
        tracer: Tracer = NO_TRACER,
        scheme: Scheme | None = None,
        observer: Observer | None = None,
        options: ManagerOptions | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.options: Final = options if options is not None else ManagerOptions()
        self._clock: Final = clock if clock is not None else LoopClock()
        self._random: Final = rng if rng is not None else random.Random()  # noqa: S311  jitter, no secret
        self.config: Final = target if isinstance(target, Config) else None
        client = target if isinstance(target, Client) else connect(target, scheme, metrics, tracer, observer)
        self.cluster: Final = Cluster(
            client,
            cache=cache,
            clock=self._clock,
            rng=self._random,
            owns_client=isinstance(target, Config),
        )
        self.metrics: Final = metrics
        self._recorders: Final = (
            recorder
            if recorder is not None
            else make_recorders(client, self.options, metrics, clock=self._clock, rng=self._random)
        )
        self._tracer: Final = tracer
        self.webhooks: Final = webhooks
        self.execution: Final = Execution(threads=self.options.threads)
        lag = metrics.loop_lag.set if isinstance(metrics, RuntimeMetrics) else None
        self.loop_lag: Final = LoopLag(observe=lag)
        # Where the Lease lives, if that is known here: the permission is needed there only.
        self._election_namespace: Final[str] = getattr(leader_election, "namespace", "")
        self.elector: Final = choose_elector(
            leader_election,
            self.config,
            recorder=partial(self.recorder, "leader-election"),
            metrics=metrics,
            rng=self._random,
        )
        self._controllers: Final[dict[str, Controller[Any]]] = {}
        self._rules: list[Rule] = []
        self._fleet: Final = Fleet(
            self.cluster, self._controllers, spawn=self._spawn, failed=self._fail, clock=self._clock
        )
        self._groups: Final = {
            group: RunnableGroup(group, spawn=self._spawn, failed=self._runnable_failed, clock=self._clock)
            for group in Group
        }
        self._tasks: asyncio.TaskGroup | None = None
        self._spawned: set[asyncio.Task[None]] = set()
        self._recording: asyncio.Task[None] | None = None
        self._stop_requested: Final = asyncio.Event()
        self._error: Exception | None = None
        self._is_stopping = False
        self._started = False
        self._campaigning = False
        self._leadership: Final = Leadership(
            self.elector,
            self._groups,
            self._controllers,
            is_stopping=self._stop_requested.is_set,
            restarts=self.options.restart_on_lost_lease,
        )
        self._checks: Final = BuiltinChecks(
            cluster=self.cluster,
            trouble=self._trouble,
            loop_lag=self.loop_lag,
            webhooks=self.webhooks,
            elector=self.elector,
            clock=self._clock,
            blocked_kinds_are_ready=self.options.blocked_kinds_are_ready,
        )
        if webhooks is not None:
            self._groups[Group.WEBHOOKS].add(webhooks)
        if isinstance(metrics, RuntimeMetrics):
            follow_caches(metrics, self._fleet.caches_by_name, clock=self._clock)

    def recorder(self, name: str) -> Recorder:
        """The event recorder of a controller, or of anybody else under a name of their own."""
        recorders = self._recorders
        return recorders.recorder(name) if isinstance(recorders, RecorderSource) else recorders

    @property
    def client(self) -> Client:
        """Talks to the manager's own cluster; reads go to the server."""
        return self.cluster.client

    @property
    def api_reader(self) -> Client:
        """Always reads the server; the same as ``client``, under controller-runtime's name."""
        return self.cluster.client

    @property
    def cache(self) -> Cache:
        """The cache of the manager's own cluster."""
        return self.cluster.cache

    @property
    def controllers(self) -> tuple[Controller[Any], ...]:
        """The controllers that were added."""
        return tuple(self._controllers.values())

    @property
    def clusters(self) -> Mapping[str, Cluster]:
        """All clusters by name; the manager's own has the empty name."""
        return dict(self._fleet.clusters)

    @property
    def is_started(self) -> bool:
        """Whether everything runs that may: also true of a replica that waits for the lease."""
        return self._campaigning

    @property
    def is_leading(self) -> bool:
        """Whether the controllers run."""
        return self._leadership.is_leading

    @overload
    def controller(
        self, kind: type[T], *, name: str = ..., only_metadata: Literal[False] = ...
    ) -> Builder[T]: ...
    @overload
    def controller(self, kind: type[T], *, name: str = ..., only_metadata: bool) -> Builder[Any]: ...
    def controller(self, kind: type[T], *, name: str = "", only_metadata: bool = False) -> Builder[Any]:
        """Build a controller for a kind; ``build`` adds nothing by itself, see ``add``.

        With ``only_metadata`` nothing else of the kind is fetched; see ``Builder.for_``.
        """
        return Builder[T](name=name).for_(kind, only_metadata=only_metadata)

    def add(self, runnable: Runnable, *, group: Group | None = None, policy: Policy = Policy.STOP) -> None:
        """Add something to run, in the group it belongs to unless one is named.

        ``policy`` says what its failure means: stop the manager (the default), restart it after a growing
        wait, or leave it out and go on. Raises ``ConfigError`` for a second controller of the same name,
        ``RuntimeError`` while stopping.
        """
        if self._is_stopping:
            raise RuntimeError("can't accept new runnable as stop procedure is already engaged")
        if isinstance(runnable, Controller):
            self._add_controller(runnable)
            return
        adopt = getattr(runnable, "adopt_checks", None)
        if adopt is not None:
            adopt(self.checks)
        self._groups[group or group_of(runnable)].add(runnable, policy)

    def _trouble(self) -> str | None:
        """What has failed and does not run at this moment."""
        down = [group.trouble() for group in self._groups.values()]
        down += [controller.trouble() for controller in self._controllers.values()]
        return "; ".join(filter(None, down)) or None

    def _add_controller(self, controller: Controller[Any]) -> None:
        name = controller.name
        if name in self._controllers:
            raise ConfigError(
                f"controller with name {name} already exists. Controller names must be unique to avoid "
                "multiple controllers reporting the same metric. Give it another name with named(...)"
            )
        self._controllers[name] = controller
        controller.attach(
            ControllerEnvironment(
                execution=self.execution,
                recorder=self.recorder(name),
                tracer=self._tracer,
                clock=self._clock,
                rng=self._random,
                may_write=self._leadership.may_write if self.elector is not None else None,
                owns=self.elector.owns if isinstance(self.elector, KeyElector) else None,
                metrics=self.metrics.controller(name) if self.metrics is not None else None,
                queue_metrics=self.metrics.queue(name) if self.metrics is not None else None,
                workers=self._workers_for(controller),
            )
        )
        for cluster in self._fleet:
            controller.engage(cluster.name, cluster.client, cluster.cache)
        if not controller.needs_leader_election:
            self._groups[Group.OTHERS].add(controller)
        elif controller.options.enable_warmup:
            self._groups[Group.WARMUP].add(controller)
            if self._leadership.is_leading:
                controller.lead()
        else:
            self._groups[Group.CONTROLLERS].add(controller)

    def _workers_for(self, controller: Controller[Any]) -> int:
        if controller.kind is None:
            return self.options.max_concurrent_reconciles
        names: GroupKind = controller.kind.type_info.gvk.group_kind
        return self.options.concurrency_by_kind.get(str(names), self.options.max_concurrent_reconciles)

    def add_webhook(self, *webhooks: "AdmissionWebhook") -> None:
        """Serve admission handlers; the manager must have a webhook server."""
        if webhooks:
            self.webhook_server.add(*webhooks)

    def add_conversion(self, *conversions: "Converter") -> None:
        """Serve conversions between versions of a kind; the manager must have a webhook server."""
        self.webhook_server.add_conversion(*conversions)

    @property
    def webhook_server(self) -> "WebhookServer":
        """The webhook server; raises ``ConfigError`` if there is none."""
        from quarterdeck.runtime.webhook import WebhookServer

        if not isinstance(self.webhooks, WebhookServer):
            raise ConfigError("the manager has no webhook server: pass webhooks=WebhookServer(...)")
        return self.webhooks

    def add_provider(self, provider: ClusterProvider) -> None:
        """Serve the clusters a provider finds, with every controller."""
        self._fleet.add_provider(provider)

    def add_rules(self, *rules: Rule) -> None:
        """Declare permissions that no controller declares, such as what webhooks read."""
        self._rules += rules

    def rules(self) -> tuple[Rule, ...]:
        """The permissions the manager needs, as derived from the declarations of its controllers."""
        rules = [*self._rules]
        rules += [rule for controller in self._controllers.values() for rule in controller.rules]
        if isinstance(self._recorders, RecorderSource):
            rules += event_rules(self.options.event_api)
        if self.elector is not None:
            needed = SHARD_RULES if isinstance(self.elector, KeyElector) else ELECTION_RULES
            rules += (msgspec.structs.replace(rule, namespace=self._election_namespace) for rule in needed)
        return merge_rules(rules)

    def statistics(self) -> ManagerStatistics:
        """Controllers and caches."""
        return ManagerStatistics(
            controllers=tuple(each.statistics() for each in self._controllers.values()),
            caches={name: cluster.cache.statistics() for name, cluster in self._fleet.clusters.items()},
            is_leading=self._leadership.is_leading,
        )

    def is_idle(self, *, until: float | None = None) -> bool:
        """Whether nothing is to be done: queues empty, nobody at work, nothing delayed before ``until``.

        ``until`` is a loop time; ``None`` ignores delayed keys altogether.
        """
        return self.statistics().is_idle(until=until)

    @property
    def checks(self) -> BuiltinChecks:
        """Readiness and liveness; a health server that is added has them."""
        return self._checks

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.execution.aclose()
        await self.cluster.aclose()

    def request_stop(self) -> None:
        """Begin to stop; ``serve()`` ends when everything has."""
        self._stop_requested.set()

    async def run(self) -> int:
        """``serve()`` with handlers for SIGINT and SIGTERM; returns the exit code of the process."""
        with stop_on_signals(self.request_stop):
            try:
                await self.serve()
            except QuarterdeckError as error:
                _log.error("manager ended with an error", error, trace=False)
                return 1
            except Exception as error:  # noqa: BLE001  supervision point: the end of the process
                _log.error("manager ended with an error", error)
                return 1
        return 0

    async def serve(self) -> None:
        """Start everything, run until asked to stop or until something fails, stop everything.

        Raises the error of the runnable that failed, ``GracePeriodExceeded`` or ``LeaderElectionLost``.
        """
        if self._started:
            raise RuntimeError("the manager was started more than once")
        self._started = True
        late: list[str] = []
        with unwrapped():
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                election: asyncio.Task[None] | None = None
                try:
                    election = await self._start()
                    await self._stop_requested.wait()
                finally:
                    late = await self._stop(election)
        if self._error is not None:
            raise self._error
        if late:
            grace, names = self.options.graceful_shutdown_timeout, ", ".join(late)
            raise GracePeriodExceeded(
                f"failed waiting for all runnables to end within grace period of {grace:g}s: {names}"
            )

    async def _start(self) -> "asyncio.Task[None] | None":
        groups = self._groups
        if isinstance(self._recorders, RecorderSource):
            self._recording = self._spawn_loop("event recorder", self._recorders.run, Policy.RESTART)
        if self.options.watch_loop:
            groups[Group.SERVERS].add(self.loop_lag)
        for group in (Group.SERVERS, Group.WEBHOOKS):
            groups[group].start()
            await unless(self._stop_requested, groups[group].wait_serving())
        if self.options.check_permissions:
            self._spawn_loop("permission check", self._check_permissions, Policy.ISOLATE)
        self._fleet.start_caches()
        groups[Group.CACHES].start()
        await unless(self._stop_requested, self._fleet.wait_settled(self.options.cache_settle_timeout))
        await unless(self._stop_requested, groups[Group.CACHES].wait_serving())
        groups[Group.OTHERS].start()
        self._fleet.follow_providers()
        groups[Group.WARMUP].start()
        for runnable in groups[Group.WARMUP].runnables:
            if isinstance(runnable, Controller):
                await unless(self._stop_requested, runnable.wait_synced())
        if self._stop_requested.is_set():
            return None
        self._campaigning = True
        return self._spawn_loop("leader election", self._leadership.campaign, Policy.STOP)

    async def _check_permissions(self) -> None:
        """Say which permissions are missing, long before a cache times out for lack of them."""
        spaces = self.cache.options.namespaces
        namespaces = () if isinstance(spaces, UnsetType) else tuple(name for name in spaces if name)
        try:
            missing = await missing_permissions(self.client, self.rules(), namespaces=namespaces)
        except QuarterdeckError as error:
            _log.warning("cannot check permissions", error)
            return
        if missing:
            _log.error("permissions are missing", permissions=[str(each) for each in missing])

    def _spawn_loop(
        self, name: str, run: Callable[[], Awaitable[None]], policy: Policy
    ) -> asyncio.Task[None]:
        failed = self._fail if policy is Policy.STOP else None
        loop = Loop(name, run, policy=policy, failed=failed, clock=self._clock)
        return self._spawn(loop.run(), name)

    async def engage(self, cluster: Cluster) -> None:
        """Serve one more cluster with every controller."""
        await self._fleet.engage(cluster)

    async def disengage(self, name: str) -> None:
        """Stop serving a cluster; its queued keys are dropped, its cache ends."""
        await self._fleet.disengage(name)

    async def _stop(self, election: "asyncio.Task[None] | None") -> list[str]:
        self._is_stopping = True
        self._stop_requested.set()
        _log.info("Stopping and waiting for runnables")
        grace = 0.0 if isinstance(self._error, LeaderElectionLost) else self.options.graceful_shutdown_timeout
        deadline = None if grace < 0 else self._clock.monotonic() + grace
        late: list[str] = []
        self._groups[Group.WARMUP].request_stop()
        for group in (Group.OTHERS, Group.LEADER, Group.CONTROLLERS, Group.WARMUP, Group.CACHES):
            late += await self._stop_group(group, deadline)
        await self._fleet.stop_caches()  # they were the first, and others may borrow of them
        for group in (Group.WEBHOOKS, Group.SERVERS):
            late += await self._stop_group(group, deadline)
        if election is not None:
            # Only now may somebody else lead: nothing of ours acts any more.
            election.cancel()
            await asyncio.wait([election])
        if self._recording is not None:
            self._recording.cancel()
            await asyncio.wait([self._recording])
        self._leadership.is_leading = False
        self._cancel_rest()
        return late

    async def _stop_group(self, group: Group, deadline: float | None) -> list[str]:
        runnables = self._groups[group]
        runnables.request_stop()
        left = None if deadline is None else max(0.0, deadline - self._clock.monotonic())
        late = await runnables.wait_stopped(left)
        await runnables.wait_cancelled()
        return late

    def _cancel_rest(self) -> None:
        for task in self._spawned:
            task.cancel()

    def _spawn(self, work: Awaitable[None], name: str) -> "asyncio.Task[None]":
        assert self._tasks is not None
        task = self._tasks.create_task(_as_coroutine(work), name=name)
        self._spawned.add(task)
        task.add_done_callback(self._spawned.discard)
        return task

    def _runnable_failed(self, runnable: Runnable, error: Exception) -> None:
        if self._is_stopping:
            _log.error("error received after stop sequence was engaged", error, runnable=describe(runnable))
            return
        self._fail(error)

    def _fail(self, error: Exception) -> None:
        if self._error is None and not self._is_stopping:
            self._error = error
        self._stop_requested.set()


async def _as_coroutine(work: Awaitable[None]) -> None:
    await work
