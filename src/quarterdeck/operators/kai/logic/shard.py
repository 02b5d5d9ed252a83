"""Shards: which part of the cluster a scheduler is for, and what its SchedulingShard sets.

A shard is written for KAI-Scheduler, which is made of plugins and flags. What has a counterpart here is
honoured; what has none is told, and the rest of the shard works all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from quarterdeck.api import UNSET, Duration, Maybe, value_or
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.settings import KaiSettings, PlacementSettings, UsageSettings
from quarterdeck.operators.kai.types import SchedulingShard, UsageDBConfig, UsageParams
from quarterdeck.scheduler.settings import ALL_ACTIONS, Action

_FLAGS: Final = {
    "default-staleness-grace-period": "default_staleness_grace_period",
    "full-hierarchy-fairness": "full_hierarchy_fairness",
    "allow-consolidating-reclaim": "allow_consolidating_reclaim",
    "max-consolidation-preemptees": "max_consolidation_preemptees",
    "use-scheduling-signatures": "use_scheduling_signatures",
    "detailed-fit-errors": "detailed_fit_errors",
    "update-pod-eviction-condition": "update_pod_eviction_condition",
    "stuck-in-releasing-threshold": "stuck_in_releasing_threshold",
}
_PRIORITIES: Final = {action: 500 - 100 * place for place, action in enumerate(ALL_ACTIONS)}
_BUILT_IN: Final = frozenset(
    {
        *("predicates", "proportion", "priority", "nodeavailability", "resourcetype", "podaffinity"),
        *("elastic", "kubeflow", "ray", "subgrouporder", "taskorder", "nominatednode", "dynamicresources"),
        *("minruntime", "topology", "snapshot", "gpupack", "gpuspread", "nodeplacement", "gpusharingorder"),
    }
)
_ARGUMENTS: Final = {
    ("proportion", "kValue"): "k_value",
    ("proportion", "relcaimerSaturationMultiplier"): "relcaimer_saturation_multiplier",
    ("minruntime", "defaultPreemptMinRuntime"): "default_preempt_min_runtime",
    ("minruntime", "defaultReclaimMinRuntime"): "default_reclaim_min_runtime",
    ("minruntime", "reclaimResolveMethod"): "reclaim_resolve_method",
}
_UNITS: Final = {"y": 365 * 86400, "w": 7 * 86400, "d": 86400, "h": 3600, "m": 60, "s": 1, "ms": 0.001}
_PART: Final = re.compile(r"([0-9]+)(ms|[ywdhms])")
_TRUE: Final = {"true": True, "True": True, "1": True, "false": False, "False": False, "0": False}


def window_seconds(text: str) -> float:
    """Seconds of a span as Prometheus writes it, such as ``1w`` or ``1h30m``; the schema knows its shape."""
    return sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(text))


class Pool(msgspec.Struct, frozen=True):
    """A part of the cluster."""

    label: str = names.NODE_POOL_LABEL
    value: str | None = None
    """Of the label; empty for what has none, nothing for the whole cluster."""

    def has(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is in it."""
        if self.value is None:
            return True
        found = labels.get(self.label)
        if self.value == names.DEFAULT_NODE_POOL:
            return found in (None, names.DEFAULT_NODE_POOL)
        return found is None if not self.value else found == self.value


class ShardPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a shard comes to."""

    pool: Pool
    settings: KaiSettings
    problems: tuple[str, ...] = ()
    """What it asks for that is not done."""


def plan_of(shard: SchedulingShard, base: KaiSettings) -> ShardPlan:
    """The scheduler of a shard; what it does not say is as in ``base``."""
    reader = _Reader(shard, base)
    return ShardPlan(
        pool=Pool(base.node_pool_label, shard.spec.partition_label_value),
        settings=reader.settings(),
        problems=tuple(reader.problems),
    )


class _Reader:
    def __init__(self, shard: SchedulingShard, base: KaiSettings) -> None:
        self._spec: Final = shard.spec
        self._base: Final = base
        self.problems: Final[list[str]] = []

    def settings(self) -> KaiSettings:
        changes: dict[str, Any] = {"node_pool": self._spec.partition_label_value}
        changes |= dict(self._minimums())
        changes |= dict(self._flags())
        if self._spec.k_value is not UNSET:
            changes["k_value"] = self._spec.k_value
        changes |= dict(self._plugins())
        placement = self._placement()
        changes["placement"] = placement
        actions = self._actions(placement)
        changes["actions"] = actions
        changes["queue_depth"] = self._depths(actions)
        if self._spec.usage_db_config is not UNSET:
            changes["usage"] = self._usage(self._spec.usage_db_config)
        return replace(self._base, **changes)

    def _placement(self) -> PlacementSettings:
        strategy = self._spec.placement_strategy
        given = {}
        if strategy is not UNSET:
            given = {"gpu": strategy.gpu, "cpu": strategy.cpu}
        plugin = self._spec.plugins.get("nodeplacement")
        if plugin is not None:
            given |= dict(plugin.arguments)
        wanted = {key: value for key, value in given.items() if value}
        try:
            return msgspec.convert(wanted, PlacementSettings)
        except msgspec.ValidationError as error:
            self.problems.append(f"placementStrategy: {error}: say binpack or spread")
            return self._base.placement

    def _minimums(self) -> Iterator[tuple[str, float]]:
        minimum = self._spec.min_runtime
        if minimum is UNSET:
            return
        for field, text in (
            ("default_preempt_min_runtime", minimum.preempt_min_runtime),
            ("default_reclaim_min_runtime", minimum.reclaim_min_runtime),
        ):
            seconds = self._seconds(f"minRuntime.{field}", text) if text else None
            if seconds is not None:
                yield field, seconds

    def _seconds(self, where: str, text: str) -> float | None:
        try:
            return Duration(text).seconds
        except ValueError:
            self.problems.append(f"{where}: {text!r} is no duration such as 1m30s")
            return None

    def _flags(self) -> Iterator[tuple[str, Any]]:
        for flag, text in self._spec.args.items():
            field = _FLAGS.get(flag)
            value = self._value(f"args.{flag}", field, text) if field is not None else None
            if field is None:
                self.problems.append(f"args.{flag}: this scheduler has no such flag")
            elif value is not None:
                yield field, value

    def _value(self, where: str, field: str, text: str) -> Any:
        present = getattr(self._base, field)
        if isinstance(present, bool):
            value: Any = _TRUE.get(text)
        elif isinstance(present, str):
            value = text if text in ("lca", "queue") else None
        else:
            try:
                value = type(present)(text)
            except ValueError:
                value = self._seconds(where, text)
                if value is None:
                    return None
        if value is None:
            self.problems.append(f"{where}: {text!r} cannot be read")
        return value

    def _plugins(self) -> Iterator[tuple[str, Any]]:
        for name, plugin in self._spec.plugins.items():
            if name not in _BUILT_IN:
                self.problems.append(f"plugins.{name}: there is no such plugin here")
                continue
            for argument, text in plugin.arguments.items():
                field = _ARGUMENTS.get((name, argument))
                if field is not None:
                    value = self._value(f"plugins.{name}.arguments.{argument}", field, text)
                    if value is not None:
                        yield field, value
                elif name != "nodeplacement":
                    self.problems.append(f"plugins.{name}.arguments.{argument}: not honoured")
            if plugin.enabled is False:
                yield from self._without(name)

    def _without(self, plugin: str) -> Iterator[tuple[str, Any]]:
        """What it means to leave a plugin out."""
        if plugin == "minruntime":
            yield "default_preempt_min_runtime", 0.0
            yield "default_reclaim_min_runtime", 0.0
        elif plugin not in ("snapshot", "gpupack", "gpuspread", "gpusharingorder"):
            self.problems.append(f"plugins.{plugin}.enabled: it cannot be left out here")

    def _actions(self, placement: PlacementSettings) -> tuple[Action, ...]:
        """Those that are on, the highest priority first; spread pods are not moved together."""
        priorities: dict[Action, int] = {}
        spreads = "spread" in (placement.gpu, placement.cpu)
        wanted = self._spec.actions
        for action in self._base.actions:
            given = wanted.get(action.value)
            is_on = not (spreads and action is Action.CONSOLIDATION)
            priority = _PRIORITIES[action]
            if given is not None:
                is_on = value_or(given.enabled, is_on)
                priority = value_or(given.priority, priority)
            if is_on:
                priorities[action] = priority
        known = {action.value for action in ALL_ACTIONS}
        strange = [name for name in wanted if name not in known]
        self.problems.extend(f"actions.{name}: there is no such action" for name in strange)
        return tuple(sorted(priorities, key=lambda action: (-priorities[action], action.value)))

    def _depths(self, actions: tuple[Action, ...]) -> dict[Action, int]:
        found = {}
        names_of = ", ".join(action.value for action in actions)
        for name, depth in self._spec.queue_depth_per_action.items():
            if name in actions and depth > 0:
                found[Action(name)] = depth
            else:
                self.problems.append(
                    f"the scheduler's actions are {names_of}. {name} isn't one of them, "
                    "making the queueDepthPerAction invalid"
                )
        return found

    def _usage(self, config: UsageDBConfig) -> UsageSettings | None:
        params = value_or(config.usage_params, UsageParams())
        given: dict[str, Any] = {"clientType": config.client_type or "prometheus"}
        given["connectionString"] = config.connection_string
        for key, duration in (
            ("halfLifePeriod", params.half_life_period),
            ("fetchInterval", params.fetch_interval),
            ("stalenessPeriod", params.staleness_period),
        ):
            seconds = self._span(f"usageDBConfig.usageParams.{key}", duration)
            if seconds is not None:
                given[key] = seconds
        if params.window_size:
            given["windowSize"] = window_seconds(params.window_size)
        if params.window_type:
            given["windowType"] = params.window_type
        if params.cron_string:
            given["cronString"] = params.cron_string
        if params.tumbling_window_start_time is not UNSET:
            given["tumblingWindowStartTime"] = params.tumbling_window_start_time.timestamp()
        given["metrics"] = {key: value for key, value in params.extra_params.items() if "Metric" in key}
        if given["clientType"] == "prometheus" and not config.connection_string:
            self.problems.append("usageDBConfig.connectionString: say where Prometheus is")
            return None
        try:
            return msgspec.convert(given, UsageSettings)
        except msgspec.ValidationError as error:
            self.problems.append(f"usageDBConfig: {error}")
            return None

    def _span(self, where: str, duration: Maybe[Duration]) -> float | None:
        if duration is UNSET:
            return None
        return self._seconds(where, str(duration))
