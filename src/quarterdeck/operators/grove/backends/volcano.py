"""Volcano: each gang is one of its PodGroups, each clique a subgroup of it.

Needs Volcano 1.14 or newer, whose PodGroups know subgroups. It has no topology constraints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from quarterdeck.api import GroupVersionKind
from quarterdeck.errors import NotFound, QuarterdeckError
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.logic.gangowner import MappingError, owning_set
from quarterdeck.operators.grove.logic.topology import constrained_place
from quarterdeck.operators.grove.logic.volcanogroup import POD_GROUP, QUEUE, group_changes, plan_pod_group
from quarterdeck.operators.grove.logic.volcanoqueue import volcano_queue
from quarterdeck.operators.grove.types import PodCliqueSet, PodGang
from quarterdeck.runtime.rbac import Rule

from .contract import Backend, HookContext, PodDraft
from .error import BackendError
from .owned import changed, found_or_created

_DEFINITION: Final = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
_GROUPS_DEFINITION: Final = f"podgroups.{POD_GROUP.group}"
_NEEDED: Final = "volcano scheduler backend requires Volcano 1.14 or newer with PodGroup.spec.subGroupPolicy"


class VolcanoBackend(Backend):
    """``volcano``."""

    @staticmethod
    def permissions(config: Mapping[str, Any]) -> Sequence[Rule]:
        """PodGroups, and a look at queues and at what PodGroups know."""
        return (
            Rule(
                groups=(POD_GROUP.group,),
                resources=("podgroups",),
                verbs=("create", "get", "list", "patch", "watch"),
            ),
            Rule(groups=(QUEUE.group,), resources=("queues",), verbs=("get",), is_cluster_wide=True),
            Rule(
                groups=(_DEFINITION.group,),
                resources=("customresourcedefinitions",),
                verbs=("get",),
                resource_names=(_GROUPS_DEFINITION,),
                is_cluster_wide=True,
            ),
        )

    @staticmethod
    def made_kinds(config: Mapping[str, Any]) -> Sequence[GroupVersionKind]:
        """PodGroups."""
        return (POD_GROUP,)

    @property
    def name(self) -> str:
        """Volcano's name."""
        return names.VOLCANO

    @property
    def requires_synced_resources(self) -> bool:
        """Pods wait for their PodGroup."""
        return True

    @property
    def needs_delete_hook(self) -> bool:
        """The PodGroup goes with the gang that owns it."""
        return False

    async def init(self) -> None:
        """Refuses a Volcano whose PodGroups have no subgroups."""
        try:
            definition = await self.client.get(_DEFINITION, _GROUPS_DEFINITION)
        except QuarterdeckError as error:
            raise BackendError(f'{_NEEDED}: failed to get CRD "{_GROUPS_DEFINITION}": {error}') from error
        if not _knows_subgroups(definition.to_dict()):
            raise BackendError(f"{_NEEDED} on {POD_GROUP.api_version} {POD_GROUP.kind}")

    def prepare_pod(self, pod: PodDraft) -> None:
        """The scheduler's name, and the PodGroup where Volcano looks for it."""
        gang = pod.metadata.labels.get(names.PODGANG)
        if not gang:
            raise BackendError(f'volcano scheduler requires pod label "{names.PODGANG}"')
        pod.spec.scheduler_name = self.scheduler_name
        pod.metadata.annotations[names.VOLCANO_GROUP] = gang
        pod.metadata.annotations[names.KUBE_GROUP] = gang

    async def sync_pod_gang(self, ctx: HookContext, pod_gang: PodGang) -> None:
        """Make the PodGroup of a gang, or bring it up to date."""
        try:
            owner = owning_set(pod_gang)
            pcs = await ctx.client.get(PodCliqueSet, owner.name, pod_gang.metadata.namespace)
            wanted = plan_pod_group(pod_gang, volcano_queue(pcs))
        except MappingError as error:
            raise BackendError(str(error)) from error
        present = await found_or_created(ctx, pod_gang, wanted)
        if present is not None and (patch := group_changes(present.to_dict(), wanted, pod_gang)):
            await changed(ctx, present, patch)

    async def validate_pod_clique_set(self, ctx: HookContext, pcs: PodCliqueSet) -> None:
        """Refuse topology constraints, and queues that are not clear, not there or not open."""
        if place := constrained_place(pcs.spec.template):
            raise BackendError(f"volcano scheduler backend does not support topologyConstraint on {place}")
        queue = volcano_queue(pcs)
        try:
            found = await ctx.client.get(QUEUE, queue)
        except NotFound as error:
            raise BackendError(f'volcano queue "{queue}" does not exist') from error
        except QuarterdeckError as error:
            raise BackendError(f'failed to get volcano queue "{queue}": {error}') from error
        if (found.to_dict().get("status") or {}).get("state") != "Open":
            raise BackendError(f'volcano queue "{queue}" is not Open')


def _knows_subgroups(definition: Mapping[str, Any]) -> bool:
    for version in definition["spec"]["versions"]:
        if version["name"] == POD_GROUP.version and version.get("served"):
            schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
            spec = (schema.get("properties") or {}).get("spec") or {}
            return "subGroupPolicy" in (spec.get("properties") or {})
    return False
