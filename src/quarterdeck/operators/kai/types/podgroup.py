"""PodGroup: pods that start together."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import UNSET, Duration, Maybe, Model, Resource, Seq, omitempty
from quarterdeck.api.marker import Enum, Ge, Int32, Len
from quarterdeck.operators.kai import names

from .podgroupstatus import PodGroupStatus


class TopologyConstraint(Model):
    """Where pods should be near each other."""

    topology: str = omitempty("")
    """Name of a Topology."""
    required_topology_level: str = omitempty("")
    """Node label of the widest domain that may hold all pods; if none has the capacity, they do not start."""
    preferred_topology_level: str = omitempty("")
    """Node label of the domain to try first."""


class SubGroup(Model):
    """A part of the group with a minimum of its own: a leaf that holds pods, or a parent of others."""

    name: Annotated[str, Len(min=1)]
    """Unique in the group, and lowercase."""
    min_member: Annotated[Maybe[int], Int32, Ge(0)] = UNSET
    """Pods needed to start; ignored on a parent. 1 unless set; a leaf with 0 holds nobody up."""
    parent: Maybe[str] = UNSET
    """Subgroup that this one is a part of; unset for a part of the whole group."""
    topology_constraint: Maybe[TopologyConstraint] = UNSET
    min_sub_group: Annotated[Maybe[int], Int32] = UNSET
    """Direct children needed to start; all unless set. Not together with minMember."""


class PodGroupSpec(Model):
    """What the group needs to start, and its place in the queue."""

    min_member: Annotated[Maybe[int], Int32, Ge(1)] = UNSET
    """Pods needed to start, 1 unless set; ignored as soon as there are subgroups."""
    queue: str = omitempty("")
    """Queue whose quota the pods count against."""
    priority_class_name: str = omitempty("")
    """PriorityClass that orders groups inside a queue."""
    preemptibility: Annotated[Maybe[str], Enum(names.PREEMPTIBLE, names.NON_PREEMPTIBLE)] = UNSET
    """Whether running pods may be evicted for others; unset means that priorities below 100 may."""
    parallelism: Annotated[Maybe[int], Int32] = UNSET
    """Kept for readers; not used."""
    completions: Annotated[Maybe[int], Int32] = UNSET
    """Kept for readers; not used."""
    backoff_limit: Annotated[Maybe[int], Int32] = UNSET
    """Kept for readers; not used."""
    mark_unschedulable: Maybe[bool] = UNSET
    """If false, pods that do not fit get no PodScheduled condition; events are still written."""
    scheduling_backoff: Annotated[Maybe[int], Int32] = UNSET
    """-1, as unset, tries for ever; 1 stops after one failure until the group moves to another node pool."""
    topology_constraint: TopologyConstraint = omitempty(TopologyConstraint())
    """Constraint on the whole group."""
    sub_groups: Seq[SubGroup] = omitempty(())
    min_sub_group: Annotated[Maybe[int], Int32] = UNSET
    """Direct child subgroups needed to start; all unless set. Not together with minMember."""
    preemption_delay: Maybe[Duration] = UNSET
    """How long the group waits, since it was made or last evicted, before others may be evicted for it."""
    staleness_grace_period: Maybe[Duration] = UNSET
    """How long it may run below its minimum before it is evicted, negative for ever; else the scheduler's."""


class PodGroup(Resource, group=names.GROUP, version="v2alpha2", short_names=["pg"], status=True):
    """Pods that start together or not at all."""

    spec: PodGroupSpec = omitempty(PodGroupSpec())
    status: PodGroupStatus = omitempty(PodGroupStatus())
