"""Which nodes a pod may be on: node selectors, taints and tolerations."""

from __future__ import annotations

import pytest

from quarterdeck.api.k8s import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Taint,
    Toleration,
)
from quarterdeck.api.nodeselector import NAME_FIELD, selects_node
from quarterdeck.api.toleration import tolerates

LABELS = {"zone": "a", "cores": "8"}


def asks(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator=operator, values=values)


@pytest.mark.parametrize(
    ("requirement", "held"),
    [
        (asks("zone", "In", "a", "b"), True),
        (asks("zone", "NotIn", "a"), False),
        (asks("zone", "Exists"), True),
        (asks("zone", "DoesNotExist"), False),
        (asks("cores", "Gt", "4"), True),
        (asks("cores", "Lt", "8"), False),
        (asks("zone", "Resembles", "a"), False),
    ],
)
def test_a_requirement_holds_for_labels(requirement: NodeSelectorRequirement, held: bool) -> None:
    term = NodeSelectorTerm(match_expressions=[requirement])
    assert selects_node(NodeSelector(node_selector_terms=[term]), "n1", LABELS) is held


def test_all_of_a_term_and_one_of_the_terms_must_hold() -> None:
    here, elsewhere = asks("zone", "In", "a"), asks("zone", "In", "b")
    named, other = asks(NAME_FIELD, "In", "n1"), asks(NAME_FIELD, "In", "n2")

    def holds(*terms: NodeSelectorTerm) -> bool:
        return selects_node(NodeSelector(node_selector_terms=terms), "n1", LABELS)

    assert holds(NodeSelectorTerm(match_expressions=[here], match_fields=[named]))
    assert not holds(NodeSelectorTerm(match_expressions=[here], match_fields=[other]))
    assert not holds(NodeSelectorTerm(match_expressions=[here, elsewhere]))
    assert holds(NodeSelectorTerm(match_expressions=[elsewhere]), NodeSelectorTerm(match_fields=[named]))
    assert not holds(NodeSelectorTerm()), "an empty term means no node"
    assert not holds()


@pytest.mark.parametrize(
    ("toleration", "suits"),
    [
        (Toleration(operator="Exists"), True),
        (Toleration(key="gpu", operator="Exists", effect="NoSchedule"), True),
        (Toleration(key="gpu", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="disk", operator="Exists"), False),
        (Toleration(key="gpu", value="yes"), True),
        (Toleration(key="gpu", operator="Equal", value="yes"), True),
        (Toleration(key="gpu", operator="Equal", value="no"), False),
        (Toleration(key="gpu", operator="Gt", value="yes"), False),
    ],
)
def test_a_toleration_suits_a_taint(toleration: Toleration, suits: bool) -> None:
    assert tolerates(toleration, Taint(key="gpu", value="yes", effect="NoSchedule")) is suits
