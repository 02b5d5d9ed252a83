"""Whether a node should run the pods of a DaemonSet, and how a pod is bound to a node: pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from quarterdeck.api.frozen import FrozenMap
from quarterdeck.api.k8s import (
    Affinity,
    DaemonSet,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSpec,
    Toleration,
)
from quarterdeck.api.nodeselector import NAME_FIELD, selects_node
from quarterdeck.api.toleration import tolerates
from quarterdeck.cluster.nodetaint import NodeTaint
from quarterdeck.cluster.podset.podview import PodView
from quarterdeck.runtime.cache import Entry

_NO_EXECUTE: Final = frozenset({"NoExecute"})
_REPELLING: Final = frozenset({"NoExecute", "NoSchedule"})


class _NodeSpec(msgspec.Struct, gc=False, frozen=True):
    taints: tuple[NodeTaint, ...] = ()


class _Node(msgspec.Struct, gc=False, frozen=True):
    spec: _NodeSpec = _NodeSpec()


_decode_node: Final = msgspec.json.Decoder(_Node).decode


class NodeView:
    """What DaemonSets need to know of one state of a node."""

    def __init__(self, entry: Entry) -> None:
        self.entry: Final = entry
        self.taints: Final = _decode_node(entry.raw).spec.taints

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def labels(self) -> FrozenMap[str, str]:
        return self.entry.labels


class _Requirement(msgspec.Struct, gc=False, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class _Term(msgspec.Struct, rename="camel", gc=False, frozen=True):
    match_fields: tuple[_Requirement, ...] = ()


class _Selector(msgspec.Struct, rename="camel", gc=False, frozen=True):
    node_selector_terms: tuple[_Term, ...] = ()


class _NodeAffinity(msgspec.Struct, rename="camel", gc=False, frozen=True):
    required_during_scheduling_ignored_during_execution: _Selector = _Selector()


class _Affinity(msgspec.Struct, rename="camel", gc=False, frozen=True):
    node_affinity: _NodeAffinity = _NodeAffinity()


class _PodSpec(msgspec.Struct, gc=False, frozen=True):
    affinity: _Affinity = _Affinity()


class _Pod(msgspec.Struct, gc=False, frozen=True):
    spec: _PodSpec = _PodSpec()


_decode_pod: Final = msgspec.json.Decoder(_Pod).decode


class DaemonPod(PodView):
    """A pod of a DaemonSet: it belongs to a node even before it is there."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        self.target: Final = self.node_name or _named_node(entry)
        """The node it is meant for; empty if it does not say."""


def _named_node(entry: Entry) -> str:
    affinity = _decode_pod(entry.raw).spec.affinity.node_affinity
    for term in affinity.required_during_scheduling_ignored_during_execution.node_selector_terms:
        for each in term.match_fields:
            if each.key == NAME_FIELD and each.operator == "In":
                return each.values[0] if len(each.values) == 1 else ""
    return ""


class Fit(NamedTuple):
    """What a node is to a DaemonSet."""

    starts: bool
    """Whether a pod should be there."""
    continues: bool
    """Whether a pod that is there may stay."""


def fit(daemon_set: DaemonSet, node: NodeView) -> Fit:
    """Whether a node should run a pod of a DaemonSet."""
    spec = daemon_set.spec.template.spec
    if spec.node_name not in ("", node.name) or not _is_selected(spec, node):
        return Fit(False, False)
    tolerations = tolerations_of(spec)
    if _has_untolerated(node.taints, tolerations, _REPELLING):
        return Fit(False, not _has_untolerated(node.taints, tolerations, _NO_EXECUTE))
    return Fit(True, True)


def _has_untolerated(
    taints: Iterable[NodeTaint], tolerations: Iterable[Toleration], effects: frozenset[str]
) -> bool:
    return any(
        taint.effect in effects and not any(tolerates(each, taint) for each in tolerations)
        for taint in taints
    )


def _is_selected(spec: PodSpec, node: NodeView) -> bool:
    if any(node.labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return not required or selects_node(required, node.name, node.labels)


def tolerations_of(spec: PodSpec) -> tuple[Toleration, ...]:
    """The tolerations of the template and those of every daemon: it stays on nodes that are not well."""
    wanted = [
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/pid-pressure", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    ]
    if spec.host_network is True:
        wanted.append(("node.kubernetes.io/network-unavailable", "NoSchedule"))
    found = list(spec.tolerations)
    for key, effect in wanted:
        new = Toleration(key=key, operator="Exists", effect=effect)
        same = [i for i, each in enumerate(found) if _names(each) == _names(new)]
        if same:
            found[same[0]] = new
        else:
            found.append(new)
    return tuple(found)


def _names(toleration: Toleration) -> tuple[str, ...]:
    return toleration.key, toleration.operator, toleration.value, toleration.effect


def bound_to(spec: PodSpec, node: str) -> PodSpec:
    """The spec of a pod that only one node can take; other required node affinity is replaced."""
    field = NodeSelectorRequirement(key=NAME_FIELD, operator="In", values=(node,))
    only = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(field,)),))
    affinity = spec.affinity or Affinity()
    inner = affinity.node_affinity or NodeAffinity()
    inner = inner.evolve(required_during_scheduling_ignored_during_execution=only)
    return spec.evolve(affinity=affinity.evolve(node_affinity=inner))
