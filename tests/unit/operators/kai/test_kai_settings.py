"""Settings of the operator: upstream's names and defaults, and what cannot be set."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.errors import ConfigError
from quarterdeck.operators.kai.settings import KaiSettings
from quarterdeck.runtime.operator import OperatorEnvironment
from quarterdeck.scheduler.settings import Action, Settings


def read(**settings: Any) -> KaiSettings:
    return OperatorEnvironment(name="kai", settings=settings).decode(KaiSettings)


def test_defaults_are_those_of_the_core() -> None:
    assert read().for_cycle() == Settings()
    assert read().schedule_period == 1.0
    assert read().pool_name == "default"


def test_everything_reaches_the_core() -> None:
    settings = read(
        schedulerName="mine",
        actions=["allocate", "preempt"],
        defaultStalenessGracePeriod=-1,
        maxConsolidationPreemptees=0,
        fullHierarchyFairness=False,
        allowConsolidatingReclaim=False,
        useSchedulingSignatures=False,
        detailedFitErrors=True,
        placement={"gpu": "spread", "cpu": "spread"},
        kValue=0.5,
        relcaimerSaturationMultiplier=2,
        defaultPreemptMinRuntime=5,
        defaultReclaimMinRuntime=6,
        reclaimResolveMethod="queue",
        queueDepth={"allocate": 10},
        nodePool="p1",
    )
    assert settings.for_cycle() == Settings(
        actions=(Action.ALLOCATE, Action.PREEMPT),
        scheduler_name="mine",
        node_pool="p1",
        staleness_grace_period=-1,
        max_consolidation_preemptees=0,
        full_hierarchy_fairness=False,
        allow_consolidating_reclaim=False,
        use_scheduling_signatures=False,
        gpu_placement="spread",
        cpu_placement="spread",
        k_value=0.5,
        reclaimer_saturation_multiplier=2,
        preempt_min_runtime=5,
        reclaim_min_runtime=6,
        reclaim_resolve_method="queue",
        queue_depth=((Action.ALLOCATE, 10),),
        detailed_fit_errors=True,
    )


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ({"schedulePeriod": 0}, "schedulePeriod"),
        ({"relcaimerSaturationMultiplier": 0.5}, "relcaimerSaturationMultiplier"),
        ({"maxConsolidationPreemptees": -2}, "maxConsolidationPreemptees"),
        ({"actions": ["allocate", "dance"]}, "actions"),
        ({"placement": {"gpu": "random"}}, "placement.gpu"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_what_makes_no_sense_is_named(settings: dict[str, Any], where: str) -> None:
    with pytest.raises(ConfigError) as error:
        read(**settings)
    assert str(error.value).startswith("operators.kai: ")
    assert where in str(error.value)
