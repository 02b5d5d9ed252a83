"""PodCliqueScalingGroup: cliques that are replicated together."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import UNSET, Column, Condition, Maybe, Model, Resource, Seq, omitempty
from quarterdeck.api.marker import Int32, Int64, ListMap, Required
from quarterdeck.api.resource import Scale
from quarterdeck.operators.grove import names

from .progress import GroupUpdate, LastError


class PodCliqueScalingGroupSpec(Model):
    """Which cliques, and how often."""

    replicas: Annotated[int, Int32] = 1
    """How often the cliques are run together."""
    min_available: Annotated[int, Int32] = 1
    """Replicas that are part of the base gang; each one beyond is a gang of its own."""
    clique_names: Annotated[Seq[str], Required()] = ()
    """The cliques, by their names in the set."""


class PodCliqueScalingGroupStatus(Model):
    """State of the group."""

    replicas: Annotated[int, Int32] = 0
    """Number of replicas."""
    scheduled_replicas: Annotated[int, Int32] = 0
    """Replicas whose pods have nodes."""
    available_replicas: Annotated[int, Int32] = 0
    """Replicas of which all cliques have enough pods."""
    updated_replicas: Annotated[int, Int32] = 0
    """Replicas of the newest template."""
    selector: Maybe[str] = UNSET
    """Label selector of the pods, for autoscalers."""
    observed_generation: Annotated[Maybe[int], Int64] = UNSET
    last_errors: Seq[LastError] = omitempty(())
    conditions: Annotated[Seq[Condition], ListMap("type")] = omitempty(())
    current_pod_clique_set_generation_hash: Maybe[str] = UNSET
    """Hash of the set's template that the group has now."""
    update_progress: Maybe[GroupUpdate] = UNSET


_BREACHED = f'.status.conditions[?(@.type=="{names.MIN_AVAILABLE_BREACHED}")].status'


class PodCliqueScalingGroup(
    Resource,
    group=names.GROUP,
    version=names.VERSION,
    short_names=["pcsg"],
    status=True,
    scale=Scale(selector_path=".status.selector"),
    columns=[
        Column("MinAvail", ".spec.minAvailable", "integer"),
        Column("Replicas", ".spec.replicas", "integer"),
        Column("Available", ".status.availableReplicas", "integer"),
        Column("Scheduled", ".status.scheduledReplicas", "integer"),
        Column("Updated", ".status.updatedReplicas", "integer"),
        Column("PCLQs-Updated", ".status.updateProgress.updatedPodCliquesCount", "integer"),
        Column("PCLQs-Total", ".status.updateProgress.totalPodCliquesCount", "integer"),
        Column("MinBreached", _BREACHED, priority=1),
        Column.age(),
    ],
):
    """Cliques of a PodCliqueSet that are replicated together."""

    spec: PodCliqueScalingGroupSpec = omitempty(PodCliqueScalingGroupSpec())
    status: PodCliqueScalingGroupStatus = omitempty(PodCliqueScalingGroupStatus())
