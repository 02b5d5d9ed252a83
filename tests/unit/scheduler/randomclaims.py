"""Random clusters whose pods claim devices: of nodes, of racks, shared by several pods, with constraints."""

from __future__ import annotations

import random

from msgspec.structs import replace

from quarterdeck.api import from_dict
from quarterdeck.api.k8s import NodeSelector
from quarterdeck.scheduler import Settings, Snapshot
from quarterdeck.scheduler.device import (
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
from tests.unit.scheduler.schedulerscene import NS, Scene

__all__ = ["claiming_cluster", "gpu_of"]


def gpu_of(node: str, number: int, **more: str) -> DeviceInfo:
    """A device of one node."""
    return DeviceInfo(
        id=DeviceId("gpu.example.com", node, f"gpu-{number}"), node=node, attributes=tuple(more.items())
    )


def claiming_cluster(seed: int) -> tuple[Snapshot, Settings]:
    """Nodes with devices, some of which can be reached from half of them; claims of one pod or of many."""
    chance = random.Random(seed)
    scene = Scene()
    devices: list[DeviceInfo] = []
    for index in range(chance.randint(2, 5)):
        count = chance.choice([0, 1, 2, 4])
        name = f"n{index}"
        scene.node(name, 0, labels={"rack": f"r{index % 2}"}, claimable_gpus=count)
        devices += [gpu_of(name, number, numa=str(number % 2)) for number in range(count)]
    devices += [_switch(chance, number) for number in range(chance.randint(0, 2))]
    scene.queue("d", gpu=(-1, -1, 1))
    total = sum(bool(device.node) for device in devices)
    for queue in ("a", "b"):
        scene.queue(queue, "d", gpu=(chance.choice([0, 1, total // 2]), chance.choice([-1, -1, total]), 1))
    claims: dict[str, ClaimInfo] = {}
    for number in range(chance.randint(2, 7)):
        _group(scene, chance, f"g{number}", claims, devices)
    sorts = {
        "gpu": tuple(device.id for device in devices if device.node),
        "even": tuple(
            device.id for device in devices if device.node and device.id.name in ("gpu-0", "gpu-2")
        ),
        "switch": tuple(device.id for device in devices if not device.node),
    }
    snapshot = replace(
        scene.snapshot(),
        devices=Devices(devices=tuple(devices), sorts=sorts),
        claims=tuple(claims.values()),
    )
    return snapshot, Settings(use_scheduling_signatures=chance.random() < 0.5)


def _switch(chance: random.Random, number: int) -> DeviceInfo:
    racks = [{"key": "rack", "operator": "In", "values": [f"r{chance.randint(0, 1)}"]}]
    nodes = from_dict({"nodeSelectorTerms": [{"matchExpressions": racks}]}, NodeSelector)
    return DeviceInfo(
        id=DeviceId("fabric.example.com", "fabric", f"switch-{number}"),
        nodes=nodes if chance.random() < 0.7 else None,
    )


def _group(
    scene: Scene,
    chance: random.Random,
    name: str,
    claims: dict[str, ClaimInfo],
    devices: list[DeviceInfo],
) -> None:
    pods = chance.randint(1, 4)
    scene.group(name, chance.choice(["a", "b"]), chance.randint(1, pods), chance.choice([50, 50, 75, 100]))
    is_shared = chance.random() < 0.3
    demand = _demand(chance)
    runs = chance.random() < 0.4
    node = chance.choice(scene.nodes).name
    for index in range(pods):
        claim = f"{name}-shared" if is_shared else f"{name}-{index}"
        info = claims.get(claim) or replace(demand, name=claim)
        pod = scene.pod(name, "", gpu=0).pods[-1]
        held = info if info.allocation is not None else _allocated(info, node, claims, devices)
        if runs and held is not None:
            info = replace(held, consumers=(*held.consumers, pod.uid))
            pod = replace(pod, node=node, phase="Running")
        claims[claim] = info
        gpus = sum(first.count for first, *_ in info.requests if first.sort != "switch")
        scene.pods[-1] = replace(pod, claims=(PodClaim("devices", claim),), claimed_gpus=gpus)


def _demand(chance: random.Random) -> ClaimInfo:
    count = chance.choice([1, 1, 2])
    first = DeviceRequestInfo(name="gpu", sort=chance.choice(["gpu", "gpu", "even"]), count=count)
    requests: list[tuple[DeviceRequestInfo, ...]] = [(first,)]
    if chance.random() < 0.2:
        requests = [
            (
                DeviceRequestInfo(name="gpu/two", sort="gpu", count=2),
                DeviceRequestInfo(name="gpu/one", sort="gpu"),
            )
        ]
    if chance.random() < 0.2:
        requests.append((DeviceRequestInfo(name="fabric", sort="switch"),))
    constraints = []
    if chance.random() < 0.3:
        constraints.append(
            DeviceConstraintInfo(
                attribute="numa", requests=("gpu",), is_distinct=chance.random() < 0.5 and count == 2
            )
        )
    return ClaimInfo(namespace=NS, name="", requests=tuple(requests), constraints=tuple(constraints))


def _allocated(
    claim: ClaimInfo, node: str, claims: dict[str, ClaimInfo], devices: list[DeviceInfo]
) -> ClaimInfo | None:
    """The claim with any devices of the node that nobody has; none if there are not enough."""
    taken = {
        each.device for other in claims.values() if other.allocation for each in other.allocation.devices
    }
    wanted = claim.requests[0][-1]
    if len(claim.requests) > 1 or claim.constraints:
        return None
    free = [each.id for each in devices if each.node == node and each.id not in taken]
    if wanted.sort == "even":
        free = [each for each in free if each.name in ("gpu-0", "gpu-2")]
    if len(free) < wanted.count:
        return None
    given = tuple(AllocatedDevice(wanted.name, each) for each in free[: wanted.count])
    return replace(claim, allocation=Allocation(devices=given, node=node))
