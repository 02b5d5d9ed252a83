"""Keeps the status of every PodGroup: what its pods ask for and have, how many are in which phase."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Final

from quarterdeck.api import Key, Resource, to_dict
from quarterdeck.api.codec import decode_json
from quarterdeck.api.k8s import Pod, PriorityClass
from quarterdeck.client import Client
from quarterdeck.client.clock import Clock
from quarterdeck.errors import ignore_not_found
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.index import PODS_BY_GROUP, pod_group_of
from quarterdeck.operators.kai.logic.intake import pod_group_info, priority_class_info
from quarterdeck.operators.kai.logic.resourcestatus import GroupUse, PodUse, group_status, pod_use
from quarterdeck.operators.kai.settings import KaiSettings
from quarterdeck.operators.kai.types import PodGroup
from quarterdeck.runtime.cache.entry import Entry
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import generation_changed
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Requeue, Result
from quarterdeck.runtime.reconcile.statuswrite import write_status
from quarterdeck.scheduler.model.job import is_preemptible, priority_of

from .writelimit import WriteLimit

REMEMBERED: Final = 50_000
"""Pods of which it is remembered what they count for."""
_RULES: Final = (
    Rule(groups=("scheduling.k8s.io",), resources=("priorityclasses",), verbs=("get", "list", "watch")),
)


class PodGroupStatusReconciler(Reconciler[PodGroup]):
    """Adds up the pods of a group and writes the sum if it differs."""

    def __init__(self, clock: Clock) -> None:
        self._limit: Final = WriteLimit(clock)
        self._uses: Final[OrderedDict[str, tuple[Entry, PodUse]]] = OrderedDict()

    async def reconcile(self, ctx: Context[PodGroup]) -> Result | None:
        """Look at one group."""
        wait = self._limit.remaining(ctx.key)
        if wait > 0:
            return Requeue(after=wait, reason="pace")
        group = ctx.obj
        informer = await ctx.cache.synced(Pod)
        table = informer.table(PODS_BY_GROUP.name)
        assert table is not None
        pods = table.get(ctx.key.name, ctx.key.namespace)
        use = GroupUse.of(self._use(entry) for entry in pods)
        classes = [priority_class_info(each) for each in await ctx.list(PriorityClass)]
        info = pod_group_info(group)
        wanted = group_status(
            use, is_preemptible=is_preemptible(info.preemptibility, priority_of(info, classes))
        )
        with ignore_not_found():
            if await write_some(ctx.client, group, to_dict(group.status), wanted):
                self._limit.wrote(ctx.key)
        return None

    def _use(self, entry: Entry) -> PodUse:
        """What a pod counts for; remembered, because one pod of a gang changes and all are added up."""
        known = self._uses.get(entry.uid)
        if known is not None and known[0] is entry:
            return known[1]
        use = pod_use(decode_json(entry.raw))
        self._uses[entry.uid] = (entry, use)
        self._uses.move_to_end(entry.uid)
        if len(self._uses) > REMEMBERED:
            self._uses.popitem(last=False)
        return use


async def write_some(client: Client, obj: Resource, old: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Bring some fields of a status up to date; returns whether they were not."""
    answer = await write_status(client, obj, _only(old, wanted), _without_none(wanted))
    return answer is not None


def _only(document: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key in fields}


def _without_none(document: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _without_none(value) if isinstance(value, dict) else value
        for key, value in document.items()
        if value is not None
    }


class _GroupOfPod:
    """The group that a pod is in, and the one it was in."""

    def keys(self, event: ObjectEvent[Any], context: MapContext) -> Iterable[Key]:
        entries = [entry for entry in (event.old, event.new) if entry is not None]
        return [group for group in map(pod_group_of, entries) if group is not None]


def pod_group_status_controller(settings: KaiSettings, clock: Clock) -> Controller[PodGroup]:
    """The controller, for ``manager.add``."""
    return (
        Builder(name=names.POD_GROUP_CONTROLLER)
        .for_(PodGroup, predicates=[generation_changed])
        .watches(Pod, to=_GroupOfPod())
        .indexes(Pod, PODS_BY_GROUP)
        .rbac(*_RULES)
        .options(max_concurrent_reconciles=settings.status_workers, field_manager=names.FIELD_MANAGER)
        .build(PodGroupStatusReconciler(clock))
    )
