"""A replica that does not lead serves webhooks with the same backends, and writes nothing at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import ConfigMap
from quarterdeck.errors import NotFound, ignore_not_found
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.assembly import GroveOperator
from quarterdeck.operators.grove.backends import Backend, BackendRegistry
from quarterdeck.operators.grove.configwatch import ConfigurationWatch
from quarterdeck.operators.grove.controllers import StartError
from quarterdeck.operators.grove.types import ClusterTopologyBinding, ClusterTopologySpec, PodGang
from quarterdeck.runtime.operator import OperatorEnvironment, OperatorWebhooks
from quarterdeck.testing import EventLog, Link, TestCluster

from .grovekit import NS, light_definitions

TOPOLOGY = {"topologyAwareScheduling": {"enabled": True, "levels": [{"domain": "rack", "key": "r"}]}}


class Election:
    """Won when the test says so."""

    def __init__(self) -> None:
        self.won = asyncio.Event()

    async def run(
        self, started: Callable[[], Awaitable[None]], stopped: Callable[[], Awaitable[None]]
    ) -> None:
        await self.won.wait()
        await started()
        await asyncio.Event().wait()

    def may_write(self) -> bool:
        return self.won.is_set()


class Settling(Backend):
    """Makes an object for all when it starts."""

    async def init(self) -> None:
        wanted = ConfigMap(metadata=ObjectMeta(name="settling", namespace=NS))
        await self.client.apply(wanted, field_manager="settling")


class Broken(Backend):
    def init(self) -> None:
        raise RuntimeError("no license")


class Replica:
    def __init__(self, link: Link, events: EventLog, webhooks: OperatorWebhooks, election: Election) -> None:
        self.link, self.events, self.webhooks, self.election = link, events, webhooks, election

    def problem(self) -> str | None:
        """Why it is not ready."""
        return self.webhooks.checks["scheduler-backend"]()  # type: ignore[return-value]

    @property
    def writes(self) -> list[str]:
        """What it changed, or told."""
        sent = [str(each) for each in self.link.log if each.is_write and each.query.get("dryRun") != "All"]
        return [*sent, *(each.reason for each in self.events.events)]


@asynccontextmanager
async def replica(
    cluster: TestCluster, settings: dict[str, Any] | None = None, watch: ConfigurationWatch | None = None
) -> AsyncIterator[Replica]:
    registry = BackendRegistry(find=tuple)
    registry.register("settling", Settling)
    registry.register("broken", Broken)
    link, events, election = cluster.link(name="replica"), EventLog(), Election()
    manager = cluster.manager(link=link, recorder=events, elector=election)
    operator = GroveOperator(registry, {}, watch)
    webhooks = operator.setup(
        manager, OperatorEnvironment(name="grove", settings=settings or {}, namespace=NS)
    )
    async with cluster.serving(manager):
        await asyncio.sleep(5)
        yield Replica(link, events, webhooks, election)


async def status(cluster: TestCluster) -> dict[str, str]:
    found = ConfigMap()
    with ignore_not_found():
        found = await cluster.client.get(ConfigMap, names.STATUS_CONFIG_MAP, NS)
    return dict(found.data)


@pytest.mark.parametrize("settings", [{}, TOPOLOGY, {"schedulerName": "settling"}], ids=str)
async def test_a_standby_is_ready_and_writes_nothing_until_it_leads(settings: dict[str, Any]) -> None:
    async with TestCluster(crds=light_definitions()) as cluster:
        labels = {names.MANAGED_BY: names.OPERATOR, names.SCHEDULER_NAME: "nobody"}
        await cluster.client.create(PodGang(metadata=ObjectMeta(name="g", namespace=NS, labels=labels)))
        topology = ClusterTopologyBinding(
            metadata=ObjectMeta(name=names.DEFAULT_TOPOLOGY, labels={names.MANAGED_BY: names.OPERATOR}),
            spec=ClusterTopologySpec(),
        )
        await cluster.client.create(topology)
        async with replica(cluster, settings) as standby:
            await asyncio.sleep(100)
            assert standby.problem() is None
            assert standby.writes == []
            standby.election.won.set()
            await asyncio.sleep(5)
            active = settings.get("schedulerName", "default-scheduler")
            assert (await status(cluster))["activeBackend"] == active
            assert "BackendInitialized" in standby.writes
            if active == "settling":
                await cluster.client.get(ConfigMap, "settling", NS)
            if settings is TOPOLOGY:
                found = await cluster.client.get(ClusterTopologyBinding, names.DEFAULT_TOPOLOGY)
                assert found.spec.levels
            else:
                with pytest.raises(NotFound):
                    await cluster.client.get(ClusterTopologyBinding, names.DEFAULT_TOPOLOGY)


async def test_a_standby_whose_backend_does_not_start_says_so_and_ends_only_when_it_leads() -> None:
    async def live(cluster: TestCluster) -> None:
        async with replica(cluster, {"schedulerName": "broken"}) as standby:
            await asyncio.sleep(100)
            assert "no license" in str(standby.problem())
            assert standby.writes == []
            assert await status(cluster) == {}
            standby.election.won.set()
            await asyncio.sleep(100)

    async with TestCluster(crds=light_definitions()) as cluster:
        with pytest.raises(StartError, match="no license"):
            await live(cluster)
        assert "BackendInitializationFailed" in (await status(cluster))["conditions"]


async def test_a_standby_follows_its_file_in_silence(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("{}")
    registry = BackendRegistry(find=tuple)
    registry.register("settling", Settling)
    async with (
        TestCluster(crds=light_definitions()) as cluster,
        replica(cluster, watch=ConfigurationWatch(file, registry)) as standby,
    ):
        file.write_text("schedulerName: settling")
        await asyncio.sleep(10)
        assert standby.writes == []
        standby.election.won.set()
        await asyncio.sleep(5)
        assert (await status(cluster))["activeBackend"] == "settling"
        await cluster.client.get(ConfigMap, "settling", NS)


async def test_what_the_leader_before_has_left_is_known_to_the_next_one() -> None:
    """The options of a backend that is drained: read when it leads, not when it started."""
    async with TestCluster(crds=light_definitions()) as cluster, replica(cluster) as standby:
        metadata = ObjectMeta(name=names.STATUS_CONFIG_MAP, namespace=NS)
        data = {"activeBackend": "settling", "backendOptions": '{"settling":{"a":1}}'}
        await cluster.client.create(ConfigMap(metadata=metadata, data=data))
        labels = {names.MANAGED_BY: names.OPERATOR, names.SCHEDULER_NAME: "settling"}
        await cluster.client.create(PodGang(metadata=ObjectMeta(name="g", namespace=NS, labels=labels)))
        standby.election.won.set()
        await asyncio.sleep(5)
        assert (await status(cluster))["backendOptions"] == '{"settling":{"a":1}}'
        assert "BackendSwitched" in standby.writes


async def test_a_topology_of_somebody_else_is_left_alone() -> None:
    async def lead(cluster: TestCluster, settings: dict[str, Any]) -> None:
        async with replica(cluster, settings) as leader:
            leader.election.won.set()
            await asyncio.sleep(5)

    async with TestCluster(crds=light_definitions()) as cluster:
        metadata = ObjectMeta(name=names.DEFAULT_TOPOLOGY)
        made = ClusterTopologyBinding(metadata=metadata, spec=ClusterTopologySpec())
        theirs = await cluster.client.create(made)
        await lead(cluster, {})
        with pytest.raises(StartError, match="is not ours"):
            await lead(cluster, TOPOLOGY)
        assert await cluster.client.get(ClusterTopologyBinding, names.DEFAULT_TOPOLOGY) == theirs
