"""Backends that are not there, do not start, or fail: gangs are told, wait, and can still go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from quarterdeck.api import ObjectMeta, Scheme
from quarterdeck.api.k8s import Pod
from quarterdeck.client import Client
from quarterdeck.errors import NotFound
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.backends import Backend, BackendRegistry, HookContext
from quarterdeck.operators.grove.types import GangGroup, PodCliqueSet, PodGang, PodGangSpec
from quarterdeck.runtime.contract import Recorder
from quarterdeck.testing import TestCluster
from tests.harness.grove.guard import make_shared

from .grovekit import NS, Grove, clique, light_definitions, pcs, running


class Failing(Backend):
    """Fails where its registry says."""

    def __init__(self, *arguments: Any, fail: Callable[[str], None]) -> None:
        super().__init__(*arguments)
        self.fail = fail

    def init(self) -> None:
        self.fail("init")

    async def sync_pod_gang(self, ctx: HookContext, pod_gang: PodGang) -> None:
        self.fail("sync")

    async def on_pod_gang_delete(self, ctx: HookContext, pod_gang: PodGang) -> None:
        self.fail("delete")

    def prepare_pod(self, pod: Any) -> None:
        super().prepare_pod(pod)
        self.fail("prepare")

    async def on_pod_gang_status(self, ctx: HookContext, pod_gang: PodGang) -> None:
        self.fail("status")


class Troubles:
    """A registry with one backend, and what fails in it."""

    def __init__(self) -> None:
        self.present: dict[str, BaseException] = {}
        self.calls: list[str] = []
        self.registry = BackendRegistry(find=tuple)

        def build(
            client: Client, scheme: Scheme, recorder: Recorder, scheduler_name: str, config: Mapping[str, Any]
        ) -> Failing:
            return Failing(client, scheme, recorder, scheduler_name, config, fail=self._fail)

        self.registry.register("failing", build)

    def _fail(self, where: str) -> None:
        self.calls.append(where)
        if where in self.present:
            raise self.present[where]


def made_gang(scheduler: str, *finalizers: str) -> PodGang:
    labels = {names.MANAGED_BY: names.OPERATOR, names.SCHEDULER_NAME: scheduler}
    metadata = ObjectMeta(name="g", namespace=NS, labels=labels, finalizers=finalizers)
    return PodGang(metadata=metadata, spec=PodGangSpec(podgroups=(GangGroup(name="a", min_replicas=1),)))


def fresh(*cliques: Any) -> PodCliqueSet:
    return pcs(*cliques).evolve(metadata=ObjectMeta(name="w", namespace=NS))


def told(grove: Grove) -> list[tuple[str, str]]:
    """The failures that gangs were told about."""
    return [
        (each.regarding.metadata.name, each.note)
        for each in grove.events.events
        if each.reason == "BackendOperationFailed"
    ]


async def test_a_gang_whose_backend_is_not_installed_can_be_deleted_and_is_told() -> None:
    async with running() as grove:
        gang = await grove.client.create(made_gang("gone-scheduler", names.BACKEND_FINALIZER))
        await grove.settle()
        await grove.client.delete(gang)
        await grove.settle()
        with pytest.raises(NotFound):
            await grove.client.get(PodGang, "g", NS)
        name, note = told(grove)[-1]
        assert name == "g"
        assert note.startswith("Backend operation 'OnPodGangDelete' failed for PodGang 'g'")
        assert 'scheduler backend "gone-scheduler" is not registered' in note


async def test_a_gang_waits_for_an_installed_backend_that_does_not_start_and_goes_when_it_does() -> None:
    troubles = Troubles()
    troubles.present["init"] = RuntimeError("no license")
    async with running(registry=troubles.registry) as grove:
        gang = await grove.client.create(made_gang("failing", names.BACKEND_FINALIZER))
        await grove.client.delete(gang)
        await grove.settle()
        assert (await grove.client.get(PodGang, "g", NS)).metadata.is_deleting
        assert "no license" in told(grove)[-1][1]
        troubles.present.clear()
        await asyncio.sleep(60)
        with pytest.raises(NotFound):
            await grove.client.get(PodGang, "g", NS)
        assert troubles.calls[-1] == "delete"


async def test_what_fails_for_a_gang_that_went_unseen_is_tried_again() -> None:
    troubles = Troubles()
    troubles.present["delete"] = RuntimeError("not now")
    async with running({"schedulerName": "failing"}, registry=troubles.registry) as grove:
        await grove.client.create(made_gang("failing"))
        await grove.settle()
        gang = await grove.client.get(PodGang, "g", NS)
        await grove.client.update(gang.evolve(metadata=gang.metadata.evolve(finalizers=())))
        await grove.client.delete(PodGang, "g", NS)
        await asyncio.sleep(5)
        assert troubles.calls.count("delete") > 1
        troubles.present.clear()
        await asyncio.sleep(30)
        count = troubles.calls.count("delete")
        await asyncio.sleep(60)
        assert troubles.calls.count("delete") == count


async def test_a_gang_whose_backend_did_not_start_does_not_count_as_synced() -> None:
    async with TestCluster(crds=light_definitions()) as cluster:
        shared = await make_shared(cluster.client, {}, BackendRegistry(find=tuple))
        assert not shared.is_synced(made_gang("gone-scheduler"))
        assert not shared.is_synced(made_gang("volcano"))  # known, and not at work
        assert shared.is_synced(made_gang("default-scheduler"))


STOP = asyncio.CancelledError()  # of a task that the hook waited for


@pytest.mark.parametrize(
    ("where", "operation", "problem"),
    [
        ("sync", "OnPodGangCreate", RuntimeError("no")),
        ("sync", "OnPodGangCreate", STOP),
        ("delete", "OnPodGangDelete", RuntimeError("no")),
        ("delete", "OnPodGangDelete", STOP),
        ("status", "OnPodGangStatus", RuntimeError("no")),
        ("status", "OnPodGangStatus", STOP),
        ("prepare", "MutatePodSpec", RuntimeError("no")),
    ],
)
async def test_every_failed_operation_is_told_to_the_gang(
    where: str, operation: str, problem: BaseException
) -> None:
    troubles = Troubles()
    troubles.present[where] = problem
    async with running({"schedulerName": "failing"}, registry=troubles.registry) as grove:
        await grove.client.create(fresh(clique("a")))
        await asyncio.sleep(3)
        await grove.client.delete(PodCliqueSet, "w", NS)
        await asyncio.sleep(3)
        assert next((name, note.partition(" failed")[0]) for name, note in told(grove)) == (
            "w-0",
            f"Backend operation '{operation}'",
        )
        troubles.present.clear()
        await asyncio.sleep(60)
        assert not (await grove.client.list(PodGang, namespace=NS)).items


async def test_a_pod_that_cannot_be_prepared_is_made_as_soon_as_it_can() -> None:
    troubles = Troubles()
    troubles.present["prepare"] = RuntimeError("no")
    async with running({"schedulerName": "failing"}, registry=troubles.registry) as grove:
        await grove.client.create(fresh(clique("a")))
        await asyncio.sleep(3)
        assert not (await grove.client.list(Pod, namespace=NS)).items
        troubles.present.clear()
        await asyncio.sleep(30)
        assert len((await grove.client.list(Pod, namespace=NS)).items) == 1
