"""What a PodCliqueSet says where its author said nothing."""

from __future__ import annotations

from typing import Final

from quarterdeck.api import UNSET, Duration, UnsetType
from quarterdeck.operators.grove.types import (
    AutoScaling,
    CliqueTemplate,
    HeadlessServiceConfig,
    PodCliqueSet,
    ScalingGroupConfig,
)

TERMINATION_DELAY: Final = Duration.of(seconds=4 * 3600)
_GRACE_PERIOD: Final = 30
_NAMESPACE: Final = "default"


def with_defaults(pcs: PodCliqueSet) -> PodCliqueSet:
    """The set with everything filled in that the schema does not fill in; itself if nothing is missing."""
    template = pcs.spec.template
    filled = template.evolve(
        cliques=tuple(map(_clique, template.cliques)),
        pod_clique_scaling_groups=tuple(map(_group, template.pod_clique_scaling_groups)),
        termination_delay=_delay(template.termination_delay),
        headless_service_config=_service(template.headless_service_config),
    )
    metadata = pcs.metadata if pcs.metadata.namespace else pcs.metadata.evolve(namespace=_NAMESPACE)
    after = pcs.evolve(metadata=metadata, spec=pcs.spec.evolve(template=filled))
    return pcs if after == pcs else after


def _delay(given: Duration | UnsetType) -> Duration:
    """The delay in Go's form (``1m`` is ``1m0s``); what is no duration is left to the validation."""
    if isinstance(given, UnsetType):
        return TERMINATION_DELAY
    try:
        return Duration(str(Duration.of(nanoseconds=given.nanoseconds)))
    except ValueError:
        return given


def _service(config: HeadlessServiceConfig | UnsetType) -> HeadlessServiceConfig:
    return HeadlessServiceConfig(publish_not_ready_addresses=True) if config is UNSET else config


def _clique(clique: CliqueTemplate) -> CliqueTemplate:
    spec = clique.spec
    pods = spec.pod_spec
    if not pods.restart_policy:
        pods = pods.evolve(restart_policy="Always")
    if pods.termination_grace_period_seconds is UNSET:
        pods = pods.evolve(termination_grace_period_seconds=_GRACE_PERIOD)
    replicas = spec.replicas or 1
    return clique.evolve(
        spec=spec.evolve(
            pod_spec=pods,
            replicas=replicas,
            min_available=replicas if spec.min_available is UNSET else spec.min_available,
            auto_scaling_config=_scaling(spec.auto_scaling_config, replicas),
        )
    )


def _group(group: ScalingGroupConfig) -> ScalingGroupConfig:
    return group.evolve(scale_config=_scaling(group.scale_config, group.replicas))


def _scaling(config: AutoScaling | UnsetType, replicas: int) -> AutoScaling | UnsetType:
    if isinstance(config, UnsetType) or config.min_replicas is not UNSET:
        return config
    return config.evolve(min_replicas=replicas)
