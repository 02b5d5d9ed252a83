"""Pods that claim devices (dynamic resource allocation), and instances of GPUs (MIG)."""

from __future__ import annotations

import pytest

from quarterdeck.api.k8s import Node, Pod, ResourceClaim
from quarterdeck.client import MergePatch
from quarterdeck.cluster.resourceclaim.controller import resource_claim_controller
from quarterdeck.operators.kai.logic.device import claimable_gpus, with_claimable_gpus
from quarterdeck.scheduler.device import AllocatedDevice, Allocation, DeviceId
from quarterdeck.scheduler.deviceintake import account_of, allocation_document, current_slices, read_slice
from quarterdeck.scheduler.deviceselector import DeviceSelectors
from quarterdeck.scheduler.resource import Resources
from quarterdeck.scheduler.snapshot import NodeInfo
from quarterdeck.testing import FaultPlan, Refuse

from .devicekit import DRIVER, device, device_class, exactly, resource_claim, slice_of, user
from .kaikit import NS, Json, Kai, group, kai, pod, queue


async def claim_of(found: Kai, name: str = "gpus") -> Json:
    status: Json = (await found.client.get(ResourceClaim, name, NS)).to_dict().get("status") or {}
    return status


async def message_of(found: Kai, name: str) -> str:
    stored = await found.pod(name)
    assert stored.spec.node_name == ""
    (told,) = [each.message for each in stored.status.conditions if each.type == "PodScheduled"]
    return told


async def two_nodes(found: Kai) -> None:
    await found.add_nodes("n1", "n2", gpus=0)
    await found.create(
        queue("team"),
        device_class(),
        slice_of("n1", device("gpu-0"), device("gpu-1")),
        slice_of("n2", device("gpu-0", attributes={"model": {"string": "a100"}})),
    )


