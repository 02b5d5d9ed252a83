"""Where pods may run: node selectors, affinity, taints, tolerations, spreading.

Fields follow k8s.io/api v0.36.3; what a newer server adds survives as unknown fields.
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
    """A node selector requirement is a selector that contains values, a key, and an operator that …"""

    key: Annotated[str, Required()] = omitempty("")
    operator: Annotated[str, Required()] = omitempty("")
    values: Annotated[Seq[str], Atomic()] = omitempty(())


class NodeSelectorTerm(Model, rules=[Atomic()]):
    """A null or empty node selector term matches no objects."""

    match_expressions: Annotated[Seq[NodeSelectorRequirement], Atomic()] = omitempty(())
    match_fields: Annotated[Seq[NodeSelectorRequirement], Atomic()] = omitempty(())


class NodeSelector(Model, rules=[Atomic()]):
    """A node selector represents the union of the results of one or more label queries over a set of …"""

    node_selector_terms: Annotated[Seq[NodeSelectorTerm], Atomic(), Required()] = omitempty(())


class PreferredSchedulingTerm(Model):
    """An empty preferred scheduling term matches all objects with implicit weight 0 (i.e."""

    weight: Annotated[Maybe[int], Int32, Required()] = UNSET
    preference: Annotated[NodeSelectorTerm, Required()] = omitempty(NodeSelectorTerm())


class NodeAffinity(Model):
    """Node affinity is a group of node affinity scheduling rules."""

    required_during_scheduling_ignored_during_execution: Maybe[NodeSelector] = UNSET
    preferred_during_scheduling_ignored_during_execution: Annotated[
        Seq[PreferredSchedulingTerm], Atomic()
    ] = omitempty(())


class PodAffinityTerm(Model):
    """Defines a set of pods (namely those matching the labelSelector relative to the given …"""

    label_selector: Maybe[LabelSelector] = UNSET
    namespaces: Annotated[Seq[str], Atomic()] = omitempty(())
    topology_key: Annotated[str, Required()] = omitempty("")
    namespace_selector: Maybe[LabelSelector] = UNSET
    match_label_keys: Annotated[Seq[str], Atomic()] = omitempty(())
    mismatch_label_keys: Annotated[Seq[str], Atomic()] = omitempty(())


class WeightedPodAffinityTerm(Model):
    """The weights of all of the matched WeightedPodAffinityTerm fields are added per-node to find the …"""

    weight: Annotated[Maybe[int], Int32, Required()] = UNSET
    pod_affinity_term: Annotated[PodAffinityTerm, Required()] = omitempty(PodAffinityTerm())


class PodAffinity(Model):
    """Pod affinity is a group of inter pod affinity scheduling rules."""

    required_during_scheduling_ignored_during_execution: Annotated[Seq[PodAffinityTerm], Atomic()] = (
        omitempty(())
    )
    preferred_during_scheduling_ignored_during_execution: Annotated[
        Seq[WeightedPodAffinityTerm], Atomic()
    ] = omitempty(())


class PodAntiAffinity(Model):
    """Pod anti affinity is a group of inter pod anti affinity scheduling rules."""

    required_during_scheduling_ignored_during_execution: Annotated[Seq[PodAffinityTerm], Atomic()] = (
        omitempty(())
    )
    preferred_during_scheduling_ignored_during_execution: Annotated[
        Seq[WeightedPodAffinityTerm], Atomic()
    ] = omitempty(())


class Affinity(Model):
    """Group of affinity scheduling rules."""

    node_affinity: Maybe[NodeAffinity] = UNSET
    pod_affinity: Maybe[PodAffinity] = UNSET
    pod_anti_affinity: Maybe[PodAntiAffinity] = UNSET


class Toleration(Model):
    """The pod this Toleration is attached to tolerates any taint that matches the triple …"""

    key: str = omitempty("")
    operator: str = omitempty("")
    value: str = omitempty("")
    effect: str = omitempty("")
    toleration_seconds: Annotated[Maybe[int], Int64] = UNSET


class Taint(Model):
    """The node this Taint is attached to has the 'effect' on any pod that does not tolerate the Taint."""

    key: Annotated[str, Required()] = omitempty("")
    value: str = omitempty("")
    effect: Annotated[str, Required()] = omitempty("")
    time_added: Maybe[Time] = UNSET


class TopologySpreadConstraint(Model):
    """TopologySpreadConstraint specifies how to spread matching pods among the given topology."""

    max_skew: Annotated[Maybe[int], Int32, Required()] = UNSET
    topology_key: Annotated[str, Required()] = omitempty("")
    when_unsatisfiable: Annotated[str, Required()] = omitempty("")
    label_selector: Maybe[LabelSelector] = UNSET
    min_domains: Annotated[Maybe[int], Int32] = UNSET
    node_affinity_policy: Maybe[str] = UNSET
    node_taints_policy: Maybe[str] = UNSET
    match_label_keys: Annotated[Seq[str], Atomic()] = omitempty(())


class TopologySelectorLabelRequirement(Model):
    """A topology selector requirement is a selector that matches given label."""

    key: Annotated[str, Required()] = omitempty("")
    values: Annotated[Seq[str], Atomic(), Required()] = omitempty(())


class TopologySelectorTerm(Model, rules=[Atomic()]):
    """A topology selector term represents the result of label queries."""

    match_label_expressions: Annotated[Seq[TopologySelectorLabelRequirement], Atomic()] = omitempty(())
