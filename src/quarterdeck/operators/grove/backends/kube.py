"""The default scheduler: pods are named after it, and with ``gangScheduling`` its PodGroups are made.

Those exist since Kubernetes 1.36, behind the feature gates GenericWorkload and GangScheduling. A pod names
its PodGroup when it is created and never again, which is why gangs are made before their pods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from quarterdeck.api import DynamicObject, GroupVersionKind, ObjectMeta
from quarterdeck.api.k8s.pod import PodSchedulingGroup
from quarterdeck.errors import ignore_not_found
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.logic.gangowner import MappingError, owning_set
from quarterdeck.operators.grove.logic.workloadplan import (
    POD_GROUP,
    WORKLOAD,
    has_same_policy,
    plan_pod_groups,
    plan_workload,
)
from quarterdeck.operators.grove.types import PodCliqueSet, PodGang
from quarterdeck.runtime.rbac import Rule

from .contract import Backend, HookContext, PodDraft
from .error import BackendError
from .owned import found_or_created, is_owned_by
from .served import is_served

_SYNC: Final = "SyncPodGang"
_PER_CLIQUE: Final = (
    "The default scheduler starts each PodClique of PodGang {name} as a whole, but not all of them together"
)


class KubeOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Options of the default scheduler."""

    gang_scheduling: bool = False
    """Make a Workload and PodGroups of each gang."""


class KubeBackend(Backend):
    """``default-scheduler``."""

    options_type = KubeOptions

    @staticmethod
    def permissions(config: Mapping[str, Any]) -> Sequence[Rule]:
        """Workloads and PodGroups, if it makes them."""
        if not config.get("gangScheduling"):
            return ()
        verbs = ("create", "delete", "get", "list", "patch", "watch")
        return (Rule(groups=(WORKLOAD.group,), resources=("podgroups", "workloads"), verbs=verbs),)

    @staticmethod
    def made_kinds(config: Mapping[str, Any]) -> Sequence[GroupVersionKind]:
        """Workloads and PodGroups, if it makes them."""
        return (WORKLOAD, POD_GROUP) if config.get("gangScheduling") else ()

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._makes_groups: Final = msgspec.convert(self.config, KubeOptions).gang_scheduling

    @property
    def name(self) -> str:
        """The default scheduler's name."""
        return names.DEFAULT_SCHEDULER

    @property
    def requires_synced_resources(self) -> bool:
        """Pods wait for their PodGroups."""
        return self._makes_groups

    async def init(self) -> None:
        """Refuses what the cluster does not know."""
        if not self._makes_groups:
            return
        for gvk in (WORKLOAD, POD_GROUP):
            if not await is_served(self.client, gvk):
                raise BackendError(
                    f"gangScheduling needs {gvk.kind} of {gvk.api_version}, which is not served here: "
                    "enable the feature gates GenericWorkload and GangScheduling, and this version"
                )

    def prepare_pod(self, pod: PodDraft) -> None:
        """The scheduler's name, and the PodGroup."""
        pod.spec.scheduler_name = self.scheduler_name
        if not self._makes_groups:
            return
        clique = pod.metadata.labels.get(names.PODCLIQUE)
        if not clique:
            raise BackendError(f'gangScheduling requires pod label "{names.PODCLIQUE}"')
        pod.spec.scheduling_group = PodSchedulingGroup(pod_group_name=clique)

    async def sync_pod_gang(self, ctx: HookContext, pod_gang: PodGang) -> None:
        """Make Workload and PodGroups; they cannot change, so what differs is replaced."""
        if not self._makes_groups:
            return
        try:
            owner, workload = owning_set(pod_gang), plan_workload(pod_gang)
        except MappingError as error:
            raise BackendError(str(error)) from error
        groups = plan_pod_groups(pod_gang)
        if await _ensure(ctx, pod_gang, workload):
            metadata = ObjectMeta(name=owner.name, namespace=pod_gang.metadata.namespace, uid=owner.uid)
            text = _PER_CLIQUE.format(name=pod_gang.metadata.name)
            self.recorder.event(PodCliqueSet(metadata=metadata), "Normal", "GangPerPodClique", _SYNC, text)
        for group in groups:
            await _ensure(ctx, pod_gang, group)
        wanted = {group["metadata"]["name"] for group in groups}
        present = await ctx.client.list(
            POD_GROUP,
            namespace=pod_gang.metadata.namespace,
            labels={names.PODGANG: pod_gang.metadata.name},
        )
        for each in present:
            if each.metadata.name not in wanted and is_owned_by(each, pod_gang):
                with ignore_not_found():
                    await ctx.client.delete(each)


async def _ensure(ctx: HookContext, gang: PodGang, wanted: Mapping[str, Any]) -> bool:
    """Make an object what it should be; true if it was created."""
    present = await found_or_created(ctx, gang, wanted)
    if present is None:
        return True
    if has_same_policy(present.to_dict(), wanted):
        return False
    await ctx.client.delete(present)
    await ctx.client.create(DynamicObject(dict(wanted)))
    return True