async def test_a_claim_gets_devices_of_the_node_and_is_reserved_for_the_pod() -> None:
    async with kai() as found:
        await two_nodes(found)
        await found.create(resource_claim(exactly=exactly(2)), group("g"), user("g-0", "gpus"))
        await found.schedule()
        stored = await found.pod("g-0")
        assert stored.spec.node_name == "n1"
        status = await claim_of(found)
        results = status["allocation"]["devices"]["results"]
        assert [(each["pool"], each["device"], each["request"]) for each in results] == [
            ("n1", "gpu-0", "gpu"),
            ("n1", "gpu-1", "gpu"),
        ]
        (term,) = status["allocation"]["nodeSelector"]["nodeSelectorTerms"]
        assert term["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]
        assert status["reservedFor"] == [{"resource": "pods", "name": "g-0", "uid": stored.metadata.uid}]
        (request,) = await found.requests()
        assert [each.name for each in request.spec.resource_claim_allocations] == ["devices"]
        claimed = await found.client.get(ResourceClaim, "gpus", NS)
        assert claimed.metadata.finalizers == ("resource.kubernetes.io/delete-protection",)
        assert (await found.queue("team")).status.allocated is not None


async def test_a_gang_whose_claims_cannot_all_be_met_waits_as_a_whole() -> None:
    async with kai() as found:
        await two_nodes(found)
        names = [f"c{number}" for number in range(4)]
        await found.create(
            *(resource_claim(each) for each in names),
            group("g", 4),
            *(user(f"g-{number}", each) for number, each in enumerate(names)),
        )
        await found.schedule()
        assert not await found.requests()
        assert "2 cannot allocate all claims" in await message_of(found, "g-3")
        assert not any([await claim_of(found, each) for each in names])


async def test_pods_share_a_claim_on_one_node() -> None:
    async with kai() as found:
        await two_nodes(found)
        await found.create(resource_claim(), group("g", 3), *(user(f"g-{n}", "gpus") for n in range(3)))
        await found.schedule()
        assert {(await found.pod(f"g-{n}")).spec.node_name for n in range(3)} == {"n1"}
        status = await claim_of(found)
        assert len(status["allocation"]["devices"]["results"]) == 1
        assert sorted(each["name"] for each in status["reservedFor"]) == ["g-0", "g-1", "g-2"]


async def test_a_claim_made_from_a_template_is_awaited() -> None:
    async with kai() as found:
        await two_nodes(found)
        made = pod("g-0", "g", 0, resourceClaims=[{"name": "devices", "resourceClaimTemplateName": "t"}])
        await found.create(group("g"), made)
        await found.schedule()
        expected = "no resource claim name found for pod default/g-0 and claim reference devices"
        assert expected in await message_of(found, "g-0")
        await found.create(resource_claim("g-0-devices", labels={"made": "yes"}))
        statuses = [{"name": "devices", "resourceClaimName": "g-0-devices"}]
        stored = await found.client.get(Pod, "g-0", NS)
        await found.client.status.patch(stored, MergePatch({"status": {"resourceClaimStatuses": statuses}}))
        await found.schedule()
        assert (await found.pod("g-0")).spec.node_name == "n1"


async def test_a_gang_with_a_template_runs_and_leaves_its_devices_to_the_next() -> None:
    async with kai() as found:
        await two_nodes(found)
        found.manager.add(resource_claim_controller(found.manager.recorder("claims")))
        template = resource_claim("t")
        spec = {"metadata": {"labels": {}}, "spec": template["spec"]}
        await found.create({**template, "kind": "ResourceClaimTemplate", "spec": spec})
        reference = [{"name": "devices", "resourceClaimTemplateName": "t"}]
        for name in ("g", "h"):
            await found.create(
                group(name, 3), *(pod(f"{name}-{n}", name, 0, resourceClaims=reference) for n in range(3))
            )
        await found.schedule()
        await found.schedule()
        placed = [(await found.pod(f"g-{n}")).spec.node_name for n in range(3)]
        assert sorted(placed) == ["n1", "n1", "n2"]
        assert "cannot allocate all claims" in await message_of(found, "h-2")
        for n in range(3):
            await found.set_phase(f"g-{n}", "Succeeded")
        await found.settle()
        await found.schedule()
        placed = [(await found.pod(f"h-{n}")).spec.node_name for n in range(3)]
        assert sorted(placed) == ["n1", "n1", "n2"]


async def test_a_claim_that_turns_out_not_to_be_needed_is_not_waited_for() -> None:
    async with kai() as found:
        await two_nodes(found)
        made = pod("g-0", "g", 0, resourceClaims=[{"name": "devices", "resourceClaimTemplateName": "t"}])
        await found.create(group("g"), made)
        stored = await found.client.get(Pod, "g-0", NS)
        waived = {"status": {"resourceClaimStatuses": [{"name": "devices"}]}}
        await found.client.status.patch(stored, MergePatch(waived))
        await found.schedule()
        assert (await found.pod("g-0")).spec.node_name != ""


async def test_the_best_alternative_that_can_be_met_is_taken() -> None:
    choices = [
        {"name": "four", "deviceClassName": DRIVER, "count": 4},
        {"name": "one", "deviceClassName": DRIVER, "count": 1},
    ]
    async with kai() as found:
        await two_nodes(found)
        await found.create(resource_claim(firstAvailable=choices), group("g"), user("g-0", "gpus"))
        await found.schedule()
        (result,) = (await claim_of(found))["allocation"]["devices"]["results"]
        assert result["request"] == "gpu/one"


@pytest.mark.parametrize(
    ("expression", "node"),
    [
        ('device.attributes["gpu.example.com"].model == "a100"', "n2"),
        ('device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) > 0', "n1"),
        ('device.driver == "gpu.example.com"', "n1"),
        ('device.attributes["gpu.example.com"].model == "b200"', ""),
    ],
)
async def test_selectors_choose_devices(expression: str, node: str) -> None:
    async with kai() as found:
        await two_nodes(found)
        await found.create(resource_claim(exactly=exactly(1, expression)), group("g"), user("g-0", "gpus"))
        await found.schedule()
        assert (await found.pod("g-0")).spec.node_name == node


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        (resource_claim(labels={"a": "b"}), "is a shared GPU claim but does not have a queue label"),
        (
            resource_claim(labels={"kai.scheduler/queue": "other"}),
            "with wrong queue label (expected queue: team, claim queue label: other)",
        ),
        (resource_claim(exactly=exactly(of="none")), "request gpu: device class none does not exist"),
        (
            resource_claim(exactly=exactly(capacity={"requests": {"memory": "1Gi"}})),
            "request gpu: capacity: parts of devices are not given out",
        ),
        (resource_claim(exactly=exactly(1, "device.nonsense(")), "selector 'device.nonsense('"),
        (resource_claim(exactly=exactly(1, 'device.attributes["x"].y == 1')), "no such key"),
    ],
)
async def test_what_cannot_be_honoured_is_said(claim: Json, expected: str) -> None:
    async with kai() as found:
        await two_nodes(found)
        await found.create(claim, group("g"), user("g-0", "gpus"))
        await found.schedule()
        assert expected in await message_of(found, "g-0")
        assert (await found.pod("g-0")).spec.node_name == ""


