"""What can be set about a scheduling cycle."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal

import msgspec

Placement = Literal["binpack", "spread"]


class Action(StrEnum):
    """The steps of a cycle; the value is its name in settings and in event annotations."""

    ALLOCATE = "allocate"
    CONSOLIDATION = "consolidation"
    RECLAIM = "reclaim"
    PREEMPT = "preempt"
    STALE_GANG_EVICTION = "stalegangeviction"


ALL_ACTIONS: Final = tuple(Action)
"""The order in which a cycle runs them."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a cycle; times are in seconds."""

    actions: tuple[Action, ...] = ALL_ACTIONS
    """Which actions run, in this order."""

    scheduler_name: str = "kai-scheduler"
    """Pods of other schedulers only use up resources of their nodes."""

    node_pool: str = "default"
    """Named in scheduling conditions and events."""

    staleness_grace_period: float = 60.0
    """How long a gang may run below its minimum before it is evicted; negative: for ever."""

    stuck_in_releasing_threshold: float = 120.0
    """How long past its time a running pod may terminate before nobody counts on its room any more."""

    max_consolidation_preemptees: int = 16
    """Most jobs that are moved to make room for one; 0 turns consolidation off, -1 has no cap."""

    full_hierarchy_fairness: bool = True
    """Whether shares follow the whole queue tree; otherwise leaves share one unlimited queue."""

    allow_consolidating_reclaim: bool = True
    """Whether victims of a reclaim that find another place do not count as reclaimed from."""

    use_scheduling_signatures: bool = True
    """Whether a job is skipped when one that is no harder to place has already failed in the action."""

    gpu_placement: Placement = "binpack"
    cpu_placement: Placement = "binpack"

    k_value: float = 1.0
    """How strongly past usage lowers the weight of a queue; matters only with usage in the snapshot."""

    reclaimer_saturation_multiplier: float = 1.0
    """At least 1; larger values make it harder for a queue above its share to reclaim."""

    preempt_min_runtime: float = 0.0
    """Protection from preemption where no queue says otherwise."""

    reclaim_min_runtime: float = 0.0
    """Protection from reclaim where no queue says otherwise."""

    reclaim_resolve_method: Literal["lca", "queue"] = "lca"
    """Where the search for a queue's reclaim protection begins; see ``minruntime``."""

    queue_depth: tuple[tuple[Action, int], ...] = ()
    """Most jobs of one queue that an action tries; actions left out have no bound."""

    detailed_fit_errors: bool = False
    """Whether the message of an unschedulable job lists every error instead of a summary."""
