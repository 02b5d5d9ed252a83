"""KAI: pods and gangs in the words of its scheduler.

It works in one of two ways. Where KAI reads PodGangs itself (its PodGroup kind is not served, or the options
say so) pods only get its name and two annotations. Otherwise each gang becomes a PodGroup, and KAI's own
pod-grouper is told to keep out of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from quarterdeck.api import GroupVersionKind, ObjectMeta, is_controlled_by
from quarterdeck.api.owner import set_owner_reference
from quarterdeck.client import Client, MergePatch
from quarterdeck.errors import ApiError, NotFound, QuarterdeckError, ignore_not_found
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.logic.gangowner import MappingError, owning_set
from quarterdeck.operators.grove.logic.kaigroup import merged_group, pod_group_of
from quarterdeck.operators.grove.logic.kaiqueue import queue_of
from quarterdeck.operators.grove.types import ClusterTopologyBinding, PodCliqueSet, PodGang
from quarterdeck.operators.kai.types import PodGroup, Topology, TopologyLevel, TopologySpec
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.ownership import ensure, is_ours, require_ours

from .contract import Backend, HookContext, PodDraft, TopologyState
from .error import BackendError
from .served import is_served

_DEFINITION: Final = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
_GROUPS_DEFINITION: Final = f"podgroups.{PodGroup.type_info.group}"
_SYNC: Final = "SyncPodGang"


class KaiOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Options of KAI."""

    pod_groups: Literal["auto", "enabled", "disabled"] = "auto"
    """Whether gangs become PodGroups; ``auto``: if the kind is served when the operator starts."""
    require_queue: bool = True
    """Refuse sets without a queue; otherwise they are charged to ``default``."""