@pytest.mark.parametrize(
    "part",
    [
        {"consumesCounters": [{"counterSet": "memory", "counters": {"slices": {"value": "1"}}}]},
        {"allowMultipleAllocations": True},
        {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]},
    ],
    ids=["shared counters", "consumable capacity", "binding conditions"],
)
async def test_a_device_that_cannot_be_honoured_is_left_alone_and_that_is_said(part: Json) -> None:
    async with kai() as found:
        await found.add_nodes("n1", gpus=0)
        await found.create(queue("team"), device_class(), slice_of("n1", device("gpu-0", **part)))
        await found.create(resource_claim(), group("g"), user("g-0", "gpus"))
        await found.schedule()
        assert "request gpu: no such device is given out (left out: 1 that" in await message_of(found, "g-0")
        assert (await found.pod("g-0")).spec.node_name == ""
        assert await claim_of(found) == {}


async def test_a_missing_claim_is_said() -> None:
    async with kai() as found:
        await two_nodes(found)
        await found.create(group("g"), user("g-0", "gpus"))
        await found.schedule()
        assert 'resourceclaim.resource.k8s.io "gpus" not found' in await message_of(found, "g-0")


async def test_somebody_with_a_better_right_gets_the_devices_of_others() -> None:
    async with kai() as found:
        await found.add_nodes("n1", gpus=0)
        await found.create(
            queue("all"),
            queue("team", "all", gpu={"quota": 1, "limit": -1, "overQuotaWeight": 1}),
            queue("greedy", "all", gpu={"quota": 0, "limit": -1, "overQuotaWeight": 1}),
            device_class(),
            slice_of("n1", device("gpu-0")),
            resource_claim("theirs", labels={"kai.scheduler/queue": "greedy"}),
            group("h", queue="greedy"),
            user("h-0", "theirs", "h"),
        )
        await found.schedule()
        await found.set_phase("h-0", "Running")
        await found.create(resource_claim(), group("g"), user("g-0", "gpus"))
        await found.schedule()
        victim = await found.pod("h-0")
        assert victim.metadata.is_deleting
        await found.client.delete(victim, grace_period=0)
        stored = await found.client.get(ResourceClaim, "theirs", NS)  # what the claim controller does
        gone = {"status": {"reservedFor": None, "allocation": None}}
        await found.client.status.patch(stored, MergePatch(gone))
        await found.schedule()
        assert (await found.pod("g-0")).spec.node_name == "n1"
        assert (await claim_of(found))["allocation"]["devices"]["results"][0]["device"] == "gpu-0"


async def test_devices_of_a_pod_that_is_not_bound_after_all_are_given_back() -> None:
    refused = Refuse(403, verbs=frozenset({"create"}), resources=frozenset({"pods"}), subresource="binding")
    async with kai(FaultPlan(0, refused), bind_backoff_limit=1) as found:
        await two_nodes(found)
        await found.create(resource_claim(), group("g"), user("g-0", "gpus"))
        await found.schedule()
        assert await claim_of(found) == {}
        assert (await found.pod("g-0")).spec.node_name == ""


