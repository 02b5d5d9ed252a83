"""Disruption budgets and evictions.

Made by ``make kubernetes``: do not edit. What a newer server adds survives as unknown fields.
"""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api.instant import Time
from quarterdeck.api.intorstring import IntOrString
from quarterdeck.api.marker import Int32, Int64, ListMap
from quarterdeck.api.meta import Condition, DeleteOptions, LabelSelector
from quarterdeck.api.model import EMPTY_MAP, UNSET, Map, Maybe, Model, Seq, omitempty
from quarterdeck.api.resource import Resource

__all__ = ["Eviction", "PodDisruptionBudget", "PodDisruptionBudgetSpec", "PodDisruptionBudgetStatus"]


class PodDisruptionBudgetSpec(Model):
    min_available: Maybe[IntOrString] = UNSET
    selector: Maybe[LabelSelector] = UNSET
    max_unavailable: Maybe[IntOrString] = UNSET
    unhealthy_pod_eviction_policy: Maybe[str] = UNSET


class PodDisruptionBudgetStatus(Model):
    observed_generation: Annotated[Maybe[int], Int64] = UNSET
    disrupted_pods: Map[str, Time] = omitempty(EMPTY_MAP)
    disruptions_allowed: Annotated[Maybe[int], Int32] = UNSET
    current_healthy: Annotated[Maybe[int], Int32] = UNSET
    desired_healthy: Annotated[Maybe[int], Int32] = UNSET
    expected_pods: Annotated[Maybe[int], Int32] = UNSET
    conditions: Annotated[Seq[Condition], ListMap("type")] = omitempty(())


class PodDisruptionBudget(
    Resource, group="policy", version="v1", plural="poddisruptionbudgets", short_names=["pdb"], status=True
):
    spec: PodDisruptionBudgetSpec = omitempty(PodDisruptionBudgetSpec())
    status: PodDisruptionBudgetStatus = omitempty(PodDisruptionBudgetStatus())


class Eviction(Resource, group="policy", version="v1", plural="pods/eviction"):
    delete_options: Maybe[DeleteOptions] = UNSET
