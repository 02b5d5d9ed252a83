"""Parts of status that several kinds have."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import UNSET, Int32, Maybe, Model, OptionalTime, Required, Seq, Time, omitempty


class LastError(Model):
    """What went wrong in the last pass; gone after a clean one."""

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
    """How far the update of a PodClique is."""

    update_started_at: Annotated[OptionalTime, Required()] = UNSET
    """When the update began."""
    update_ended_at: Maybe[Time] = UNSET
    """When it ended; unset while it goes on."""
    pod_clique_set_generation_hash: Annotated[str, Required()] = ""
    """Template of the set that is updated to."""
    pod_template_hash: Annotated[str, Required()] = ""
    """Template of the pods that is updated to."""
    ready_pods_selected_to_update: Maybe[PodsSelected] = UNSET


class GroupUpdate(Model):
    """How far the update of a PodCliqueScalingGroup is."""

    update_started_at: Annotated[OptionalTime, Required()] = UNSET
    """When the update began."""
    update_ended_at: Maybe[Time] = UNSET
    """When it ended; unset while it goes on."""
    pod_clique_set_generation_hash: Annotated[str, Required()] = ""
    """Template of the set that is updated to."""
    updated_pod_cliques_count: Annotated[int, Int32] = 0
    """Cliques that are updated."""
    total_pod_cliques_count: Annotated[int, Int32] = 0
    """Cliques there are."""
    ready_replica_indices_selected_to_update: Maybe[IndicesSelected] = UNSET


class ReplicaUpdate(Model):
    """A replica of a set that is being updated."""

    replica_index: Annotated[int, Int32, Required()] = 0
    """Number of the replica."""
    update_started_at: OptionalTime = UNSET
    """When its update began."""
    update_ended_at: Maybe[Time] = UNSET
    """When it ended; unset while it goes on."""


class SetUpdate(Model):
    """How far the update of a PodCliqueSet is."""

    update_started_at: Annotated[OptionalTime, Required()] = UNSET
    """When the update began."""
    update_ended_at: Maybe[Time] = UNSET
    """When it ended; unset while it goes on."""
    updated_pod_cliques_count: Annotated[int, Int32] = 0
    """Cliques that are updated."""
    total_pod_cliques_count: Annotated[int, Int32] = 0
    """Cliques there are."""
    updated_pod_clique_scaling_groups_count: Annotated[int, Int32] = 0
    """Scaling groups that are updated."""
    total_pod_clique_scaling_groups_count: Annotated[int, Int32] = 0
    """Scaling groups there are."""
    currently_updating: Seq[ReplicaUpdate] = omitempty(())