@pytest.mark.parametrize(("gpus", "claimable"), [(0, 8), (8, 0)])
def test_gpus_that_a_device_plugin_offers_too_count_once(gpus: int, claimable: int) -> None:
    node = NodeInfo(name="n", allocatable=Resources(gpu=gpus))
    assert with_claimable_gpus(node, {"n": 8}).claimable_gpus == claimable


def test_a_pool_counts_when_its_newest_generation_is_complete() -> None:
    old = read_slice(slice_of("n1", device("a"), name="old"))
    new = read_slice(slice_of("n1", device("b"), generation=2, count=2, name="new"))
    rest = read_slice(slice_of("n1", device("c"), generation=2, count=2, name="rest"))
    assert current_slices([old]) == [old]
    assert current_slices([old, new]) == []
    assert current_slices([old, new, rest]) == [new, rest]


def test_devices_that_cannot_be_honoured_or_are_tainted_are_nobodys() -> None:
    taints = [{"key": "broken", "effect": "NoSchedule"}]
    part = read_slice(
        slice_of(
            "n1",
            device("good"),
            device("part", consumesCounters=[{"counterSet": "x", "counters": {}}]),
            device("shared", allowMultipleAllocations=True),
            device("broken", taints=taints),
        )
    )
    tolerant = exactly(tolerations=[{"key": "broken", "operator": "Exists"}])
    claims = [resource_claim("plain"), resource_claim("tolerant", exactly=tolerant)]
    account = account_of([part], {DRIVER: device_class()}, claims, DeviceSelectors().accepts)
    plain, all_but_parts = (
        [each.name for each in account.devices.sorts[claim.requests[0][0].sort]] for claim in account.claims
    )
    assert (plain, all_but_parts) == (["good"], ["good", "broken"])
    assert claimable_gpus(account.slices) == {"n1": 2}


def test_an_allocation_carries_the_configuration_of_class_and_claim() -> None:
    claim = resource_claim()
    opaque = {"driver": DRIVER, "parameters": {"mode": "fast"}}
    claim["spec"]["devices"]["config"] = [{"requests": ["gpu"], "opaque": opaque}, {"requests": ["other"]}]
    classes = {DRIVER: device_class(config=[{"opaque": opaque}])}
    made = allocation_document(
        Allocation(devices=(AllocatedDevice("gpu", DeviceId(DRIVER, "n1", "gpu-0")),), node="n1"),
        claim,
        classes,
    )
    assert made["devices"]["config"] == [
        {"source": "FromClass", "requests": ["gpu"], "opaque": opaque},
        {"source": "FromClaim", "requests": ["gpu"], "opaque": opaque},
    ]


async def test_instances_of_gpus_are_bound_and_counted_by_their_slices() -> None:
    async with kai() as found:
        await found.add_nodes("plain", gpus=8)
        await found.add_nodes("cut", gpus=0, **{"nvidia.com/mig.strategy": "mixed"})
        node = await found.client.get(Node, "cut")
        amounts = {"nvidia.com/mig-2g.10gb": "3"}
        await found.client.status.patch(
            node, MergePatch({"status": {"allocatable": amounts, "capacity": amounts}})
        )
        made = pod("g-0", "g", 0)
        made["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/mig-2g.10gb": "1"}}
        await found.create(queue("team"), group("g"), made, group("h"), pod("h-0", "h", 1))
        await found.schedule()
        assert (await found.pod("g-0")).spec.node_name == "cut"
        assert (await found.pod("h-0")).spec.node_name == "plain"
        kinds = {each.metadata.name: each.spec.received_resource_type for each in await found.requests()}
        assert kinds == {"g-0": "MigInstance", "h-0": "Regular"}
        result = await found.cycle.run_once()
        assert result.queues["team"].allocated.gpu == 3
