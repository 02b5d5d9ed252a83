"""Devices for claims: which are chosen, who may share them, and what happens when their users leave."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from quarterdeck.api import from_dict
from quarterdeck.api.k8s import NodeSelector
from quarterdeck.scheduler import CycleResult, Snapshot, schedule
from quarterdeck.scheduler.decision import Bind, Evict
from quarterdeck.scheduler.device import (
    MOST_CONSUMERS,
    AllocatedDevice,
    Allocation,
    ClaimInfo,
    DeviceConstraintInfo,
    DeviceId,
    DeviceInfo,
    DeviceRequestInfo,
    Devices,
    PodClaim,
)
from quarterdeck.scheduler.plan import Recorded, run_to_rest, simulate
from quarterdeck.scheduler.plan.record import dump, load
from quarterdeck.scheduler.settings import Settings
from quarterdeck.scheduler.snapshot import BindRequestInfo
from tests.unit.scheduler.randomclaims import gpu_of
from tests.unit.scheduler.schedulerscene import ALLOCATE, NS, Scene


def wants(count: int = 1, **more: Any) -> DeviceRequestInfo:
    return DeviceRequestInfo(name="gpu", sort="gpu", count=count, **more)


def claim(name: str = "c", *requests: DeviceRequestInfo, **more: Any) -> ClaimInfo:
    return ClaimInfo(
        namespace=NS, name=name, requests=tuple((each,) for each in requests or (wants(),)), **more
    )


def having(node: str, *numbers: int) -> Allocation:
    devices = tuple(AllocatedDevice("gpu", gpu_of(node, number).id) for number in numbers)
    return Allocation(devices=devices, node=node)


def cluster(scene: Scene, devices: list[DeviceInfo], *claims: ClaimInfo, **pods: str) -> Snapshot:
    """A scene whose pods use claims, by the pods' names."""
    snapshot = scene.snapshot()
    return replace(
        snapshot,
        devices=Devices(devices=tuple(devices), sorts={"gpu": tuple(each.id for each in devices)}),
        claims=claims,
        pods=tuple(
            replace(pod, claims=(PodClaim("devices", pods[pod.name.replace("-", "_")]),), claimed_gpus=1)
            for pod in snapshot.pods
        ),
    )


def one_node(waiting: int = 1) -> Scene:
    return Scene().node("n1", claimable_gpus=4).queue("q").job("g", waiting=waiting, least=1)


def given(result: CycleResult) -> dict[str, list[str]]:
    return {
        each.pod.name: [device.device.name for _, allocation in each.claims for device in allocation.devices]
        for each in result.decisions
        if isinstance(each, Bind)
    }


FOUR = [gpu_of("n1", number, numa=str(number % 2), slot=str(number)) for number in range(4)]


@pytest.mark.parametrize(
    ("constraint", "chosen"),
    [
        (DeviceConstraintInfo(attribute="numa"), ["gpu-0", "gpu-2"]),
        (DeviceConstraintInfo(attribute="numa", requests=("gpu",), is_distinct=True), ["gpu-0", "gpu-1"]),
        (DeviceConstraintInfo(attribute="numa", requests=("other",)), ["gpu-0", "gpu-1"]),
        (DeviceConstraintInfo(attribute="slot"), None),
        (DeviceConstraintInfo(attribute="unknown"), None),
    ],
)
def test_constraints_hold_between_devices(constraint: DeviceConstraintInfo, chosen: list[str] | None) -> None:
    snapshot = cluster(one_node(), FOUR, claim("c", wants(2), constraints=(constraint,)), g_0="c")
    assert given(schedule(snapshot)) == ({"g-0": chosen} if chosen else {})


def test_all_devices_means_all_or_none() -> None:
    everything = claim("c", wants(is_all=True))
    assert given(schedule(cluster(one_node(), FOUR, everything, g_0="c"))) == {
        "g-0": ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]
    }
    taken = claim("t", allocation=having("n1", 2), consumers=("somebody",))
    assert given(schedule(cluster(one_node(), FOUR, everything, taken, g_0="c"))) == {}


def test_an_administrator_looks_at_devices_in_use() -> None:
    taken = claim("t", wants(4), allocation=having("n1", 0, 1, 2, 3), consumers=("somebody",))
    watching = claim("c", wants(is_admin=True))
    assert given(schedule(cluster(one_node(), FOUR, taken, watching, g_0="c"))) == {"g-0": ["gpu-0"]}


def test_a_claim_with_devices_ties_its_users_to_their_node() -> None:
    scene = Scene().node("n1", claimable_gpus=1).node("n2", claimable_gpus=1).queue("q").job("g", waiting=1)
    devices = [gpu_of("n1", 0), gpu_of("n2", 0)]
    held = claim("c", allocation=having("n2", 0), consumers=("somebody",))
    (bind,) = [
        each for each in schedule(cluster(scene, devices, held, g_0="c")).decisions if isinstance(each, Bind)
    ]
    assert bind.node == "n2"


def test_a_bind_request_under_way_has_its_devices() -> None:
    snapshot = cluster(one_node(2), FOUR[:2], claim("a", wants(2)), claim("b"), g_0="a", g_1="b")
    request = BindRequestInfo(
        namespace=NS, name="g-0", pod="g-0", node="n1", claims=(("devices", having("n1", 0, 1)),)
    )
    assert given(schedule(replace(snapshot, bind_requests=(request,)))) == {}
    assert given(schedule(snapshot)) == {"g-0": ["gpu-0", "gpu-1"]}


