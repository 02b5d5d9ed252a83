"""Controllers: cache, work queue, sources, reconcilers, manager.

The names a controller's author needs, in one place::

    class Widgets(Reconciler[Widget]):
        async def reconcile(self, ctx: Context[Widget]) -> Result | None:
            await ctx.apply(desired_config(ctx.obj), owner=ctx.obj)
            ctx.conditions.set("Ready", True, reason="Applied")
            return None

    async with Manager(Config.load()) as mgr:
        mgr.add(mgr.controller(Widget).owns(ConfigMap).build(Widgets()))
        code = await mgr.run()

Parts with a package of their own: ``cache``, ``election``, ``event``, ``health``, ``metrics``, ``webhook``,
``certificate``; logging is in ``log``, tracing in ``trace``. Further predicates are in
``controller.predicate``, sources of events in ``controller.source``, the work queue in ``queue.workqueue``.
"""

from typing import TYPE_CHECKING

from quarterdeck.api._moved import moved_names as _moved_names
from quarterdeck.runtime.cache import (
    Cache,
    CacheOptions,
    Index,
    KindOptions,
    field,
    keep_only,
    label,
    owned_by,
)
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.option import ControllerOptions
from quarterdeck.runtime.controller.predicate import Predicate, generation_changed
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.controller.source import Channel, ChannelSource
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.manager.option import LeaderElectionLost, ManagerOptions
from quarterdeck.runtime.operator.install import install_definitions
from quarterdeck.runtime.rbac import Rule, roles
from quarterdeck.runtime.reconcile.context import Context, DeleteContext
from quarterdeck.runtime.reconcile.result import Requeue, Result, Wait, until, until_condition, until_gone
from quarterdeck.runtime.reconcile.upsert import create_or_patch

__all__ = [
    "Builder",
    "Cache",
    "CacheOptions",
    "Channel",
    "ChannelSource",
    "Context",
    "Controller",
    "ControllerOptions",
    "DeleteContext",
    "Index",
    "KindOptions",
    "LeaderElectionLost",
    "Manager",
    "ManagerOptions",
    "MapContext",
    "Predicate",
    "Reconciler",
    "Requeue",
    "Result",
    "Rule",
    "Wait",
    "create_or_patch",
    "field",
    "generation_changed",
    "install_definitions",
    "keep_only",
    "label",
    "owned_by",
    "roles",
    "until",
    "until_condition",
    "until_gone",
]

if not TYPE_CHECKING:
    __getattr__ = _moved_names(
        __name__,
        {
            "api.cron": "CronSchedule",
            "runtime.cache": "ALL_NAMESPACES",
            "runtime.cache.index": "IndexQuery controlled_by controller_uid node_name owner_uid",
            "runtime.cache.objects": "Objects",
            "runtime.cache.options": "Settings=WatchSettings",
            "runtime.cache.transform": "rewrite strip_last_applied strip_managed_fields",
            "runtime.controller.controller": "SyncTimeout WatchHandle",
            "runtime.controller.cron": "CronSource",
            "runtime.controller.handler": "KeyMapper for_object for_owner mapped",
            "runtime.controller.predicate": (
                "annotations_changed condition_changed deletion_started label_matches labels_changed "
                "object_matches resource_version_changed spec_changed status_changed "
                "strict_generation_changed update_if"
            ),
            "runtime.controller.source": "FunctionSource KindSource Source SourceContext TimerSource",
            "runtime.loop.runnable": "Group Runnable",
            "runtime.manager.cluster": "Cluster ClusterEvent ClusterProvider",
            "runtime.manager.option": "GracePeriodExceeded",
            "runtime.queue.workqueue": "LOW_PRIORITY QueueClosed WorkQueue",
            "runtime.rbac": "merge_rules",
            "runtime.reconcile.recording": "NotLeading",
            "runtime.reconcile.upsert": "Upsert UpsertResult",
        },
    )
