"""SchedulingShard: a scheduler of its own for a part of the cluster."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import UNSET, Condition, Duration, Map, Maybe, Model, Resource, Seq, Time, omitempty
from quarterdeck.api.marker import Int32, ListMap, Pattern
from quarterdeck.api.model import EMPTY_MAP, field
from quarterdeck.operators.kai import names


class PlacementStrategy(Model):
    """``binpack`` or ``spread``."""

    gpu: str = omitempty("")
    """binpack fills nodes up, spread uses many; for pods that ask for GPUs."""
    cpu: str = omitempty("")
    """The same, for pods that do not ask for GPUs."""


class MinRuntime(Model):
    """Protection of running gangs where no queue says otherwise."""

    preempt_min_runtime: str = omitempty("")
    """How long a group runs before one of higher priority in its queue may evict it."""
    reclaim_min_runtime: str = omitempty("")
    """How long a group runs before another queue may evict it."""


class ActionConfig(Model):
    """Whether an action runs, and in which place: higher priorities first."""

    enabled: Maybe[bool] = UNSET
    priority: Annotated[Maybe[int], Int32] = UNSET


class PluginConfig(Model):
    """The settings of a part of the scheduler."""

    enabled: Maybe[bool] = UNSET
    priority: Annotated[Maybe[int], Int32] = UNSET
    arguments: Map[str, str] = omitempty(EMPTY_MAP)
    """Arguments of the plugin, by name."""


_PROMETHEUS_DURATION = (
    "^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$"
)


class UsageParams(Model):
    """Which past use counts."""

    half_life_period: Maybe[Duration] = UNSET
    """After this time past use counts half; unless set, the whole window counts equally."""
    window_size: Annotated[Maybe[str], Pattern(_PROMETHEUS_DURATION)] = UNSET
    """A span as Prometheus writes it, such as 1w, 7d or 12h; a week unless set."""
    window_type: str = omitempty("")
    """``sliding`` unless set; or ``tumbling``."""
    tumbling_window_start_time: Maybe[Time] = UNSET
    """When the first window began."""
    cron_string: str = omitempty("")
    """When a new window begins."""
    fetch_interval: Maybe[Duration] = UNSET
    """How often past use is read."""
    staleness_period: Maybe[Duration] = UNSET
    """How old it may be."""
    wait_timeout: Maybe[Duration] = UNSET
    """How long to wait for an answer."""
    extra_params: Map[str, str] = omitempty(EMPTY_MAP)
    """Further parameters of the source."""


class UsageDBConfig(Model):
    """Where the usage of queues is known."""

    client_type: str = omitempty("")
    """``prometheus``, or ``memory``: what the scheduler itself has observed since it started."""
    connection_string: str = omitempty("")
    """Where past use is read from."""
    connection_string_env_var: str = omitempty("")
    """Environment variable that holds the connection string."""
    usage_params: Maybe[UsageParams] = UNSET


class SchedulingShardSpec(Model):
    """Which part of the cluster, and how it is scheduled."""

    args: Map[str, str] = omitempty(EMPTY_MAP)
    """Flags of the scheduler."""
    placement_strategy: Maybe[PlacementStrategy] = UNSET
    partition_label_value: str = omitempty("")
    """Value of the node pool label; if empty, the shard has what has no such label."""
    queue_depth_per_action: Map[str, int] = omitempty(EMPTY_MAP)
    """How many jobs of a queue each action looks at, by action."""
    min_runtime: Maybe[MinRuntime] = UNSET
    k_value: Maybe[float] = UNSET
    """How much past use counts against a queue."""
    usage_db_config: Maybe[UsageDBConfig] = field(name="usageDBConfig", default=UNSET)
    plugins: Map[str, PluginConfig] = omitempty(EMPTY_MAP)
    actions: Map[str, ActionConfig] = omitempty(EMPTY_MAP)


class SchedulingShardStatus(Model):
    """Whether everything that the shard asks for is supported."""

    conditions: Annotated[Seq[Condition], ListMap("type")] = omitempty(())


class SchedulingShard(Resource, group=names.TOPOLOGY_GROUP, version="v1", scope="Cluster", status=True):
    """A scheduler for a part of the cluster."""

    spec: SchedulingShardSpec = omitempty(SchedulingShardSpec())
    status: SchedulingShardStatus = omitempty(SchedulingShardStatus())
