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
    SnapshotTaker,
    Ticker,
    binder_controller,
    pod_group_status_controller,
    pod_grouper_controller,
    queue_status_controller,
    reservation_keeper,
)
from .controllers.commit import RULES as COMMIT_RULES
from .controllers.installer import RULES as INSTALL_RULES
from .controllers.snapshot import RULES as SNAPSHOT_RULES
from .metrics import KaiMetrics
from .settings import KaiSettings
from .types import definitions
from .webhooks import pod_group_webhook, pod_mutation, pod_webhook, queue_webhook


class KaiOperator:
    """Queues, gangs, and the scheduler."""

    name: Final = "kai"

    def definitions(self) -> Sequence[Mapping[str, Any]]:
        """The four definitions."""
        return definitions()

    def cached_kinds(self) -> Mapping[type[Resource], KindOptions]:
        """Everything that is cached is looked at."""
        return {}

    def setup(self, manager: Manager, environment: OperatorEnvironment) -> OperatorWebhooks:
        """Add controllers, webhooks and the scheduling cycle."""
        settings = environment.decode(KaiSettings)
        clock, metrics = LoopClock(), metrics_of(manager)
        cycle = set_up(manager, settings, metrics)
        manager.add(Ticker(cycle, settings.schedule_period, clock=clock, metrics=metrics))
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
    clock = LoopClock()
    reader = RememberingReader(manager.api_reader, clock)
    manager.add(pod_grouper_controller(reader, settings))
    manager.add(binder_controller(settings, manager.recorder(names.BINDER), metrics))
    if settings.gpu_reservation is not None:
        manager.add(reservation_keeper(settings.gpu_reservation, manager.recorder(names.RESERVATION)))
    manager.add(pod_group_status_controller(settings, clock))
    manager.add(queue_status_controller(settings, clock))
    taker = SnapshotTaker(manager.cache, settings, clock)
    committer = Committer(
        field_owner(manager.client, names.FIELD_MANAGER),
        manager.cache,
        SchedulingEvents(manager.recorder(settings.scheduler_name), clock),
        settings=settings,
        metrics=metrics,
        clock=clock,
    )
    manager.add_rules(*SNAPSHOT_RULES, *COMMIT_RULES)
    return SchedulingCycle(
        committer,
        take=taker.take if revise is None else lambda: revise(taker.take()),
        left_over=taker.left_over_requests,
        version=taker.version if revise is None else None,
        settings=settings.for_cycle(),
        metrics=metrics,
        clock=clock,
    )


def operator() -> Operator:
    """For the entry point."""
    return KaiOperator()
