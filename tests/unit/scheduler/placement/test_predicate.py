"""Whether a node may take a pod: kinds of GPUs, and ports of single addresses."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.scheduler.model.node import NodeState
from quarterdeck.scheduler.model.predicate import Predicates
from quarterdeck.scheduler.model.task import Shape
from quarterdeck.scheduler.resource import Resources
from quarterdeck.scheduler.snapshot import GpuShare, HostPort, NodeInfo, PodConstraints
from tests.unit.scheduler.schedulerscene import ALLOCATE, Scene

CPU = Resources(1000)
WHOLE = Resources(1000, 0, 1)
INSTANCE = Resources(1000, 0, 0, (("nvidia.com/mig-1g.5gb", 1),))
BOTH = Resources(1000, 0, 1, (("nvidia.com/mig-1g.5gb", 1),))
HALF = GpuShare(0.5)
NO_MIG = "MIG job cannot be scheduled on non-MIG node"
WHOLE_ONLY = "only whole gpu jobs can run on a node with MigStrategy='single'"
MIG_ONLY = "non MIG jobs cant run on a node with MigStrategy='mixed'"
CLAIMED_ONLY = "device-plugin GPU requests cannot be scheduled on DRA-only nodes"


@pytest.mark.parametrize(
    ("strategy", "request_", "share", "objection"),
    [
        ("", CPU, None, ""),
        ("", WHOLE, None, ""),
        ("", CPU, HALF, ""),
        ("", INSTANCE, None, NO_MIG),
        ("none", WHOLE, None, ""),
        ("none", INSTANCE, None, ""),
        ("none", CPU, HALF, ""),
        ("single", CPU, None, ""),
        ("single", WHOLE, None, ""),
        ("single", CPU, HALF, WHOLE_ONLY),
        ("single", INSTANCE, None, WHOLE_ONLY),
        ("single", BOTH, None, WHOLE_ONLY),
        ("mixed", CPU, None, ""),
        ("mixed", INSTANCE, None, ""),
        ("mixed", WHOLE, None, MIG_ONLY),
        ("mixed", CPU, HALF, MIG_ONLY),
    ],
)
def test_gpus_that_are_cut_into_instances(
    strategy: Any, request_: Resources, share: GpuShare | None, objection: str
) -> None:
    node = NodeState(NodeInfo(name="n", allocatable=Resources(), mig_strategy=strategy), 0)
    found = Predicates.objections_to(Shape(request_, share, PodConstraints()), node)
    assert found == ((objection,) if objection else ())


@pytest.mark.parametrize(
    ("request_", "share", "claimed", "is_refused"),
    [
        (CPU, None, 0, False),
        (CPU, None, 1, False),
        (WHOLE, None, 0, True),
        (CPU, HALF, 0, True),
    ],
)
def test_gpus_that_are_had_by_claims_alone(
    request_: Resources, share: GpuShare | None, claimed: int, is_refused: bool
) -> None:
    node = NodeState(NodeInfo(name="n", allocatable=Resources(), claimable_gpus=1), 0)
    shape = Shape(request_, share, PodConstraints(), (), claimed)
    assert Predicates.objections_to(shape, node) == ((CLAIMED_ONLY,) if is_refused else ())


@pytest.mark.parametrize(
    ("theirs", "mine", "clashes"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.1", HostPort.ANY, True),
        (HostPort.ANY, "10.0.0.1", True),
    ],
)
def test_ports_of_single_addresses(theirs: str, mine: str, clashes: bool) -> None:
    scene = Scene().node("n0").queue("q").group("x")
    scene.pod("x", "n0", constraints=PodConstraints(host_ports=(HostPort(80, "TCP", theirs),)))
    scene.group("a").pod("a", constraints=PodConstraints(host_ports=(HostPort(80, "TCP", mine),)))
    assert (scene.run(ALLOCATE)["a-0"][0] == "Pending") is clashes
