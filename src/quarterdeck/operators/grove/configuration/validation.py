"""The rules of an OperatorConfiguration that is complete."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from quarterdeck.operators.grove import names
from quarterdeck.wire.fielderror import (
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
)

from .document import LeaderElection, Level, OperatorConfiguration, SchedulerConfiguration

_LOG_LEVELS: Final = ("debug", "info", "error")
_LOG_FORMATS: Final = ("json", "text")


class Schedulers(Protocol):
    """The backends that are known."""

    def names(self) -> Sequence[str]:
        """Their names, the built-in ones first."""
        ...

    def unsupported(self, name: str) -> str:
        """What to say about a name that is not among them."""
        ...

    def restrict(self, allowed: Iterable[str] | None) -> None:
        """Know those of installed distributions only that are allowed; ``None`` allows all."""
        ...

    def check_options(self, name: str, options: Mapping[str, Any], path: str) -> list[FieldError]:
        """What is wrong with the options of one of them."""
        ...


def check(
    configuration: OperatorConfiguration, schedulers: Schedulers, *, is_named: bool
) -> list[FieldError]:
    """What is wrong; ``is_named`` tells whether ``schedulerName`` was given or filled in."""
    errors: list[FieldError] = []
    burst = configuration.runtime_client_connection.burst
    if burst < 0:
        errors.append(invalid("clientConnection.burst", burst, "must be non-negative"))
    if configuration.leader_election.enabled:
        errors += _check_election(configuration.leader_election)
    errors += _check_controllers(configuration)
    if configuration.log_level not in _LOG_LEVELS:
        errors.append(not_supported("logLevel", configuration.log_level, _LOG_LEVELS))
    if configuration.log_format not in _LOG_FORMATS:
        errors.append(not_supported("logFormat", configuration.log_format, _LOG_FORMATS))
    if configuration.topology_aware_scheduling.enabled:
        errors += _check_levels(configuration.topology_aware_scheduling.levels)
    return errors + _check_schedulers(configuration, schedulers, is_named=is_named)


def _check_election(election: LeaderElection) -> list[FieldError]:
    errors: list[FieldError] = []
    spans: dict[str, int] = {}
    for field, span in (
        ("leaseDuration", election.lease_duration),
        ("renewDeadline", election.renew_deadline),
        ("retryPeriod", election.retry_period),
    ):
        try:
            spans[field] = span.nanoseconds
        except ValueError as error:
            errors.append(invalid(f"leaderElection.{field}", str(span), str(error)))
            continue
        if spans[field] <= 0:
            errors.append(invalid(f"leaderElection.{field}", str(span), "must be greater than 0"))
    if {"leaseDuration", "renewDeadline"} <= spans.keys() and (
        spans["leaseDuration"] <= spans["renewDeadline"]
    ):
        text = "LeaseDuration must be greater than RenewDeadline"
        errors.append(invalid("leaderElection.leaseDuration", str(election.lease_duration), text))
    if not election.resource_lock:
        errors.append(required("leaderElection.resourceLock", "resourceLock is required"))
    if not election.resource_name:
        errors.append(required("leaderElection.resourceName", "resourceName is required"))
    return errors


def _check_controllers(configuration: OperatorConfiguration) -> list[FieldError]:
    controllers = configuration.controllers
    counts = {
        "podCliqueSet": controllers.pod_clique_set,
        "podClique": controllers.pod_clique,
        "podCliqueScalingGroup": controllers.pod_clique_scaling_group,
        "podGang": controllers.pod_gang,
    }
    return [
        invalid(f"controllers.{field}.concurrentSyncs", each.concurrent_syncs, "must be greater than 0")
        for field, each in counts.items()
        if each.concurrent_syncs <= 0
    ]


def _check_levels(levels: Sequence[Level]) -> list[FieldError]:
    errors: list[FieldError] = []
    domains: set[str] = set()
    keys: set[str] = set()
    for index, level in enumerate(levels):
        path = f"topologyAwareScheduling.levels[{index}]"
        if not 0 < len(level.domain) <= 63 or re.fullmatch(names.DOMAIN_PATTERN[1:-1], level.domain) is None:
            text = f"must be 1 to 63 characters that match {names.DOMAIN_PATTERN}"
            errors.append(invalid(f"{path}.domain", level.domain, text))
        elif level.domain in domains:
            errors.append(duplicate(f"{path}.domain", level.domain))
        if not 0 < len(level.key) <= 63 or re.fullmatch(names.LEVEL_KEY_PATTERN[1:-1], level.key) is None:
            text = f"must be 1 to 63 characters that match {names.LEVEL_KEY_PATTERN}"
            errors.append(invalid(f"{path}.key", level.key, text))
        elif level.key in keys:
            errors.append(duplicate(f"{path}.key", level.key))
        domains.add(level.domain)
        keys.add(level.key)
    return errors


def _check_schedulers(
    configuration: OperatorConfiguration, schedulers: Schedulers, *, is_named: bool
) -> list[FieldError]:
    name, scheduler = configuration.scheduler_name, configuration.scheduler
    if scheduler is None:
        if name not in schedulers.names():
            return [invalid("schedulerName", name, schedulers.unsupported(name))]
        return schedulers.check_options(name, configuration.scheduler_config, "schedulerConfig")
    errors = _check_profiles(scheduler, schedulers)
    if is_named and name != scheduler.default_profile_name:
        text = "must match scheduler.defaultProfileName when both are set"
        errors.append(invalid("schedulerName", name, text))
    return errors


def _check_profiles(scheduler: SchedulerConfiguration, schedulers: Schedulers) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, profile in enumerate(scheduler.profiles):
        path = f"scheduler.profiles[{index}]"
        if not profile.name:
            errors.append(required(f"{path}.name", "scheduler profile name is required"))
        elif profile.name not in schedulers.names():
            errors.append(not_supported(f"{path}.name", profile.name, schedulers.names()))
        elif profile.name in seen:
            errors.append(duplicate(f"{path}.name", profile.name))
        else:
            errors += schedulers.check_options(profile.name, profile.config, f"{path}.config")
        seen.add(profile.name)
    if not scheduler.profiles:
        errors.append(required("scheduler.profiles", "at least one scheduler profile is required"))
    elif names.DEFAULT_SCHEDULER not in seen:
        text = f'the "{names.DEFAULT_SCHEDULER}" scheduler profile is required'
        errors.append(required("scheduler.profiles", text))
    default = scheduler.default_profile_name
    if not default:
        text = "default scheduler profile name is required"
        errors.append(required("scheduler.defaultProfileName", text))
    elif default not in seen:
        text = "default profile must be one of the configured profiles"
        errors.append(invalid("scheduler.defaultProfileName", default, text))
    return errors
