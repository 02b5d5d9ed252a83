"""What holds between a NodeGroup and its Nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from quarterdeck.api import UNSET, Resource, controller_of
from quarterdeck.api.invariant import Invariant, Objects
from quarterdeck.api.k8s import Node
from quarterdeck.operators.nodegroup import names
from quarterdeck.operators.nodegroup.types import NodeGroup

from .simulation import SimulatedNode, plan_nodes

_RUNNING: Final = "is the operator running?"


def _miscounted(objects: Objects) -> Iterator[tuple[Resource, str, str]]:
    found = Counter(node.metadata.labels.get(names.GROUP_LABEL, "") for node in objects.every(Node))
    for group in objects.of(NodeGroup):
        name, told = group.metadata.name, group.status.nodes if group.status else UNSET
        if isinstance(told, int) and told != found[name]:
            problem = f"says that it has {told} nodes, and {found[name]} have its label"
            yield group, problem, f"{_RUNNING} it counts the Nodes with {names.GROUP_LABEL}={name}"


def _own(objects: Objects) -> dict[str, list[Node]]:
    """The Nodes that the simulation made, by the UID of their group."""
    made: dict[str, list[Node]] = {}
    for node in objects.of(Node):
        owner = controller_of(node.metadata.owner_references)
        if owner is not None and owner.kind == NodeGroup.type_info.kind:
            made.setdefault(owner.uid, []).append(node)
    return made


def _mislabelled(objects: Objects) -> Iterator[tuple[Resource, str, str]]:
    groups = {group.metadata.uid: group.metadata.name for group in objects.every(NodeGroup)}
    for uid, nodes in _own(objects).items():
        for node in nodes:
            label = node.metadata.labels.get(names.GROUP_LABEL, "")
            if uid not in groups:
                yield node, "belongs to a NodeGroup that is gone", "is the garbage collector running?"
            elif label != groups[uid]:
                problem = f"belongs to NodeGroup {groups[uid]}, and has the label of {label or 'none'}"
                yield node, problem, f"{_RUNNING} it puts {names.GROUP_LABEL} right"


def _out_of_range(objects: Objects) -> Iterator[tuple[Resource, str, str]]:
    own = _own(objects)
    taken = {node.metadata.name for node in objects.every(Node)}  # also by one that goes, slowly
    for group in objects.of(NodeGroup):
        instances = group.spec.cloud_instances
        nodes = own.get(group.metadata.uid, ())
        # Without nodes it may be a real cloud's; which zones there are by default, only the provider knows.
        if not nodes or not instances or not instances.zones:
            continue
        present = [
            SimulatedNode(node.metadata.labels.get(names.ZONE_LABEL, ""), node.metadata.name)
            for node in nodes
        ]
        plan = plan_nodes(group.to_dict(), present, ())
        for node in plan.remove:
            yield group, f"has Node {node.name} too many", f"{_RUNNING} it removes it"
        missing = sorted(node.name for node in plan.create if node.name not in taken)
        if missing:
            yield group, f"lacks {', '.join(missing)}", f"{_RUNNING} it makes Nodes up to minPerZone"


INVARIANTS: Final = (
    Invariant(
        "nodegroup/nodes-counted",
        "A NodeGroup says how many Nodes have its label.",
        (NodeGroup, Node),
        _miscounted,
        at_rest=True,
    ),
    Invariant(
        "nodegroup/own-nodes",
        "A Node that was made for a NodeGroup has its label, and goes with it.",
        (NodeGroup, Node),
        _mislabelled,
        at_rest=True,
    ),
    Invariant(
        "nodegroup/within-range",
        "A group with simulated nodes has as many in each zone as it allows.",
        (NodeGroup, Node),
        _out_of_range,
        at_rest=True,
    ),
)