class KaiBackend(Backend):
    """``kai-scheduler``."""

    options_type = KaiOptions
    topology_gvk = Topology.type_info.gvk

    @staticmethod
    def permissions(config: Mapping[str, Any]) -> Sequence[Rule]:
        """PodGroups and Topologies, whatever the options: what is served is known at the start only."""
        return (
            Rule(
                groups=(PodGroup.type_info.group,),
                resources=("podgroups",),
                verbs=("create", "delete", "get", "list", "update", "watch"),
            ),
            Rule(
                groups=(Topology.type_info.group,),
                resources=("topologies",),
                verbs=("create", "delete", "get", "list", "watch"),
                is_cluster_wide=True,
            ),
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
        """PodGroups, unless the options say no."""
        return () if config.get("podGroups") == "disabled" else (PodGroup.type_info.gvk,)

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._options: Final = msgspec.convert(self.config, KaiOptions)
        self._makes_groups = self._options.pod_groups == "enabled"
        self._has_topologies = self._makes_groups
        self._has_min_sub_group = True

    @property
    def name(self) -> str:
        """KAI's name."""
        return names.KAI_SCHEDULER

    @property
    def makes_pod_groups(self) -> bool:
        """Whether gangs become PodGroups."""
        return self._makes_groups

    @property
    def requires_synced_resources(self) -> bool:
        """Pods wait for their PodGroup."""
        return self._makes_groups

    @property
    def needs_delete_hook(self) -> bool:
        """There is something to clear away."""
        return self._makes_groups

    async def init(self) -> None:
        """Find out what the installed KAI knows; refuses a cluster without PodGroups that are asked for."""
        if self._options.pod_groups != "disabled":
            self._makes_groups = await is_served(self.client, PodGroup.type_info.gvk)
        if self._options.pod_groups == "enabled" and not self._makes_groups:
            raise BackendError(
                f"podGroups: enabled needs PodGroup of {PodGroup.type_info.gvk.api_version}, which is not "
                "served here: install KAI with its definitions, or set podGroups to auto or disabled"
            )
        self._has_topologies = await is_served(self.client, Topology.type_info.gvk)
        if self._makes_groups:
            self._has_min_sub_group = await _knows_min_sub_group(self.client)

    def prepare_pod(self, pod: PodDraft) -> None:
        """The scheduler's name, and the names of gang and clique where KAI looks for them."""
        labels = pod.metadata.labels
        gang, clique = labels.get(names.PODGANG), labels.get(names.PODCLIQUE)
        if self._makes_groups:
            for label, value in ((names.PODGANG, gang), (names.PODCLIQUE, clique)):
                if not value:
                    raise BackendError(f'KAI scheduler requires pod label "{label}"')
        pod.spec.scheduler_name = self.scheduler_name
        annotations = pod.metadata.annotations
        if gang:
            annotations[names.KAI_PODGANG] = gang
        if clique:
            annotations[names.KAI_PODGROUP] = clique
        if self._makes_groups:
            annotations[names.KAI_SKIP_GROUPER] = "true"
            annotations[names.KAI_GROUP_NAME] = gang
            labels[names.KAI_SUBGROUP] = clique

    async def sync_pod_gang(self, ctx: HookContext, pod_gang: PodGang) -> None:
        """Make the PodGroup of a gang, or bring it up to date."""
        if not self._makes_groups:
            return
        if names.KAI_SKIP_GROUPER not in pod_gang.metadata.annotations:
            patch = {"metadata": {"annotations": {names.KAI_SKIP_GROUPER: "true"}}}
            pod_gang = await ctx.client.patch(pod_gang, MergePatch(patch))
        try:
            wanted = await self._wanted(ctx, pod_gang)
        except MappingError as error:
            self.recorder.event(pod_gang, "Warning", "KAIBackendMappingFailed", _SYNC, str(error))
            raise BackendError(str(error)) from error
        await ensure(
            ctx.client, wanted, lambda present: merged_group(present, wanted), manager=names.FIELD_MANAGER
        )

    async def _wanted(self, ctx: HookContext, pod_gang: PodGang) -> PodGroup:
        owner = owning_set(pod_gang)
        pcs = await ctx.client.get(PodCliqueSet, owner.name, pod_gang.metadata.namespace)
        queue = queue_of(pcs, is_required=self._options.require_queue)
        return pod_group_of(pod_gang, queue, has_min_sub_group=self._has_min_sub_group)

    async def on_pod_gang_delete(self, ctx: HookContext, pod_gang: PodGang) -> None:
        """Delete the PodGroup, if it is the gang's."""
        if not self._makes_groups:
            return
        with ignore_not_found():
            present = await ctx.client.get(PodGroup, pod_gang.metadata.name, pod_gang.metadata.namespace)
            if is_controlled_by(pod_gang, present.metadata):
                await ctx.client.delete(present)

    def validate_pod_clique_set(self, ctx: HookContext, pcs: PodCliqueSet) -> None:
        """Refuse a set whose queue is not clear."""
        if self._makes_groups:
            queue_of(pcs, is_required=self._options.require_queue)

    def topology_resource_name(self, topology: ClusterTopologyBinding) -> str:
        """The same name."""
        return topology.metadata.name

    async def sync_topology(self, ctx: HookContext, topology: ClusterTopologyBinding) -> None:
        """Make KAI's Topology; its levels cannot change, so one with others is made anew."""
        if not self._has_topologies:
            return
        wanted = _topology_of(topology)
        try:
            present = await ctx.client.get(Topology, wanted.metadata.name)
        except NotFound:
            await ctx.client.create(wanted)
            return
        require_ours(wanted, present)
        if present.spec.levels != wanted.spec.levels:
            await ctx.client.delete(present)
            await ctx.client.create(wanted)

    async def on_topology_delete(self, ctx: HookContext, topology: ClusterTopologyBinding) -> None:
        """Delete KAI's Topology, if it was made here."""
        if not self._has_topologies:
            return
        with ignore_not_found():
            present = await ctx.client.get(Topology, self.topology_resource_name(topology))
            if is_ours(_topology_of(topology).metadata.owner_references, present.metadata.owner_references):
                await ctx.client.delete(present)

    async def check_topology_drift(
        self, ctx: HookContext, topology: ClusterTopologyBinding, reference: str
    ) -> TopologyState:
        """Compare the levels of a Topology that others look after."""
        try:
            present = await ctx.client.get(Topology, reference)
        except ApiError as error:
            return TopologyState(is_in_sync=False, message=str(error))
        wanted = [level.key for level in topology.spec.levels]
        found = [level.node_label for level in present.spec.levels]
        generation = present.metadata.generation
        if found == wanted:
            return TopologyState(is_in_sync=True, observed_generation=generation)
        text = f"levels of Topology {reference} are [{' '.join(found)}], expected [{' '.join(wanted)}]"
        return TopologyState(is_in_sync=False, message=text, observed_generation=generation)


def _topology_of(topology: ClusterTopologyBinding) -> Topology:
    metadata = set_owner_reference(topology, ObjectMeta(name=topology.metadata.name))
    levels = tuple(TopologyLevel(node_label=level.key) for level in topology.spec.levels)
    return Topology(metadata=metadata, spec=TopologySpec(levels=levels))


async def _knows_min_sub_group(client: Client) -> bool:
    """Whether the installed PodGroup has ``minSubGroup``; yes where nobody may look."""
    try:
        definition = await client.get(_DEFINITION, _GROUPS_DEFINITION)
    except QuarterdeckError:
        return True
    for version in definition.to_dict()["spec"]["versions"]:
        if version["name"] == PodGroup.type_info.version:
            node = version.get("schema", {}).get("openAPIV3Schema", {})
            for key in ("spec", "subGroups"):
                node = node.get("properties", {}).get(key, {})
            properties = node.get("items", {}).get("properties")
            return properties is None or "minSubGroup" in properties
    return True
