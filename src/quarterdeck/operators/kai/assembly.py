"""The operator put together: what ``quarterdeck up``, ``run`` and ``manifests`` know of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from quarterdeck.api import Resource
from quarterdeck.client import field_owner
from quarterdeck.runtime.cache import KindOptions
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.metrics import Registry, RuntimeMetrics
from quarterdeck.runtime.operator import Operator, OperatorEnvironment, OperatorWebhooks
from quarterdeck.scheduler.snapshot import Snapshot

from . import names
from .controllers import (
    Committer,
    Installer,
    RememberingReader,
    SchedulingCycle,
    SchedulingEvents,
    Shards,
    SnapshotTaker,
    Ticker,
    UsageCollector,
    binder_controller,
    pod_group_status_controller,
    pod_grouper_controller,
    queue_status_controller,
    reservation_keeper,
    shard_status_controller,
)
from .controllers.commit import RULES as COMMIT_RULES
from .controllers.installer import RULES as INSTALL_RULES
from .controllers.shards import whole_cluster
from .controllers.snapshot import RULES as SNAPSHOT_RULES
from .logic.shard import ShardPlan
from .metrics import KaiMetrics
from .settings import KaiSettings
from .types import definitions
from .webhooks import pod_group_webhook, pod_mutation, pod_webhook, queue_webhook


class KaiOperator:
    """Queues, gangs, and the scheduler."""

    name: Final = "kai"

    def definitions(self) -> Sequence[Mapping[str, Any]]:
        """The definitions of the kinds."""
        return definitions()

    def cached_kinds(self) -> Mapping[type[Resource], KindOptions]:
        """Everything that is cached is looked at."""
        return {}

    def setup(self, manager: Manager, environment: OperatorEnvironment) -> OperatorWebhooks:
        """Add controllers, webhooks and the scheduling cycle."""
        settings = environment.decode(KaiSettings)
        clock, metrics = LoopClock(), metrics_of(manager)
        add_controllers(manager, settings, metrics)
        manager.add(shard_status_controller(settings))
        collector = UsageCollector(clock)
        manager.add(collector)
        maker = _CycleMaker(manager, settings, metrics, collector)
        shards = Shards(manager.cache, settings, maker.make)
        manager.add(Ticker(shards.run_once, settings.schedule_period, clock=clock, metrics=metrics))
        if settings.install_defaults:
            manager.add(Installer(manager.client, clock))
            manager.add_rules(*INSTALL_RULES)
        admission = [pod_group_webhook(), queue_webhook(), pod_webhook(settings.scheduler_name)]
        if settings.gpu_reservation is not None:
            admission.append(pod_mutation(settings.scheduler_name))
        return OperatorWebhooks(configuration=names.WEBHOOK_CONFIGURATION, admission=tuple(admission))


def metrics_of(manager: Manager) -> KaiMetrics:
    """The operator's metrics, among those of a manager that has some."""
    measured = manager.metrics
    return KaiMetrics(measured.registry if isinstance(measured, RuntimeMetrics) else Registry())


def set_up(
    manager: Manager,
    settings: KaiSettings,
    metrics: KaiMetrics,
    *,
    revise: Callable[[Snapshot], Snapshot] | None = None,
) -> SchedulingCycle:
    """Add the controllers to a manager; returns the cycle, for whoever gives it its turns.

    ``revise`` changes what a cycle sees of the cluster.
    """
    add_controllers(manager, settings, metrics)
    collector = UsageCollector(LoopClock())
    if settings.usage is not None:
        manager.add(collector)
    return _CycleMaker(manager, settings, metrics, collector, revise).make("", whole_cluster(settings))


def add_controllers(manager: Manager, settings: KaiSettings, metrics: KaiMetrics) -> None:
    """Grouping, binding and statuses."""
    clock = LoopClock()
    reader = RememberingReader(manager.api_reader, clock)
    manager.add(pod_grouper_controller(reader, settings))
    manager.add(binder_controller(settings, manager.recorder(names.BINDER), metrics))
    if settings.gpu_reservation is not None:
        manager.add(reservation_keeper(settings.gpu_reservation, manager.recorder(names.RESERVATION)))
    manager.add(pod_group_status_controller(settings, clock))
    manager.add(queue_status_controller(settings, clock))


class _CycleMaker:
    """Makes the cycles of shards; they look at one cluster together."""

    def __init__(
        self,
        manager: Manager,
        settings: KaiSettings,
        metrics: KaiMetrics,
        collector: UsageCollector,
        revise: Callable[[Snapshot], Snapshot] | None = None,
    ) -> None:
        self._manager: Final = manager
        self._metrics: Final = metrics
        self._collector: Final = collector
        self._revise: Final = revise
        self._clock: Final = LoopClock()
        self._taker: Final = SnapshotTaker(manager.cache, settings, self._clock)
        self._events: Final = SchedulingEvents(manager.recorder(settings.scheduler_name), self._clock)
        manager.add_rules(*SNAPSHOT_RULES, *COMMIT_RULES)

    def make(self, shard: str, plan: ShardPlan) -> SchedulingCycle:
        """The cycle of a shard."""
        settings, taker = plan.settings, self._taker
        source = self._collector.source(shard, settings.usage)
        committer = Committer(
            field_owner(self._manager.client, names.FIELD_MANAGER),
            self._manager.cache,
            self._events,
            settings=settings,
            metrics=self._metrics,
            clock=self._clock,
        )

        def take() -> Snapshot:
            snapshot = taker.take(plan.pool)
            if source is not None:
                snapshot = source.apply(snapshot)
            return self._revise(snapshot) if self._revise is not None else snapshot

        return SchedulingCycle(
            committer,
            take=take,
            left_over=taker.left_over_requests,
            # past usage changes while nothing else does
            version=taker.version if self._revise is None and source is None else None,
            observe=source.see if source is not None else None,
            settings=settings.for_cycle(),
            metrics=self._metrics,
            clock=self._clock,
        )


def operator() -> Operator:
    """For the entry point."""
    return KaiOperator()
