"""Parts of status that several kinds have."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import UNSET, Maybe, Model, Seq, Time, omitempty
from quarterdeck.api.instant import OptionalTime
from quarterdeck.api.marker import Int32, Required


class LastError(Model):
    """What failed in the last reconcile; empty after a successful one."""

    code: Annotated[str, Required()] = ""
    description: Annotated[str, Required()] = ""
    observed_at: Annotated[OptionalTime, Required()] = UNSET


class PodsSelected(Model):
    """Ready pods that an update replaces one by one."""

    current: str = omitempty("")
    """The pod that is being replaced."""
    completed: Seq[str] = omitempty(())


class IndicesSelected(Model):
    """Ready replicas of a group that an update replaces one by one."""

    current: Annotated[int, Int32] = 0
    """Number of the replica that is being replaced."""
    completed: Seq[int] = omitempty(())


class CliqueUpdate(Model):
    """Progress of the update of a PodClique."""

    update_started_at: Annotated[OptionalTime, Required()] = UNSET
    """When the update began."""
    update_ended_at: Maybe[Time] = UNSET
    """When it ended; unset until then."""
    pod_clique_set_generation_hash: Annotated[str, Required()] = ""
    """Hash of the set's template that the update leads to."""
    pod_template_hash: Annotated[str, Required()] = ""
    """Hash of the pod template that the update leads to."""
    ready_pods_selected_to_update: Maybe[PodsSelected] = UNSET


class GroupUpdate(Model):
    """Progress of the update of a PodCliqueScalingGroup."""

    update_started_at: Annotated[OptionalTime, Required()] = UNSET
    """When the update began."""
    update_ended_at: Maybe[Time] = UNSET
    """When it ended; unset until then."""
    pod_clique_set_generation_hash: Annotated[str, Required()] = ""
    """Hash of the set's template that the update leads to."""
    updated_pod_cliques_count: Annotated[int, Int32] = 0
    """Number of cliques that are updated."""
    total_pod_cliques_count: Annotated[int, Int32] = 0
    """Number of cliques."""
    ready_replica_indices_selected_to_update: Maybe[IndicesSelected] = UNSET


class ReplicaUpdate(Model):
    """A replica of a set that is being updated."""

    replica_index: Annotated[int, Int32, Required()] = 0
    """Number of the replica."""
    update_started_at: OptionalTime = UNSET
    """When its update began."""
    update_ended_at: Maybe[Time] = UNSET
    """When it ended; unset until then."""


class SetUpdate(Model):
    """Progress of the update of a PodCliqueSet."""

    update_started_at: Annotated[OptionalTime, Required()] = UNSET
    """When the update began."""
    update_ended_at: Maybe[Time] = UNSET
    """When it ended; unset until then."""
    updated_pod_cliques_count: Annotated[int, Int32] = 0
    """Number of cliques that are updated."""
    total_pod_cliques_count: Annotated[int, Int32] = 0
    """Number of cliques."""
    updated_pod_clique_scaling_groups_count: Annotated[int, Int32] = 0
    """Number of scaling groups that are updated."""
    total_pod_clique_scaling_groups_count: Annotated[int, Int32] = 0
    """Number of scaling groups."""
    currently_updating: Seq[ReplicaUpdate] = omitempty(())
