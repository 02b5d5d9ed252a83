"""Where pods may run: node selectors, affinity, taints, tolerations, spreading.

Made by ``make kubernetes``: do not edit. What a newer server adds survives as unknown fields.
"""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api.instant import Time
from quarterdeck.api.marker import Atomic, Int32, Int64, Required
from quarterdeck.api.meta import LabelSelector
from quarterdeck.api.model import UNSET, Maybe, Model, Seq, omitempty

__all__ = [
    "Affinity",
    "NodeAffinity",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "PodAffinity",
    "PodAffinityTerm",
    "PodAntiAffinity",
    "PreferredSchedulingTerm",
    "Taint",
    "Toleration",
    "TopologySelectorLabelRequirement",
    "TopologySelectorTerm",
    "TopologySpreadConstraint",
    "WeightedPodAffinityTerm",
]


class NodeSelectorRequirement(Model):
    key: Annotated[str, Required()] = omitempty("")
    operator: Annotated[str, Required()] = omitempty("")
    values: Annotated[Seq[str], Atomic()] = omitempty(())


class NodeSelectorTerm(Model, rules=[Atomic()]):
    match_expressions: Annotated[Seq[NodeSelectorRequirement], Atomic()] = omitempty(())
    match_fields: Annotated[Seq[NodeSelectorRequirement], Atomic()] = omitempty(())


class NodeSelector(Model, rules=[Atomic()]):
    node_selector_terms: Annotated[Seq[NodeSelectorTerm], Atomic(), Required()] = omitempty(())


class PreferredSchedulingTerm(Model):
    weight: Annotated[Maybe[int], Int32, Required()] = UNSET
    preference: Annotated[NodeSelectorTerm, Required()] = omitempty(NodeSelectorTerm())


class NodeAffinity(Model):
    required_during_scheduling_ignored_during_execution: Maybe[NodeSelector] = UNSET
    preferred_during_scheduling_ignored_during_execution: Annotated[
        Seq[PreferredSchedulingTerm], Atomic()
    ] = omitempty(())


class PodAffinityTerm(Model):
    label_selector: Maybe[LabelSelector] = UNSET
    namespaces: Annotated[Seq[str], Atomic()] = omitempty(())
    topology_key: Annotated[str, Required()] = omitempty("")
    namespace_selector: Maybe[LabelSelector] = UNSET
    match_label_keys: Annotated[Seq[str], Atomic()] = omitempty(())
    mismatch_label_keys: Annotated[Seq[str], Atomic()] = omitempty(())


class WeightedPodAffinityTerm(Model):
    weight: Annotated[Maybe[int], Int32, Required()] = UNSET
    pod_affinity_term: Annotated[PodAffinityTerm, Required()] = omitempty(PodAffinityTerm())


class PodAffinity(Model):
    required_during_scheduling_ignored_during_execution: Annotated[Seq[PodAffinityTerm], Atomic()] = (
        omitempty(())
    )
    preferred_during_scheduling_ignored_during_execution: Annotated[
        Seq[WeightedPodAffinityTerm], Atomic()
    ] = omitempty(())


class PodAntiAffinity(Model):
    required_during_scheduling_ignored_during_execution: Annotated[Seq[PodAffinityTerm], Atomic()] = (
        omitempty(())
    )
    preferred_during_scheduling_ignored_during_execution: Annotated[
        Seq[WeightedPodAffinityTerm], Atomic()
    ] = omitempty(())


class Affinity(Model):
    node_affinity: Maybe[NodeAffinity] = UNSET
    pod_affinity: Maybe[PodAffinity] = UNSET
    pod_anti_affinity: Maybe[PodAntiAffinity] = UNSET


class Toleration(Model):
    key: str = omitempty("")
    operator: str = omitempty("")
    value: str = omitempty("")
    effect: str = omitempty("")
    toleration_seconds: Annotated[Maybe[int], Int64] = UNSET


class Taint(Model):
    key: Annotated[str, Required()] = omitempty("")
    value: str = omitempty("")
    effect: Annotated[str, Required()] = omitempty("")
    time_added: Maybe[Time] = UNSET


class TopologySpreadConstraint(Model):
    max_skew: Annotated[Maybe[int], Int32, Required()] = UNSET
    topology_key: Annotated[str, Required()] = omitempty("")
    when_unsatisfiable: Annotated[str, Required()] = omitempty("")
    label_selector: Maybe[LabelSelector] = UNSET
    min_domains: Annotated[Maybe[int], Int32] = UNSET
    node_affinity_policy: Maybe[str] = UNSET
    node_taints_policy: Maybe[str] = UNSET
    match_label_keys: Annotated[Seq[str], Atomic()] = omitempty(())


class TopologySelectorLabelRequirement(Model):
    key: Annotated[str, Required()] = omitempty("")
    values: Annotated[Seq[str], Atomic(), Required()] = omitempty(())


class TopologySelectorTerm(Model, rules=[Atomic()]):
    match_label_expressions: Annotated[Seq[TopologySelectorLabelRequirement], Atomic()] = omitempty(())
