"""PodClique: pods of one role."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import UNSET, Column, Condition, Maybe, Model, Resource, Seq, omitempty
from quarterdeck.api.k8s import MetricSpec, PodSpec
from quarterdeck.api.marker import Atomic, Int32, Int64, ListMap, Required
from quarterdeck.api.resource import Scale
from quarterdeck.operators.grove import names

from .progress import CliqueUpdate, LastError


class AutoScaling(Model):
    """How a HorizontalPodAutoscaler scales."""

    min_replicas: Annotated[Maybe[int], Int32] = UNSET
    """The smallest number of replicas; those of the scaled object unless set."""
    max_replicas: Annotated[int, Int32, Required()] = 0
    """The most it scales to."""
    metrics: Annotated[Seq[MetricSpec], Atomic()] = omitempty(())


class PodCliqueSpec(Model):
    """The pods."""

    role_name: Annotated[str, Required()] = ""
    """What the pods do; shown to people."""
    pod_spec: Annotated[PodSpec, Required()] = PodSpec()
    """The pods, as any PodSpec."""
    replicas: Annotated[int, Int32, Required()] = 0
    """Pods wanted."""
    min_available: Annotated[Maybe[int], Int32] = UNSET
    """Pods that start together, and below which the gang is terminated; all unless set."""
    starts_after: Seq[str] = omitempty(())
    """Cliques whose pods are to be ready first; in a PodClique the full names."""
    auto_scaling_config: Maybe[AutoScaling] = UNSET
    """Lets a HorizontalPodAutoscaler scale the clique."""


class PodCliqueStatus(Model):
    """State of the clique."""

    observed_generation: Annotated[Maybe[int], Int64] = UNSET
    last_errors: Seq[LastError] = omitempty(())
    replicas: Annotated[int, Int32] = 0
    """Number of pods."""
    ready_replicas: Annotated[int, Int32] = 0
    """Pods that are ready."""
    updated_replicas: Annotated[int, Int32] = 0
    """Pods of the newest template."""
    schedule_gated_replicas: Annotated[int, Int32] = 0
    """Pods that wait for their gang to be complete."""
    scheduled_replicas: Annotated[int, Int32] = 0
    """Pods that have a node."""
    hpa_pod_selector: Maybe[str] = UNSET
    """Label selector of the pods, for autoscalers."""
    conditions: Annotated[Seq[Condition], ListMap("type")] = omitempty(())
    current_pod_clique_set_generation_hash: Maybe[str] = UNSET
    """Hash of the set's template that the clique has now."""
    current_pod_template_hash: Maybe[str] = UNSET
    """Hash of the pod template that the clique has now."""
    update_progress: Maybe[CliqueUpdate] = UNSET


_BREACHED = f'.status.conditions[?(@.type=="{names.MIN_AVAILABLE_BREACHED}")].status'


class PodClique(
    Resource,
    group=names.GROUP,
    version=names.VERSION,
    short_names=["pclq"],
    status=True,
    scale=Scale(selector_path=".status.hpaPodSelector"),
    columns=[
        Column("MinAvail", ".spec.minAvailable", "integer"),
        Column("Replicas", ".spec.replicas", "integer"),
        Column("Ready", ".status.readyReplicas", "integer"),
        Column("Scheduled", ".status.scheduledReplicas", "integer"),
        Column("Updated", ".status.updatedReplicas", "integer"),
        Column("Gated", ".status.scheduleGatedReplicas", "integer", priority=1),
        Column("MinBreached", _BREACHED, priority=1),
        Column.age(),
    ],
):
    """Pods of one role, made for a PodCliqueSet."""

    spec: Annotated[PodCliqueSpec, Required()] = PodCliqueSpec()
    status: PodCliqueStatus = omitempty(PodCliqueStatus())
