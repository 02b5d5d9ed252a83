"""Whole scheduling cycles on a cluster: from pending pods to pods on nodes, and what users are told."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import DynamicObject, Time
from quarterdeck.api.k8s import Node, Pod
from quarterdeck.client import MergePatch
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.assembly import metrics_of
from quarterdeck.operators.kai.controllers import Ticker
from quarterdeck.operators.kai.types import BindRequest, PodGroup
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.testing import FaultPlan, Refuse

from .kaikit import NS, Kai, group, kai, pod, queue

ONE = {"quota": 1, "limit": 1, "overQuotaWeight": 1}


def refusing_bindings(times: int) -> FaultPlan:
    """The only pods that the operator creates are bindings of pods."""
    verbs, resources = frozenset({"create"}), frozenset({"pods"})
    return FaultPlan(
        0, Refuse(403, message="no room in the inn", verbs=verbs, resources=resources, times=times)
    )


def gang(name: str, count: int, minimum: int, **spec: Any) -> list[dict[str, Any]]:
    return [group(name, minimum, **spec), *(pod(f"{name}-{n}", name) for n in range(count))]


async def nodes_of(found: Kai, *names: str) -> list[str]:
    return [(await found.pod(name)).spec.node_name for name in names]


def condition(obj: Any, type: str) -> Any:
    return next((each for each in obj.status.conditions if each.type == type), None)


async def test_a_gang_that_fits_is_bound_as_a_whole() -> None:
    async with kai() as found:
        await found.add_nodes("n1", gpus=4)
        await found.create(queue("team"), *gang("g", 3, 3))
        await found.schedule()
        assert await nodes_of(found, "g-0", "g-1", "g-2") == ["n1"] * 3
        stored = await found.pod("g-0")
        assert stored.metadata.annotations[names.RECEIVED_TYPE_ANNOTATION] == "Regular"
        bound = condition(stored, "PodBound")
        assert (bound.status, bound.reason) == ("True", "Bound")
        assert bound.message == "Pod bound successfully to node n1"
        assert condition(stored, "PodScheduled").status == "True"
        assert found.log.about("g-0") == [
            "Normal Scheduled Successfully assigned pod default/g-0 to node n1 at node-pool default",
            "Normal Bound Pod bound successfully to node n1",
        ]
        made = await found.group("g")
        assert Time(made.metadata.annotations[names.LAST_START_ANNOTATION])
        assert made.status.scheduling_conditions == ()


async def test_a_bind_request_says_what_was_decided() -> None:
    async with kai() as found:
        await found.add_nodes("n1")
        await found.create(queue("team"), group("g"), pod("g-0", "g", gpu=2))
        await found.schedule()
        (request,) = await found.requests()
        stored = await found.pod("g-0")
        assert request.key == stored.key
        assert request.metadata.labels == {"selected-node": "n1"}
        (owner,) = request.metadata.owner_references
        assert (owner.kind, owner.name, owner.uid) == ("Pod", "g-0", stored.metadata.uid)
        assert request.to_dict()["spec"] == {
            "podName": "g-0",
            "selectedNode": "n1",
            "receivedResourceType": "Regular",
            "receivedGPU": {"count": 2, "portion": "1.00"},
            "backoffLimit": 3,
        }
        assert request.status.phase == "Succeeded"


async def test_a_pod_that_shares_a_gpu_is_told_which() -> None:
    async with kai() as found:
        await found.add_nodes("n1", gpus=1)
        half = {"annotations": {"gpu-fraction": "0.5"}}
        await found.create(queue("team"), group("g", 2))
        await found.create(*(pod(f"g-{n}", "g", gpu=0, metadata=half) for n in range(2)))
        for n in range(2):
            stored = await found.pod(f"g-{n}")
            mark = {names.POD_GROUP_ANNOTATION: "g"}
            await found.client.patch(stored, MergePatch({"metadata": {"annotations": mark}}))
        await found.schedule()
        assert await nodes_of(found, "g-0", "g-1") == ["n1", "n1"]
        shared = {(await found.pod(f"g-{n}")).metadata.labels[names.GPU_GROUP_LABEL] for n in range(2)}
        assert len(shared) == 1
        (request, _) = await found.requests()
        assert request.spec.received_resource_type == "Fraction"
        assert request.spec.received_gpu
        assert request.spec.received_gpu.portion == "0.50"
        assert list(request.spec.selected_gpu_groups) == sorted(shared)


async def test_a_second_cycle_changes_nothing() -> None:
    async with kai() as found:
        await found.add_nodes("n1", gpus=4)
        await found.create(queue("team"), *gang("g", 3, 3), *gang("big", 9, 9))
        await found.schedule()
        await found.schedule()
        before = await _versions(found)
        said = len(found.log.events)
        for _ in range(3):
            await found.schedule()
        assert await _versions(found) == before
        assert len(found.log.events) == said


async def _versions(found: Kai) -> dict[str, str]:
    kinds = (Pod, PodGroup, BindRequest)
    return {
        f"{each.kind}/{each.metadata.name}": each.metadata.resource_version
        for kind in kinds
        for each in await found.client.list(kind)
    }


async def test_the_cycle_waits_for_what_the_last_one_wrote() -> None:
    async with kai() as found:
        await found.add_nodes("n1", "n2", gpus=1)
        await found.create(queue("team"), *gang("g", 2, 2))
        await found.settle()
        for _ in range(5):  # no pause in which the cache could catch up by itself
            await found.cycle.run_once()
        await found.settle()
        assert sorted(await nodes_of(found, "g-0", "g-1")) == ["n1", "n2"]
        assert len(await found.requests()) == 2


async def test_a_gang_that_does_not_fit_is_told_why() -> None:
    async with kai() as found:
        await found.add_nodes("n1", gpus=1)
        await found.create(queue("team"), *gang("g", 2, 2))
        await found.schedule()
        assert await nodes_of(found, "g-0", "g-1") == ["", ""]
        made = await found.group("g")
        (written,) = made.status.scheduling_conditions
        assert (written.type, written.status) == ("UnschedulableOnNodePool", "True")
        assert (written.reason, written.node_pool, written.transition_id) == ("Unschedulable", "default", "1")
        assert "Resources were found for 1 pods while 2 are required for gang scheduling" in written.message
        for name in ("g-0", "g-1"):
            told = condition(await found.pod(name), "PodScheduled")
            assert (told.status, told.reason) == ("False", "Unschedulable")
            assert found.log.about(name)[0].startswith("Warning Unschedulable")
        assert found.log.about("g")[0].startswith("Normal Unschedulable")


async def test_pods_need_not_be_marked() -> None:
    async with kai() as found:
        await found.add_nodes("n1", gpus=1)
        await found.create(queue("team"), *gang("g", 2, 2, markUnschedulable=False))
        await found.schedule()
        assert condition(await found.pod("g-0"), "PodScheduled") is None
        assert found.log.about("g-0")[0].startswith("Warning Unschedulable")


async def test_the_numbers_of_a_queue_that_is_full_are_told() -> None:
    async with kai() as found:
        await found.add_nodes("n1", gpus=8)
        await found.create(queue("team", gpu=ONE), *gang("g", 2, 2))
        await found.schedule()
        (written,) = (await found.group("g")).status.scheduling_conditions
        (reason,) = written.reasons
        assert reason.reason == "OverLimit"
        assert "team quota has reached the allowable limit of GPUs" in reason.message
        assert reason.details
        assert reason.details.queue_details
        details = reason.details.queue_details
        assert details.name == "team"
        assert str(details.queue_resource_limits["nvidia.com/gpu"]) == "1"
        assert str(details.pod_group_requested_resources["nvidia.com/gpu"]) == "2"


async def test_a_group_without_enough_pods_is_not_ready() -> None:
    async with kai() as found:
        await found.add_nodes("n1")
        await found.create(queue("team"), *gang("g", 1, 3))
        await found.schedule()
        (told,) = found.log.about("g")
        assert told.startswith("Normal NotReady Job is not ready for scheduling.")
        assert told.endswith(" Waiting for 3 pods, currently 1 exist, 0 are gated")
        assert (await found.group("g")).status.scheduling_conditions == ()
        assert condition(await found.pod("g-0"), "PodScheduled") is None


async def test_subgroups_that_make_no_tree_are_told() -> None:
    async with kai() as found:
        await found.add_nodes("n1")
        broken = [{"name": "A"}, {"name": "b", "parent": "A"}]
        await found.create(queue("team"), group("g", subGroups=broken))
        await found.create(pod("g-0", "g", metadata={"labels": {names.SUB_GROUP_LABEL: "b"}}))
        await found.schedule()
        (written,) = (await found.group("g")).status.scheduling_conditions
        assert "parent subgroup <a> of <b> not found" in written.message


async def running(found: Kai, *names: str) -> None:
    for name in names:
        await found.set_phase(name, "Running")
    await found.settle()


async def priority(found: Kai, name: str, value: int) -> None:
    await found.client.create(
        DynamicObject(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            }
        )
    )


async def test_a_pod_is_evicted_for_one_of_higher_priority() -> None:
    async with kai(update_pod_eviction_condition=True) as found:
        await found.add_nodes("n1", gpus=1)
        await priority(found, "low", 10)
        await priority(found, "high", 90)
        await found.create(queue("team"), *gang("low", 1, 1, priorityClassName="low"))
        await found.schedule()
        await running(found, "low-0")
        await found.create(*gang("high", 1, 1, priorityClassName="high"))
        await found.schedule()
        victim = await found.pod("low-0")
        assert victim.metadata.is_deleting
        told = condition(victim, "DisruptionTarget")
        assert (told.status, told.reason) == ("True", "PreemptionByScheduler")
        (event,) = [each for each in found.log.events if each.reason == "Evict"]
        assert event.regarding.metadata.name == "low"
        assert event.note == ("Pod default/low-0 was preempted by higher priority workload default/high")
        assert event.annotations == {
            "num-evicted-pods": "1",
            "evictor-action-type": "preempt",
            "evictor-pod-group-name": "high",
            "evictor-pod-group-namespace": "default",
        }
        assert "Normal Pipelined Pod default/high-0 was pipelined to node n1" in found.log.about("high-0")
        await found.client.delete(victim, grace_period=0)
        await found.schedule()
        assert await nodes_of(found, "high-0") == ["n1"]


async def test_a_stale_gang_is_marked_told_and_evicted() -> None:
    async with kai(default_staleness_grace_period=60.0) as found:
        await found.add_nodes("n1", gpus=4)
        await found.create(queue("team"), *gang("g", 2, 2))
        await found.schedule()
        await running(found, "g-0", "g-1")
        await found.client.delete(await found.pod("g-1"), grace_period=0)
        await found.schedule()
        made = await found.group("g")
        assert Time(made.metadata.annotations[names.STALE_ANNOTATION])
        await found.schedule()
        assert "Normal StaleJob Job is stale. 1 pods are active, minMember is 2" in found.log.about("g")
        assert not (await found.pod("g-0")).metadata.is_deleting
        await found.cluster.clock.sleep(61)
        await found.schedule()
        assert (await found.pod("g-0")).metadata.is_deleting


async def test_a_gang_that_is_whole_again_is_not_stale() -> None:
    async with kai() as found:
        await found.add_nodes("n1", gpus=4)
        await found.create(queue("team"), *gang("g", 2, 2))
        await found.schedule()
        await running(found, "g-0", "g-1")
        await found.client.delete(await found.pod("g-1"), grace_period=0)
        await found.schedule()
        assert names.STALE_ANNOTATION in (await found.group("g")).metadata.annotations
        await found.create(pod("g-1", "g"))
        await found.schedule()
        await found.schedule()
        assert names.STALE_ANNOTATION not in (await found.group("g")).metadata.annotations


async def test_a_bind_that_fails_is_tried_again_later() -> None:
    async with kai(refusing_bindings(1)) as found:
        await found.add_nodes("n1")
        await found.create(queue("team"), *gang("g", 1, 1))
        await found.schedule()
        (request,) = await found.requests()
        assert (request.status.phase, request.status.failed_attempts) == ("Failed", 1)
        assert "no room in the inn" in request.status.reason
        stored = await found.pod("g-0")
        told = condition(stored, "PodBound")
        assert (told.status, told.reason) == ("False", "BindingError")
        assert told.message.startswith("Failed to bind pod default/g-0 to node n1: ")
        assert names.RECEIVED_TYPE_ANNOTATION not in stored.metadata.annotations
        assert any(text.startswith("Warning BindingError") for text in found.log.about("g-0"))
        await found.cluster.clock.sleep(3)
        await found.settle()
        assert await nodes_of(found, "g-0") == ["n1"]
        (request,) = await found.requests()
        assert (request.status.phase, request.status.reason) == ("Succeeded", "")
        assert condition(await found.pod("g-0"), "PodBound").status == "True"


async def test_a_bind_without_attempts_left_is_given_up_and_decided_anew() -> None:
    async with kai(refusing_bindings(1), bind_backoff_limit=1) as found:
        await found.add_nodes("n1")
        await found.create(queue("team"), *gang("g", 1, 1))
        await found.schedule()
        (first,) = await found.requests()
        assert first.status.phase == "Failed"
        await found.schedule()
        (second,) = await found.requests()
        assert second.metadata.uid != first.metadata.uid
        assert await nodes_of(found, "g-0") == ["n1"]


async def test_requests_for_a_node_that_is_gone_are_dropped() -> None:
    async with kai(refusing_bindings(1)) as found:
        await found.add_nodes("n1", "n2", gpus=1)
        await found.create(queue("team"), *gang("g", 1, 1))
        await found.schedule()
        (first,) = await found.requests()
        await found.client.delete(Node, first.spec.selected_node)
        await found.schedule()
        (second,) = await found.requests()
        assert second.spec.selected_node != first.spec.selected_node


async def test_a_request_left_of_an_earlier_pod_makes_way() -> None:
    async with kai() as found:
        await found.add_nodes("n1", gpus=1)
        await found.create(queue("team"), *gang("g", 1, 1))
        await found.schedule()
        (first,) = await found.requests()
        await found.client.delete(await found.pod("g-0"), grace_period=0)
        await found.create(pod("g-0", "g"))  # before anybody collects the request
        await found.schedule()
        (second,) = await found.requests()
        assert second.metadata.uid != first.metadata.uid
        assert await nodes_of(found, "g-0") == ["n1"]


async def test_a_bind_request_that_cannot_be_created_is_told() -> None:
    async with kai() as found:
        await found.add_nodes("n1")
        await found.create(queue("team"), *gang("g", 1, 1))
        await found.settle()
        stored = await found.pod("g-0")
        taken = {"name": "g-0", "uid": stored.metadata.uid, "apiVersion": "v1", "kind": "Pod"}
        other = {
            "apiVersion": "scheduling.run.ai/v1alpha2",
            "kind": "BindRequest",
            "metadata": {"name": "g-0", "namespace": NS, "ownerReferences": [taken]},
            "spec": {"podName": "g-0", "selectedNode": "elsewhere"},
        }
        informer = found.manager.cache.informer(BindRequest)
        seen = informer.statistics().objects
        await found.client.create(DynamicObject(other))
        assert informer.statistics().objects == seen  # the cycle does not know of it
        await found.cycle.run_once()
        assert any(
            text.startswith("Warning FailedBinding Failed to bind pod default/g-0 to node n1. ")
            for text in found.log.about("g-0")
        )
        told = condition(await found.pod("g-0"), "PodScheduled")
        assert (told.status, told.reason) == ("False", "BindingError")


@pytest.mark.parametrize("seed", range(4))
async def test_a_storm_of_faults_ends_well(seed: int) -> None:
    async with kai(plan=FaultPlan.storm(seed)) as found:
        await found.add_nodes("n1", "n2", gpus=2)
        await found.create(queue("team"), *gang("a", 2, 2), *gang("b", 2, 2), *gang("big", 5, 5))
        metrics = metrics_of(found.cluster.manager())
        ticker = Ticker(found.cycle.run_once, 1.0, clock=LoopClock(), metrics=metrics)
        found.manager.add(ticker)
        await found.cluster.clock.sleep(120)
        placed = await nodes_of(found, "a-0", "a-1", "b-0", "b-1")
        assert sorted(placed) == ["n1", "n1", "n2", "n2"]
        assert await nodes_of(found, *(f"big-{n}" for n in range(5))) == [""] * 5
        requests = await found.requests()
        assert sorted(each.metadata.name for each in requests) == ["a-0", "a-1", "b-0", "b-1"]


class TestRest:
    """A cluster that does not change is not decided again and again."""

    async def test_the_last_result_holds_as_long_as_nothing_changes(self) -> None:
        async with kai() as found:
            await found.add_nodes("n1", gpus=1)
            await found.create(queue("team"), group("g", 2), pod("g-0", "g"), pod("g-1", "g"))
            await found.schedule()  # tells that it does not fit, which changes the group
            await found.settle()
            first = await found.cycle.run_once()
            assert await found.cycle.run_once() is first
            await found.add_nodes("n2", gpus=1)
            await found.settle()
            assert await found.cycle.run_once() is not first
            await found.settle()
            assert sorted(await nodes_of(found, "g-0", "g-1")) == ["n1", "n2"]

    async def test_it_is_looked_at_from_time_to_time_all_the_same(self) -> None:
        async with kai() as found:
            await found.settle()
            first = await found.cycle.run_once()
            assert await found.cycle.run_once() is first
            await found.cluster.clock.sleep(61)
            assert await found.cycle.run_once() is not first

    async def test_who_is_protected_for_a_while_is_looked_at_every_time(self) -> None:
        async with kai(default_preempt_min_runtime=5.0) as found:
            await found.settle()
            first = await found.cycle.run_once()
            assert await found.cycle.run_once() is not first
