"""In which order nodes are taken."""

from __future__ import annotations

import pytest

from quarterdeck.scheduler.model.cluster import Cluster
from quarterdeck.scheduler.model.hold import Hold
from quarterdeck.scheduler.model.nodeset import NodeSet
from quarterdeck.scheduler.model.task import Shape
from quarterdeck.scheduler.resource import Resources
from quarterdeck.scheduler.settings import Placement
from quarterdeck.scheduler.snapshot import PodConstraints
from tests.unit.scheduler.schedulerscene import Scene


def shape(gpu: int = 0, cpu: int = 0) -> Shape:
    return Shape(Resources(cpu, 0, gpu), None, PodConstraints())


def cluster(*others: str) -> Cluster:
    """Nodes with GPUs, a part of which is taken on the larger one, and nodes without."""
    scene = Scene().node("big", 8, cpu=4).node("small", 4, cpu=2).node("cpu", cpu=3).node("none", cpu=0)
    for name in others:
        scene.node(name, cpu=9)
    found = scene.cluster()
    found.nodes["big"].hold(shape(6), (), Hold.RUNNING, 1)
    return found


def walk(nodes: NodeSet, wanted: Shape, placement: Placement) -> list[str]:
    return [node.name for node in nodes.walk(wanted, placement)]


def sets(found: Cluster) -> list[NodeSet]:
    """All nodes as a set that lasts, and as a view."""
    return [found.all_nodes, found.all_nodes.view(found.all_nodes.nodes)]


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize(
    ("wanted", "placement", "order"),
    [
        (shape(1), "binpack", ["big", "small"]),
        (shape(1), "spread", ["small", "big"]),
        (shape(0, 1), "binpack", ["cpu", "small", "big"]),
        (shape(0, 1), "spread", ["cpu", "big", "small"]),
    ],
)
def test_packing_and_spreading(which: int, wanted: Shape, placement: Placement, order: list[str]) -> None:
    found = walk(sets(cluster())[which], wanted, placement)
    assert [name for name in found if name in order] == order


def test_nodes_with_too_little_are_passed_over_when_packing() -> None:
    found = cluster()
    assert walk(found.all_nodes, shape(2), "binpack") == ["big", "small"]
    assert walk(found.all_nodes, shape(3), "binpack") == ["small"]
    assert walk(found.all_nodes, shape(0, 3000), "binpack") == ["cpu", "big"]
    assert walk(found.all_nodes, shape(0, 3001), "binpack") == ["big"]


def test_the_order_follows_what_is_free() -> None:
    found = cluster()
    assert walk(found.all_nodes, shape(1), "binpack") == ["big", "small"]
    found.nodes["small"].hold(shape(3), (), Hold.RUNNING, 1)
    assert walk(found.all_nodes, shape(1), "binpack") == ["small", "big"]
    found.nodes["small"].hold(shape(1), (), Hold.RUNNING, 1)
    assert walk(found.all_nodes, shape(1), "binpack") == ["big"]


def test_a_large_view_has_the_order_of_the_set_it_is_of() -> None:
    names = [f"n{number:02}" for number in range(20)]
    found = cluster(*names)
    view = found.all_nodes.view([found.nodes[name] for name in names if name != "n07"])
    assert not view.is_lasting
    assert walk(view, shape(0, 9000), "binpack") == [name for name in names if name != "n07"]
    assert walk(view, shape(0, 9001), "binpack") == []
    assert not view.view([found.nodes["n01"]]).is_lasting
