"""PodCliqueSet: what users write."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import UNSET, Column, Condition, Duration, Map, Maybe, Model, Resource, Seq, omitempty
from quarterdeck.api.marker import Default, Enum, Int32, Int64, ListMap, Required
from quarterdeck.api.model import EMPTY_MAP
from quarterdeck.api.resource import Scale
from quarterdeck.operators.grove import names

from .constraint import TopologyConstraint
from .podclique import AutoScaling, PodCliqueSpec
from .progress import LastError, SetUpdate
from .sharing import ClaimTemplate, CliqueSharing, GroupSharing, SetSharing


class UpdateStrategy(Model):
    """How changes of the template reach pods that run."""

    type: Annotated[str, Enum(names.ROLLING_RECREATE, names.ON_DELETE), Default(names.ROLLING_RECREATE)] = (
        omitempty("")
    )
    """RollingRecreate replaces pods one by one; OnDelete waits for you to delete them."""


class HeadlessServiceConfig(Model):
    """The Service of each replica."""

    publish_not_ready_addresses: Annotated[Maybe[bool], Default(True)] = UNSET
    """Whether pods are found by name before they are ready."""


class CliqueTemplate(Model):
    """A clique: pods of one role."""

    name: Annotated[str, Required()] = ""
    """Name of the clique; part of the names of its pods."""
    labels: Map[str, str] = omitempty(EMPTY_MAP)
    annotations: Map[str, str] = omitempty(EMPTY_MAP)
    topology_constraint: Maybe[TopologyConstraint] = UNSET
    resource_sharing: Seq[CliqueSharing] = omitempty(())
    spec: Annotated[PodCliqueSpec, Required()] = PodCliqueSpec()


class ScalingGroupConfig(Model):
    """Cliques that are replicated together."""

    name: Annotated[str, Required()] = ""
    """Name of the group; part of the names of its pods."""
    clique_names: Annotated[Seq[str], Required()] = ()
    """The cliques that are replicated together."""
    annotations: Map[str, str] = omitempty(EMPTY_MAP)
    replicas: Annotated[int, Int32] = 1
    """Number of replicas when the group is created; after that its own object says how many."""
    min_available: Annotated[int, Int32] = 1
    """Replicas that start with the base gang, and below which it is terminated."""
    scale_config: Maybe[AutoScaling] = UNSET
    resource_sharing: Seq[GroupSharing] = omitempty(())
    topology_constraint: Maybe[TopologyConstraint] = UNSET


class PodCliqueSetTemplate(Model):
    """What every replica consists of."""

    cliques: Annotated[Seq[CliqueTemplate], ListMap("name"), Required()] = ()
    clique_startup_type: Annotated[str, Enum(*names.STARTUP_TYPES), Default(names.ANY_ORDER)] = omitempty("")
    """Whether cliques start in any order, in the order of the list, or as startsAfter says."""
    priority_class_name: str = omitempty("")
    """PriorityClass of the gangs."""
    headless_service_config: Maybe[HeadlessServiceConfig] = UNSET
    topology_constraint: Maybe[TopologyConstraint] = UNSET
    termination_delay: Maybe[Duration] = UNSET
    """Time for which a gang may lack pods before it is terminated as a whole; 4 hours unless set."""
    resource_claim_templates: Seq[ClaimTemplate] = omitempty(())
    resource_sharing: Seq[SetSharing] = omitempty(())
    pod_clique_scaling_groups: Seq[ScalingGroupConfig] = omitempty(())


class PodCliqueSetSpec(Model):
    """Replicas of a template."""

    replicas: Annotated[int, Int32] = 0
    """How often the whole template is run."""
    update_strategy: Maybe[UpdateStrategy] = UNSET
    template: Annotated[PodCliqueSetTemplate, Required()] = PodCliqueSetTemplate()


class PodGangStatusSummary(Model):
    """The state of one gang."""

    name: Annotated[str, Required()] = ""
    """Name of the gang."""
    phase: Annotated[str, Enum("Pending", "Starting", "Running", "Failed", "Succeeded")] = omitempty("")
    conditions: Annotated[Seq[Condition], ListMap("type")] = omitempty(())


class PodCliqueSetStatus(Model):
    """State of the set."""

    observed_generation: Annotated[Maybe[int], Int64] = UNSET
    conditions: Annotated[Seq[Condition], ListMap("type")] = omitempty(())
    last_errors: Seq[LastError] = omitempty(())
    replicas: Annotated[int, Int32] = 0
    """Number of replicas."""
    updated_replicas: Annotated[int, Int32] = 0
    """Replicas of the newest template."""
    available_replicas: Annotated[int, Int32] = 0
    """Replicas of which all cliques have enough pods."""
    hpa_pod_selector: Maybe[str] = UNSET
    """Label selector of the pods, for autoscalers."""
    pod_gang_statuses: Seq[PodGangStatusSummary] = omitempty(())
    current_generation_hash: Maybe[str] = UNSET
    """Hash of the template that the set has now."""
    update_progress: Maybe[SetUpdate] = UNSET


class PodCliqueSet(
    Resource,
    group=names.GROUP,
    version=names.VERSION,
    short_names=["pcs"],
    status=True,
    scale=Scale(selector_path=".status.hpaPodSelector"),
    columns=[
        Column("Replicas", ".spec.replicas", "integer"),
        Column("Available", ".status.availableReplicas", "integer"),
        Column("Updated", ".status.updatedReplicas", "integer"),
        Column("PCLQs-Updated", ".status.updateProgress.updatedPodCliquesCount", "integer"),
        Column("PCLQs-Total", ".status.updateProgress.totalPodCliquesCount", "integer"),
        Column("PCSGs-Updated", ".status.updateProgress.updatedPodCliqueScalingGroupsCount", "integer"),
        Column("PCSGs-Total", ".status.updateProgress.totalPodCliqueScalingGroupsCount", "integer"),
        Column.age(),
    ],
):
    """Replicas of cliques and scaling groups that start as gangs."""

    spec: Annotated[PodCliqueSetSpec, Required()] = PodCliqueSetSpec()
    status: PodCliqueSetStatus = omitempty(PodCliqueSetStatus())
