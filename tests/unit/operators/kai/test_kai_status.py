"""Statuses of groups and queues follow their pods."""

from __future__ import annotations

from quarterdeck.api import UNSET
from quarterdeck.client import MergePatch

from .kaikit import group, kai, pod, queue


def shown(amounts: object) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}  # type: ignore[attr-defined]


async def test_a_group_shows_what_its_pods_ask_for_and_have() -> None:
    async with kai() as found:
        await found.create(queue("team"), group("g", 2))
        await found.create(pod("a", "g"), pod("b", "g"), pod("c", "g"), pod("alien", "h"))
        await found.settle()
        status = (await found.group("g")).status
        assert (status.phase, status.pending, status.running) == ("Pending", 3, UNSET)
        assert shown(status.resources_status.requested) == {
            "cpu": "3",
            "memory": "3Gi",
            "nvidia.com/gpu": "3",
        }
        assert not status.resources_status.allocated
        await found.set_phase("a", "Running")
        await found.set_phase("b", "Succeeded")
        await found.settle()
        status = (await found.group("g")).status
        assert (status.phase, status.pending, status.running, status.succeeded) == ("Running", 1, 1, 1)
        assert shown(status.resources_status.requested)["nvidia.com/gpu"] == "2"
        assert shown(status.resources_status.allocated) == {
            "cpu": "1",
            "memory": "1Gi",
            "nvidia.com/gpu": "1",
        }
        assert not status.resources_status.allocated_non_preemptible


async def test_what_cannot_be_evicted_is_shown_apart() -> None:
    async with kai() as found:
        await found.create(queue("team"), group("g", preemptibility="non-preemptible"), pod("a", "g"))
        await found.set_phase("a", "Running")
        await found.settle()
        status = (await found.group("g")).status.resources_status
        assert status.allocated_non_preemptible == status.allocated
        made = await found.group("g")
        await found.client.patch(made, MergePatch({"spec": {"preemptibility": "preemptible"}}))
        await found.settle()
        assert not (await found.group("g")).status.resources_status.allocated_non_preemptible
        assert shown((await found.queue("team")).status.allocated)["nvidia.com/gpu"] == "1"
        assert not (await found.queue("team")).status.allocated_non_preemptible


async def test_sums_go_up_the_tree_of_queues() -> None:
    async with kai() as found:
        await found.create(queue("top"), queue("left", "top"), queue("right", "top"))
        await found.create(group("l", queue="left"), group("r", queue="right"))
        await found.create(pod("l-0", "l"), pod("r-0", "r", gpu=2))
        await found.set_phase("r-0", "Running")
        await found.settle()
        top = (await found.queue("top")).status
        assert list(top.child_queues) == ["left", "right"]
        assert shown(top.requested)["nvidia.com/gpu"] == "3"
        assert shown(top.allocated)["nvidia.com/gpu"] == "2"
        assert shown((await found.queue("left")).status.requested)["nvidia.com/gpu"] == "1"


async def test_a_queue_that_moves_or_goes_takes_its_sums_along() -> None:
    async with kai() as found:
        await found.create(queue("one"), queue("two"), queue("team", "one"), group("g"), pod("a", "g"))
        await found.settle()
        assert shown((await found.queue("one")).status.requested)["nvidia.com/gpu"] == "1"
        await found.client.patch(await found.queue("team"), MergePatch({"spec": {"parentQueue": "two"}}))
        await found.settle()
        one, two = (await found.queue("one")).status, (await found.queue("two")).status
        assert not one.child_queues
        assert not one.requested
        assert list(two.child_queues) == ["team"]
        assert shown(two.requested)["nvidia.com/gpu"] == "1"
        await found.client.delete(await found.queue("team"))
        await found.settle()
        assert not (await found.queue("two")).status.requested


async def test_a_group_that_changes_its_queue_counts_there() -> None:
    async with kai() as found:
        await found.create(queue("one"), queue("two"), group("g", queue="one"), pod("a", "g"))
        await found.settle()
        await found.client.patch(await found.group("g"), MergePatch({"spec": {"queue": "two"}}))
        await found.settle()
        assert not (await found.queue("one")).status.requested
        assert shown((await found.queue("two")).status.requested)["nvidia.com/gpu"] == "1"


async def test_a_pod_that_goes_is_not_counted_any_more() -> None:
    async with kai() as found:
        await found.create(queue("team"), group("g"), pod("a", "g"), pod("b", "g"))
        await found.settle()
        await found.client.delete(await found.pod("a"), grace_period=0)
        await found.settle()
        assert (await found.group("g")).status.pending == 1


async def test_statuses_are_written_once() -> None:
    async with kai() as found:
        await found.create(queue("team"), group("g"), pod("a", "g"))
        await found.settle()
        before = (await found.group("g")).metadata.resource_version
        queued = (await found.queue("team")).metadata.resource_version
        stored = await found.pod("a")
        await found.client.patch(stored, MergePatch({"metadata": {"labels": {"x": "y"}}}))
        await found.settle()
        assert (await found.group("g")).metadata.resource_version == before
        assert (await found.queue("team")).metadata.resource_version == queued