def test_pods_that_terminate_keep_their_devices_until_they_are_gone() -> None:
    scene = Scene().node("n1", claimable_gpus=1).queue("q")
    scene.group("old").pod("old", "n1", is_deleted=True)
    scene.job("g", waiting=1)
    held = claim("a", allocation=having("n1", 0), consumers=("old-0",))
    snapshot = cluster(scene, FOUR[:1], held, claim("b"), old_0="a", g_0="b")
    result = schedule(snapshot)
    assert given(result) == {}
    assert result.pods[snapshot.pods[1].key].state.value == "Pipelined"
    rest = run_to_rest(snapshot, Settings())
    assert next(each for each in rest.snapshot.claims if each.name == "b").allocation is not None


def with_picky(scene: Scene, held: ClaimInfo, **pods: str) -> Snapshot:
    """Two devices: somebody has the first, and a pod called ``first-0`` waits that can use no other."""
    picky = claim("picky", DeviceRequestInfo(name="gpu", sort="zero"))
    snapshot = cluster(scene, FOUR[:2], held, picky, first_0="picky", **pods)
    sorts = {**snapshot.devices.sorts, "zero": (FOUR[0].id,)}
    return replace(snapshot, devices=replace(snapshot.devices, sorts=sorts))


def at_rest(snapshot: Snapshot) -> dict[str, Allocation | None]:
    rest = run_to_rest(snapshot, Settings())
    return {each.name: each.allocation for each in rest.snapshot.claims}


def test_a_claim_gets_other_devices_only_when_it_has_given_up_its_own() -> None:
    """Those who wait for it are not bound to others as long as somebody terminates with what it has."""
    scene = Scene().node("n1", claimable_gpus=2).queue("q")
    scene.group("old").pod("old", "n1", is_deleted=True)
    scene.job("first", waiting=1, priority=100).job("g", waiting=2, least=1)
    held = claim("shared", allocation=having("n1", 0), consumers=("old-0",))
    snapshot = with_picky(scene, held, old_0="shared", g_0="shared", g_1="shared")
    assert given(schedule(snapshot)) == {}
    assert at_rest(snapshot) == {"shared": having("n1", 1), "picky": having("n1", 0)}


def test_nobody_stays_on_devices_that_a_shared_claim_gives_up() -> None:
    """When the first of its users is promised another device, the rest go with it."""
    scene = Scene().node("n1", claimable_gpus=2).queue("q")
    scene.job("first", waiting=1).job("g", "q", "n1", "n1", "n1")
    held = claim("shared", allocation=having("n1", 0), consumers=("g-0", "g-1", "g-2"))
    snapshot = with_picky(scene, held, g_0="shared", g_1="shared", g_2="shared")
    result = schedule(snapshot)
    assert given(result) == {}
    assert {each.pod.name for each in result.decisions if isinstance(each, Evict)} == {"g-0", "g-1", "g-2"}
    assert at_rest(snapshot) == {"shared": having("n1", 1), "picky": having("n1", 0)}


def test_records_and_simulations_know_claims() -> None:
    snapshot = cluster(one_node(), FOUR, claim(), g_0="c")
    recorded = load(dump(Recorded(snapshot=snapshot)))
    assert recorded.snapshot == snapshot
    assert [row.pods for row in simulate(recorded).starts] == [1]


@pytest.mark.parametrize(("users", "is_given"), [(MOST_CONSUMERS - 1, True), (MOST_CONSUMERS, False)])
def test_a_claim_has_so_many_users_at_most(users: int, is_given: bool) -> None:
    scene = Scene().node("n1", cpu=1000, memory=1000, pods=1000, claimable_gpus=1).queue("q")
    scene.job("old", "q", *["n1"] * users, least=1).job("g", waiting=1)
    pods = {pod.name.replace("-", "_"): "c" for pod in scene.pods}
    held = claim("c", allocation=having("n1", 0), consumers=tuple(pod.uid for pod in scene.pods[:users]))
    assert (given(schedule(cluster(scene, FOUR[:1], held, **pods), ALLOCATE)) != {}) is is_given


@pytest.mark.parametrize("consumers", [(), ("somebody",)])
def test_devices_that_somebody_outside_has_are_not_given(consumers: tuple[str, ...]) -> None:
    """A claim with devices and without users is about to be used or to be given up by others."""
    held = claim("t", allocation=having("n1", 0), consumers=consumers)
    assert given(schedule(cluster(one_node(), FOUR[:1], held, claim("c"), g_0="c"))) == {}
    assert given(schedule(cluster(one_node(), FOUR[:2], held, claim("c"), g_0="c"))) == {"g-0": ["gpu-1"]}


@pytest.mark.parametrize(("zone", "node"), [("a", "n1"), ("b", "n2"), ("c", "")])
def test_devices_that_several_nodes_reach(zone: str, node: str) -> None:
    scene = Scene().queue("q").job("g", waiting=1)
    for name, place in (("n1", "a"), ("n2", "b")):
        scene.node(name, labels={"zone": place}, claimable_gpus=1)
    expression = {"key": "zone", "operator": "In", "values": [zone]}
    nodes = from_dict({"nodeSelectorTerms": [{"matchExpressions": [expression]}]}, NodeSelector)
    switch = DeviceInfo(id=DeviceId("switch.example.com", "all", "s"), nodes=nodes)
    result = schedule(cluster(scene, [switch], claim(), g_0="c"))
    assert [(each.node, each.claims[0][1].nodes) for each in result.decisions if isinstance(each, Bind)] == (
        [(node, nodes)] if node else []
    )
    # whoever has it already ties others to the same nodes
    allocation = Allocation(devices=(AllocatedDevice("gpu", switch.id),), nodes=nodes)
    held = claim("c", allocation=allocation, consumers=("somebody",))
    result = schedule(cluster(scene, [switch], held, g_0="c"))
    assert [each.node for each in result.decisions if isinstance(each, Bind)] == ([node] if node else [])
