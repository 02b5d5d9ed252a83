"""Whether a node is among those that a node selector means.

Node selectors are not label selectors: they are terms of which one must hold, they compare numbers, and they
may ask for a node's name. This is for selectors that were validated; what they do not know matches nothing.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from quarterdeck.api.k8s import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from quarterdeck.api.selector import Operator, Requirement

NAME_FIELD: Final = "metadata.name"
"""The only field of a node that a selector can ask for."""
_OPERATORS: Final[Mapping[str, Operator]] = {
    "In": "in",
    "NotIn": "notin",
    "Exists": "exists",
    "DoesNotExist": "!",
    "Gt": "gt",
    "Lt": "lt",
}


def selects_node(selector: NodeSelector, name: str, labels: Mapping[str, str]) -> bool:
    """Whether one of the terms holds for a node; an empty term holds for none."""
    return any(_holds(term, name, labels) for term in selector.node_selector_terms)


def _holds(term: NodeSelectorTerm, name: str, labels: Mapping[str, str]) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    return _match(term.match_expressions, labels) and _match(term.match_fields, {NAME_FIELD: name})


def _match(requirements: Iterable[NodeSelectorRequirement], labels: Mapping[str, str]) -> bool:
    for each in requirements:
        operator = _OPERATORS.get(each.operator)
        if operator is None or not Requirement(each.key, operator, tuple(each.values)).matches(labels):
            return False
    return True
