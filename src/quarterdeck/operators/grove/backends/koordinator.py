"""Koordinator: each clique of a gang is one of its PodGroups, and all of them are scheduled together.

Topology constraints of Koordinator are not those of Grove; sets that have some are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quarterdeck.api import GroupVersionKind
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.logic.koordinatorgroup import POD_GROUP, group_changes, plan_pod_groups
from quarterdeck.operators.grove.logic.topology import constrained_place
from quarterdeck.operators.grove.types import PodCliqueSet, PodGang
from quarterdeck.runtime.rbac import Rule

from .contract import Backend, HookContext, PodDraft
from .error import BackendError
from .owned import changed, found_or_created
from .served import is_served


class KoordinatorBackend(Backend):
    """``koord-scheduler``."""

    @staticmethod
    def permissions(config: Mapping[str, Any]) -> Sequence[Rule]:
        """PodGroups."""
        verbs = ("create", "get", "list", "patch", "watch")
        return (Rule(groups=(POD_GROUP.group,), resources=("podgroups",), verbs=verbs),)

    @staticmethod
    def made_kinds(config: Mapping[str, Any]) -> Sequence[GroupVersionKind]:
        """PodGroups."""
        return (POD_GROUP,)

    @property
    def name(self) -> str:
        """The name of Koordinator's scheduler."""
        return names.KOORDINATOR

    @property
    def requires_synced_resources(self) -> bool:
        """Pods wait for their PodGroups."""
        return True

    @property
    def needs_delete_hook(self) -> bool:
        """PodGroups go with the gang that owns them."""
        return False

    async def init(self) -> None:
        """Refuses a cluster without PodGroups."""
        if not await is_served(self.client, POD_GROUP):
            raise BackendError(
                f"koord-scheduler needs PodGroup of {POD_GROUP.api_version}, which is not served here: "
                "install Koordinator with its definitions"
            )

    def prepare_pod(self, pod: PodDraft) -> None:
        """The scheduler's name, and the PodGroup where Koordinator looks for it."""
        clique = pod.metadata.labels.get(names.PODCLIQUE)
        if not clique:
            raise BackendError(f'koord-scheduler requires pod label "{names.PODCLIQUE}"')
        pod.spec.scheduler_name = self.scheduler_name
        pod.metadata.labels[names.KOORDINATOR_GROUP] = clique

    async def sync_pod_gang(self, ctx: HookContext, pod_gang: PodGang) -> None:
        """Make the PodGroups of a gang, or bring them up to date."""
        for wanted in plan_pod_groups(pod_gang):
            present = await found_or_created(ctx, pod_gang, wanted)
            if present is not None and (patch := group_changes(present.to_dict(), wanted)):
                await changed(ctx, present, patch)

    def validate_pod_clique_set(self, ctx: HookContext, pcs: PodCliqueSet) -> None:
        """Refuse topology constraints."""
        if place := constrained_place(pcs.spec.template):
            raise BackendError(f"koord-scheduler does not support topologyConstraint on {place}")
