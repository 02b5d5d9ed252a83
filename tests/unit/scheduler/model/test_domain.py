"""Domains of a topology: what is free in them, and which one some nodes have in common."""

from __future__ import annotations

import math

import pytest

from quarterdeck.scheduler.model.cluster import Cluster
from quarterdeck.scheduler.model.hold import Hold
from quarterdeck.scheduler.model.task import Shape
from quarterdeck.scheduler.model.topology import Domain, TopologyTree
from quarterdeck.scheduler.resource import Resources
from quarterdeck.scheduler.snapshot import NodeInfo, PodConstraints
from tests.unit.scheduler.schedulerscene import GIB, Scene, topology

NIC = "example.com/nic"


def cluster() -> Cluster:
    """Five nodes: two in the first rack, one in each of two others, the last of which is in another zone."""
    scene = Scene().queue("q")
    scene.extra = topology("zone", "rack")
    for index, rack in enumerate(("r0", "r0", "r1", "r2")):
        labels = {"zone": "z1" if rack == "r2" else "z0", "rack": rack}
        allocatable = Resources(4000, 4 * GIB, 4, ((NIC, 4),) if index < 2 else ())
        scene.nodes.append(NodeInfo(name=f"n{index}", allocatable=allocatable, labels=labels))
    return scene.node("outside", 4).cluster()


def tree_of(found: Cluster) -> TopologyTree:
    tree = found.topologies.get("t")
    assert tree is not None
    return tree


def rack(found: Cluster, name: str = "z0.r0") -> Domain:
    return tree_of(found).root.children[name.partition(".")[0]].children[name]


def shape(cpu: int = 0, memory: int = 0, gpu: int = 0, nics: int = 0) -> Shape:
    return Shape(Resources(cpu, memory, gpu, ((NIC, nics),) if nics else ()), None, PodConstraints())


@pytest.mark.parametrize(
    ("needed", "pressure"),
    [
        (Resources(), 0),
        (Resources(2000), 0.25),
        (Resources(0, 4 * GIB), 0.5),
        (Resources(0, 0, 6), 0.75),
        (Resources(0, 0, 0, ((NIC, 16),)), 2),
        (Resources(2000, 4 * GIB, 6, ((NIC, 1),)), 0.75),
        (Resources(2000, 6 * GIB, 4, ((NIC, 1),)), 0.75),
        (Resources(6000, 4 * GIB, 4, ((NIC, 1),)), 0.75),
        (Resources(2000, 4 * GIB, 4, ((NIC, 6),)), 0.75),
        (Resources(1, 0, 0, (("other", 1),)), math.inf),
    ],
)
def test_the_largest_part_that_is_needed_of_anything(needed: Resources, pressure: float) -> None:
    assert rack(cluster()).pressure(needed) == pressure


def test_nothing_is_left_for_more_where_all_is_taken() -> None:
    found = cluster()
    for name in ("n0", "n1"):
        found.nodes[name].hold(shape(4000, 4 * GIB, 4, nics=4), (), Hold.RUNNING, 1)
    domain = rack(found)
    assert domain.pressure(Resources()) == 0
    for needed in (Resources(1), Resources(0, 1), Resources(0, 0, 1), Resources(0, 0, 0, ((NIC, 1),))):
        assert domain.pressure(needed) == math.inf


def test_sums_follow_their_nodes_up_to_the_root() -> None:
    found = cluster()
    tree, pod = tree_of(found), shape(1000, GIB, 1, nics=3)
    domains = [tree.root, tree.root.children["z0"], rack(found)]
    before = [domain.free for domain in domains]
    assert [free.gpu for free in before] == [16, 12, 8]
    assert {free.scalars for free in before} == {((NIC, 8),)}
    found.nodes["n0"].hold(pod, (), Hold.RUNNING, 1)
    assert [domain.free for domain in domains] == [
        free - Resources(1000, GIB, 1, ((NIC, 3),)) for free in before
    ]
    found.nodes["n0"].hold(pod, (), Hold.RUNNING, -1)
    assert [domain.free for domain in domains] == before


def test_places_are_counted_again_when_something_changes() -> None:
    found = cluster()
    root, small = tree_of(found).root, shape(0, 0, 3)
    assert root.copies(small) == root.copies(small) == 4
    found.nodes["n3"].hold(shape(0, 0, 2), (), Hold.RUNNING, 1)
    assert root.copies(small) == 3
    nics = shape(nics=3)
    assert root.copies(nics) == 2
    found.nodes["n1"].hold(shape(nics=2), (), Hold.RUNNING, 1)
    assert root.copies(nics) == 1


@pytest.mark.parametrize(
    ("names", "deepest", "common"),
    [
        ("n0", 2, "z0.r0"),
        ("n0", 3, "z0.r0"),
        ("n0", 1, "z0"),
        ("n0", 0, "root"),
        ("n0 n1", 2, "z0.r0"),
        ("n0 n1", 1, "z0"),
        ("n0 n2", 2, "z0"),
        ("n0 n1 n2", 2, "z0"),
        ("n0 n3", 2, "root"),
        ("n0 n2 n3", 2, "root"),
        ("n3 outside", 2, "z1.r2"),
        ("outside", 2, "root"),
    ],
)
@pytest.mark.parametrize("is_lasting", [False, True])
def test_the_lowest_domain_that_nodes_have_in_common(
    names: str, deepest: int, common: str, is_lasting: bool
) -> None:
    found = cluster()
    nodes = found.all_nodes.view([found.nodes[name] for name in names.split()])
    if is_lasting:
        nodes = type(nodes)(nodes.nodes)
    assert nodes.is_lasting is is_lasting
    tree = tree_of(found)
    assert tree.common(nodes, deepest).id == tree.common(nodes, deepest).id == common


def test_domains_above() -> None:
    domain = rack(cluster())
    assert [domain.above(depth).id for depth in range(4)] == ["root", "z0", "z0.r0", "z0.r0"]
    assert [domain.depth, domain.level] == [2, "rack"]


def test_the_nodes_of_a_domain_that_are_asked_for() -> None:
    found = cluster()
    tree, domain = tree_of(found), rack(found)
    assert tree.nodes_in(domain, found.all_nodes) is domain.set
    some = found.all_nodes.view([found.nodes[name] for name in ("n1", "n2")])
    assert [node.name for node in tree.nodes_in(domain, some).nodes] == ["n1"]


def test_levels_are_counted_below_the_root() -> None:
    found = cluster()
    tree = tree_of(found)
    assert [tree.depth_of(level) for level in ("zone", "rack", "root", "")] == [1, 2, None, None]
    assert tree.lowest(found.nodes["outside"]) is None
    assert tree.lowest(found.nodes["n0"]) is rack(found)
