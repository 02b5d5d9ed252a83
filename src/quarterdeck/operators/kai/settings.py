"""What can be set about the operator: ``operators: {kai: {...}}`` of the configuration file."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

import msgspec

from quarterdeck.api.cron import CronSchedule
from quarterdeck.errors import ConfigError
from quarterdeck.scheduler.settings import ALL_ACTIONS, Action, Placement, Settings

from . import names

_WEEK: Final = 7 * 24 * 3600.0
_Positive = Annotated[float, msgspec.Meta(gt=0)]


class ReservationSettings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """How devices are reserved for pods that share them."""

    image: str
    """Of the reservation pods; it must write the device it got into its pod's annotation."""
    command: tuple[str, ...] = ()
    """Instead of the image's own."""
    namespace: str = "kai-resource-reservation"
    service_account: str = "kai-resource-reservation"
    runtime_class: str = ""
    """``runtimeClassName`` of the reservation pods."""
    timeout: float = 40.0
    """Seconds to wait for a device."""
    uses_cdi: bool = False
    """Whether the device plugin names devices as the Container Device Interface does."""


class UsageSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Where past usage is known and how much of it counts; times are in seconds."""

    client_type: Literal["prometheus", "memory"] = "memory"
    """``memory``: what this scheduler has seen since it started."""
    connection_string: str = ""
    """URL of Prometheus."""
    half_life_period: float = 0.0
    """The weight of the past halves in this time; 0: all of the window counts alike."""
    window_size: float = _WEEK
    window_type: Literal["sliding", "tumbling", "cron"] = "sliding"
    """``tumbling`` begins anew when a window is over, ``cron`` at the times of a schedule (UTC)."""
    tumbling_window_start_time: float = 0.0
    """Seconds since 1970."""
    cron_string: str = ""
    """The schedule: five fields."""
    fetch_interval: float = 60.0
    staleness_period: float = 300.0
    """What is older than that does not count any more."""
    query_resolution: float = 60.0
    query_timeout: float = 10.0
    metrics: Mapping[str, str] = {}
    """Expressions instead of the usual ones, by KAI's names for them."""

    def __post_init__(self) -> None:
        if self.window_type == "cron":
            try:
                self._last_begin(0.0)
            except ConfigError as error:
                raise ValueError(f"cronString: {error}") from error

    def window_start(self, now: float) -> float:
        """Since when the past counts."""
        if self.window_type == "sliding":
            return now - self.window_size
        if self.window_type == "cron":
            return self._last_begin(now)
        passed = now - self.tumbling_window_start_time
        return now if passed < 0 else now - passed % self.window_size

    def _last_begin(self, now: float) -> float:
        moment = datetime.fromtimestamp(now, UTC)
        return CronSchedule.parse(self.cron_string).last_before(moment).timestamp()

    def weight(self, age: float) -> float:
        """How much a moment in the past counts."""
        return float(0.5 ** (age / self.half_life_period)) if self.half_life_period > 0 else 1.0


class PlacementSettings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """Whether pods fill nodes one after the other or spread over them."""

    gpu: Placement = "binpack"
    cpu: Placement = "binpack"


class KaiSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Settings, with the values that are used unless set; times are in seconds."""

    scheduler_name: str = names.SCHEDULER_NAME
    """Pods with this ``schedulerName`` are grouped and scheduled here."""
    schedule_period: _Positive = 1.0
    """Time between the beginnings of two scheduling cycles."""
    actions: tuple[Action, ...] = ALL_ACTIONS
    """Which actions a cycle runs, in this order."""
    default_staleness_grace_period: float = 60.0
    """How long a gang may run below its minimum before it is evicted; negative: for ever."""
    stuck_in_releasing_threshold: Annotated[float, msgspec.Meta(ge=0)] = 120.0
    """How long past its time a running pod may terminate before nobody counts on its room any more."""
    max_consolidation_preemptees: Annotated[int, msgspec.Meta(ge=-1)] = 16
    """Most jobs that are moved to make room for one; 0 turns consolidation off, -1 has no cap."""
    full_hierarchy_fairness: bool = True
    """Whether shares follow the whole queue tree; otherwise leaves share one unlimited queue."""
    allow_consolidating_reclaim: bool = True
    """Whether victims of a reclaim that find another place do not count as reclaimed from."""
    use_scheduling_signatures: bool = True
    """Whether a job is skipped when one that is no harder to place has already failed in the action."""
    update_pod_eviction_condition: bool = False
    """Whether a pod is told by a condition DisruptionTarget before it is evicted."""
    detailed_fit_errors: bool = False
    """Whether the message of an unschedulable job lists every error instead of a summary."""
    placement: PlacementSettings = PlacementSettings()
    k_value: float = 1.0
    """How strongly past usage lowers the weight of a queue."""
    relcaimer_saturation_multiplier: Annotated[float, msgspec.Meta(ge=1)] = 1.0
    """Above 1 a queue beyond its share finds it harder to reclaim. Spelled as upstream spells it."""
    default_preempt_min_runtime: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """Protection from preemption where no queue says otherwise."""
    default_reclaim_min_runtime: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """Protection from reclaim where no queue says otherwise."""
    reclaim_resolve_method: Literal["lca", "queue"] = "lca"
    """Where the search for a queue's protection begins: below the common ancestor, or at the queue itself."""
    queue_depth: Mapping[Action, Annotated[int, msgspec.Meta(ge=1)]] = {}
    """Most jobs of one queue that an action tries; actions left out have no bound."""
    node_pool: str = ""
    """Schedule only nodes, pods and groups whose label has this value; empty: the whole cluster."""
    node_pool_label: str = names.NODE_POOL_LABEL
    """The label of nodes, pods, PodGroups and BindRequests that names their node pool."""
    bind_backoff_limit: Annotated[int, msgspec.Meta(ge=1)] = 3
    """Attempts to bind a pod before another node is chosen."""
    volume_bind_timeout: _Positive = 600.0
    """How long a pod waits for the volumes of its claims before another node is chosen."""
    gpu_reservation: ReservationSettings | None = None
    """How devices are reserved that pods share; none where the nodes are simulated."""
    usage: UsageSettings | None = None
    """Where the past usage of queues is known that counts against their shares; none: it does not count."""
    install_defaults: bool = True
    """Create the default queues and priority classes where they are missing."""
    default_priorities_config_map: str = ""
    """``namespace/name`` of a ConfigMap whose key ``types`` has priority and preemptibility by kind."""
    pod_grouper_workers: Annotated[int, msgspec.Meta(ge=1)] = 10
    binder_workers: Annotated[int, msgspec.Meta(ge=1)] = 10
    status_workers: Annotated[int, msgspec.Meta(ge=1)] = 4
    commit_workers: Annotated[int, msgspec.Meta(ge=1)] = 32
    """Writes of a cycle that are under way at once."""

    @property
    def pool_name(self) -> str:
        """The node pool as conditions and events name it."""
        return self.node_pool or names.DEFAULT_NODE_POOL

    def for_cycle(self) -> Settings:
        """The part that the scheduler's core looks at."""
        return Settings(
            actions=self.actions,
            scheduler_name=self.scheduler_name,
            node_pool=self.pool_name,
            staleness_grace_period=self.default_staleness_grace_period,
            stuck_in_releasing_threshold=self.stuck_in_releasing_threshold,
            max_consolidation_preemptees=self.max_consolidation_preemptees,
            full_hierarchy_fairness=self.full_hierarchy_fairness,
            allow_consolidating_reclaim=self.allow_consolidating_reclaim,
            use_scheduling_signatures=self.use_scheduling_signatures,
            gpu_placement=self.placement.gpu,
            cpu_placement=self.placement.cpu,
            k_value=self.k_value,
            reclaimer_saturation_multiplier=self.relcaimer_saturation_multiplier,
            preempt_min_runtime=self.default_preempt_min_runtime,
            reclaim_min_runtime=self.default_reclaim_min_runtime,
            reclaim_resolve_method=self.reclaim_resolve_method,
            queue_depth=tuple(self.queue_depth.items()),
            detailed_fit_errors=self.detailed_fit_errors,
        )
