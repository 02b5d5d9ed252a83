"""Disruption budgets and evictions.

Fields follow k8s.io/api v0.36.3; what a newer server adds survives as unknown fields.
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
    """Description of a PodDisruptionBudget."""

    min_available: Maybe[IntOrString] = UNSET
    selector: Maybe[LabelSelector] = UNSET
    max_unavailable: Maybe[IntOrString] = UNSET
    unhealthy_pod_eviction_policy: Maybe[str] = UNSET


class PodDisruptionBudgetStatus(Model):
    """Information about the status of a PodDisruptionBudget."""

    observed_generation: Annotated[Maybe[int], Int64] = UNSET
    disrupted_pods: Map[str, Time] = omitempty(EMPTY_MAP)
    disruptions_allowed: Annotated[Maybe[int], Int32] = UNSET
    current_healthy: Annotated[Maybe[int], Int32] = UNSET
    desired_healthy: Annotated[Maybe[int], Int32] = UNSET
    expected_pods: Annotated[Maybe[int], Int32] = UNSET
    conditions: Annotated[Seq[Condition], ListMap("type")] = omitempty(())


class PodDisruptionBudget(Resource, group="policy", version="v1", short_names=["pdb"], status=True):
    """N object to define the max disruption that can be caused to a collection of pods."""

    spec: PodDisruptionBudgetSpec = omitempty(PodDisruptionBudgetSpec())
    status: PodDisruptionBudgetStatus = omitempty(PodDisruptionBudgetStatus())


class Eviction(Resource, group="policy", version="v1", plural="pods/eviction"):
    """Eviction evicts a pod from its node subject to certain policies and safety constraints."""

    delete_options: Maybe[DeleteOptions] = UNSET
