"""Plugins in their fixed order, and what they make of a TrainJob and its runtime together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quarterdeck.errors import ConfigError
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.trainer.types import (
    AnyRuntime,
    TrainJob,
    TrainJobStatus,
)
from quarterdeck.wire.fielderror import FieldError

from .info import Info, merged_info, running_info, spec_of
from .plugin import (
    ClusterFacts,
    ComponentBuilder,
    CustomValidation,
    MLPolicyEnforcer,
    Plugin,
    PodEnforcer,
    PodGroupEnforcer,
    PodNetwork,
    Present,
    Rendering,
    StatusSource,
    Watch,
    WatchExtension,
)
from .systemenv import EnvOwner

_ORDER: Final = ("Secret", "ConfigMap", "PodGroup", "JobSet")
"""What a JobSet mounts or waits for is there before it starts."""


def is_running(job: TrainJob, jobset: JobSet | None) -> bool:
    """Whether the JobSet is past the gate: it is there, and neither it nor the TrainJob is suspended."""
    return jobset is not None and not spec_of(job).suspend and not jobset.spec.suspend


class Framework:
    """All plugins; raises ``ConfigError`` for sets of plugins that cannot work together."""

    def __init__(self, plugins: Sequence[Plugin]) -> None:
        self._ml_policies: Final = tuple(p for p in plugins if isinstance(p, MLPolicyEnforcer))
        self._env_owners: Final = tuple(p for p in plugins if isinstance(p, EnvOwner))
        self._pod_groups: Final = tuple(p for p in plugins if isinstance(p, PodGroupEnforcer))
        self._pods: Final = tuple(p for p in plugins if isinstance(p, PodEnforcer))
        self._networks: Final = tuple(p for p in plugins if isinstance(p, PodNetwork))
        self._builders: Final = tuple(p for p in plugins if isinstance(p, ComponentBuilder))
        self._validations: Final = tuple(p for p in plugins if isinstance(p, CustomValidation))
        self._watches: Final = tuple(p for p in plugins if isinstance(p, WatchExtension))
        sources = tuple(p for p in plugins if isinstance(p, StatusSource))
        if len(sources) > 1:
            raise ConfigError("too many TrainJobStatus plugins are registered")
        if not sources:
            raise ConfigError("no TrainJobStatus plugin is registered")
        self._status: Final = sources[0]

    def info(self, job: TrainJob, runtime: AnyRuntime) -> Info:
        """The TrainJob merged with its runtime, before any plugin."""
        owner = self.env_owner(runtime)
        info = merged_info(job, runtime, reserved=owner.reserved if owner is not None else ())
        info.env_owner = owner
        return info

    def render(self, job: TrainJob, runtime: AnyRuntime, present: Present) -> Rendering:
        """The objects of a TrainJob.

        A JobSet that runs is never rendered anew, and its other objects follow what runs.
        """
        if present.jobset is not None and is_running(job, present.jobset):
            info = running_info(job, runtime, present.jobset, present.record)
        else:
            info = self.info(job, runtime)
            for policy in self._ml_policies:
                policy.enforce_ml_policy(info, job)
            for gang in self._pod_groups:
                gang.enforce_pod_group_policy(info, job)
            for each in self._pods:
                each.enforce_pods(info, job)
        for network in self._networks:
            network.identify_pods(info)
        made = [component for builder in self._builders for component in builder.build(info, job, present)]
        components = sorted(made, key=lambda component: _ORDER.index(component.obj.kind))
        return Rendering(components, info.record)

    def env_owner(self, runtime: AnyRuntime) -> EnvOwner | None:
        """The plugin whose variables nobody else may set, if the runtime has such a policy."""
        policy = runtime.spec.ml_policy if runtime.spec else None
        return next((each for each in self._env_owners if policy and each.is_active(policy)), None)

    def validate(
        self, info: Info, old: TrainJob | None, new: TrainJob, facts: ClusterFacts
    ) -> list[FieldError]:
        """All that is wrong with a TrainJob."""
        return [error for each in self._validations for error in each.validate(info, old, new, facts)]

    def watches(self) -> list[Watch]:
        """Kinds whose changes concern TrainJobs."""
        return [watch for each in self._watches for watch in each.watches()]

    def status(self, job: TrainJob, jobset: JobSet) -> TrainJobStatus:
        """The status of a TrainJob with what its JobSet says."""
        return self._status.status(job, jobset)
