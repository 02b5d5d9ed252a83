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
``certificate``; logging is in ``log``, tracing in ``trace``.
"""

from quarterdeck.api.cron import CronSchedule
from quarterdeck.runtime.cache import (
    ALL_NAMESPACES,
    Cache,
    CacheOptions,
    Index,
    IndexQuery,
    KindOptions,
    Objects,
    Settings,
    controlled_by,
    controller_uid,
    field,
    keep_only,
    label,
    node_name,
    owned_by,
    owner_uid,
    rewrite,
    strip_last_applied,
    strip_managed_fields,
)
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller, ControllerOptions, SyncTimeout, WatchHandle
from quarterdeck.runtime.controller.cron import CronSource
from quarterdeck.runtime.controller.handler import KeyMapper, MapContext, for_object, for_owner, mapped
from quarterdeck.runtime.controller.predicate import (
    Predicate,
    annotations_changed,
    condition_changed,
    deletion_started,
    generation_changed,
    label_matches,
    labels_changed,
    object_matches,
    resource_version_changed,
    spec_changed,
    status_changed,
    strict_generation_changed,
    update_if,
)
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.controller.source import (
    Channel,
    ChannelSource,
    FunctionSource,
    KindSource,
    Source,
    SourceContext,
    TimerSource,
)
from quarterdeck.runtime.loop.runnable import Group, Runnable
from quarterdeck.runtime.manager.cluster import Cluster, ClusterEvent, ClusterProvider
from quarterdeck.runtime.manager.manager import (
    GracePeriodExceeded,
    LeaderElectionLost,
    Manager,
    ManagerOptions,
)
from quarterdeck.runtime.operator.install import install_definitions
from quarterdeck.runtime.queue.workqueue import LOW_PRIORITY, QueueClosed, WorkQueue
from quarterdeck.runtime.rbac import Rule, merge_rules, roles
from quarterdeck.runtime.reconcile.context import Context, DeleteContext
from quarterdeck.runtime.reconcile.recording import NotLeading
from quarterdeck.runtime.reconcile.result import Requeue, Result, Wait, until, until_condition, until_gone
from quarterdeck.runtime.reconcile.upsert import Upsert, UpsertResult, create_or_patch

__all__ = [
    "ALL_NAMESPACES",
    "LOW_PRIORITY",
    "Builder",
    "Cache",
    "CacheOptions",
    "Channel",
    "ChannelSource",
    "Cluster",
    "ClusterEvent",
    "ClusterProvider",
    "Context",
    "Controller",
    "ControllerOptions",
    "CronSchedule",
    "CronSource",
    "DeleteContext",
    "FunctionSource",
    "GracePeriodExceeded",
    "Group",
    "Index",
    "IndexQuery",
    "KeyMapper",
    "KindOptions",
    "KindSource",
    "LeaderElectionLost",
    "Manager",
    "ManagerOptions",
    "MapContext",
    "NotLeading",
    "Objects",
    "Predicate",
    "QueueClosed",
    "Reconciler",
    "Requeue",
    "Result",
    "Rule",
    "Runnable",
    "Settings",
    "Source",
    "SourceContext",
    "SyncTimeout",
    "TimerSource",
    "Upsert",
    "UpsertResult",
    "Wait",
    "WatchHandle",
    "WorkQueue",
    "annotations_changed",
    "condition_changed",
    "controlled_by",
    "controller_uid",
    "create_or_patch",
    "deletion_started",
    "field",
    "for_object",
    "for_owner",
    "generation_changed",
    "install_definitions",
    "keep_only",
    "label",
    "label_matches",
    "labels_changed",
    "mapped",
    "merge_rules",
    "node_name",
    "object_matches",
    "owned_by",
    "owner_uid",
    "resource_version_changed",
    "rewrite",
    "roles",
    "spec_changed",
    "status_changed",
    "strict_generation_changed",
    "strip_last_applied",
    "strip_managed_fields",
    "until",
    "until_condition",
    "until_gone",
    "update_if",
]
