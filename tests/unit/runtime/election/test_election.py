"""Leader election on the embedded server: who leads, what the Lease says, and when writing ends."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from quarterdeck.api import ObjectMeta, value_or
from quarterdeck.api.instant import MicroTime
from quarterdeck.api.k8s import ConfigMap, Lease
from quarterdeck.apiserver import ApiServer
from quarterdeck.client import Client, Config
from quarterdeck.errors import ConfigError, NotFound
from quarterdeck.runtime.contract import NoRecorder
from quarterdeck.runtime.election import (
    LeaderElection,
    LeaderElector,
    LeaseOverdue,
    find_namespace,
    rendezvous,
    shard_of,
)
from quarterdeck.runtime.election.making import make_elector
from quarterdeck.runtime.election.thread import ThreadedElector, ThreadedShardedElector
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.runtime.reconcile.recording import NotLeading, recording_client
from quarterdeck.testing import Link, Refuse
from tests.unit.runtime.servicekit import client_of, embedded, link_to

pytestmark = pytest.mark.virtual_time
NAMESPACE = "kube-system"


def options(identity: str, **changes: Any) -> LeaderElection:
    return LeaderElection(name="gangs", namespace=NAMESPACE, identity=identity, **changes)


def candidate(link: Link, identity: str, **changes: Any) -> LeaderElector:
    return LeaderElector(
        link.client, options(identity), clock=LoopClock(), rng=random.Random(identity), **changes
    )


async def lease_of(server: ApiServer) -> Lease:
    return await client_of(server).get(Lease, "gangs", NAMESPACE)


def now() -> float:
    return asyncio.get_running_loop().time()


class Nobody:
    def written(self, call: Any, response: Any) -> None:
        pass


async def test_the_other_leads_within_lease_and_retry_and_the_first_writes_nothing_after_its_deadline() -> (
    None
):
    async with embedded() as server:
        link = link_to(server)
        first, second = candidate(link, "first"), candidate(link_to(server), "second")
        writer = recording_client(link.client, Nobody(), may_write=first.may_write)
        landed: list[float] = []
        refused: list[float] = []

        async def write_for_ever() -> None:
            """A reconciler that notices nothing; its own connection still works."""
            healthy = recording_client(client_of(server), Nobody(), may_write=first.may_write)
            for index in range(10_000):
                made = ConfigMap(metadata=ObjectMeta(name=f"c-{index}", namespace=NAMESPACE))
                try:
                    await healthy.create(made)
                    landed.append(now())
                except NotLeading:
                    refused.append(now())
                await asyncio.sleep(0.25)

        await first.acquire()
        assert first.is_leader
        assert first.may_write()
        renewing = asyncio.create_task(first.renew())
        writing = asyncio.create_task(write_for_ever())
        campaign = asyncio.create_task(second.acquire())
        await asyncio.sleep(30)
        assert not campaign.done()
        link.cut(silently=True)
        cut_at = now()
        last_renewal = max(each.at for each in link.log if each.status)
        await campaign
        taken_at = now()
        assert taken_at - cut_at <= 15 + 2 * (1 + 1.2)
        assert max(landed) <= last_renewal + 10, "a write landed after the renew deadline"
        assert max(landed) < taken_at
        assert min(refused) > last_renewal
        await renewing
        assert not first.is_leader
        with pytest.raises(NotLeading):
            await writer.create(ConfigMap(metadata=ObjectMeta(name="late", namespace=NAMESPACE)))
        writing.cancel()
        await asyncio.wait([writing])
        lease = await lease_of(server)
        assert lease.spec.holder_identity == "second"
        assert lease.spec.lease_transitions == 1


async def test_lease_record_after_acquire_renew_and_release() -> None:
    async with embedded() as server:
        elector = candidate(link_to(server), "first")
        started = MicroTime.of_timestamp(LoopClock().time())
        await elector.acquire()
        acquired = (await lease_of(server)).spec
        assert acquired.holder_identity == "first"
        assert acquired.lease_duration_seconds == 15
        assert acquired.lease_transitions == 0
        assert acquired.acquire_time == acquired.renew_time == started
        text = str((await lease_of(server)).to_dict()["spec"]["renewTime"])
        assert text.endswith("Z")
        assert len(text.split(".")[1]) == 7, "micro-time has six digits"

        renewing = asyncio.create_task(elector.renew())
        await asyncio.sleep(7)
        renewed = (await lease_of(server)).spec
        assert renewed.acquire_time == started
        assert value_or(renewed.renew_time, started) > started
        assert renewed.lease_transitions == 0

        renewing.cancel()
        await asyncio.wait([renewing])
        assert await elector.release()
        released = (await lease_of(server)).spec
        assert value_or(released.holder_identity, "") == ""
        assert released.lease_duration_seconds == 1
        assert released.lease_transitions == 0
        assert released.acquire_time == released.renew_time

        second = candidate(link_to(server), "second")
        before = now()
        await second.acquire()
        assert now() - before < 2, "a released lease is free at once"
        taken = (await lease_of(server)).spec
        assert taken.holder_identity == "second"
        assert taken.lease_transitions == 1


async def test_renewing_costs_one_request_each() -> None:
    async with embedded() as server:
        link = link_to(server)
        elector = candidate(link, "first")
        await elector.acquire()
        link.log.clear()
        renewing = asyncio.create_task(elector.renew())
        await asyncio.sleep(21)
        renewing.cancel()
        await asyncio.wait([renewing])
        assert {each.verb for each in link.log} == {"update"}
        assert len(link.log) == 11
        gaps = [b.at - a.at for a, b in zip(link.log, link.log[1:], strict=False)]
        assert gaps == pytest.approx([2.0] * len(gaps))


async def test_a_foreign_change_sends_the_leader_through_the_slow_path_and_it_keeps_leading() -> None:
    async with embedded() as server:
        metrics = RuntimeMetrics()
        elector = candidate(link_to(server), "first", metrics=metrics.election("gangs"))
        await elector.acquire()
        assert metrics.registry.value("leader_election_master_status", "gangs") == 1
        lease = await lease_of(server)
        labelled = lease.evolve(metadata=lease.metadata.evolve(labels={"touched": "yes"}))
        await client_of(server).update(labelled)
        renewing = asyncio.create_task(elector.renew())
        await asyncio.sleep(1)
        assert metrics.registry.value("leader_election_slowpath_total", "gangs") == 1
        kept = await lease_of(server)
        assert kept.metadata.labels == {"touched": "yes"}
        assert kept.spec.holder_identity == "first"
        renewing.cancel()
        await asyncio.wait([renewing])
        assert metrics.registry.value("leader_election_master_status", "gangs") == 0


async def test_a_leader_that_counts_nothing_survives_a_foreign_change_as_well() -> None:
    async with embedded() as server:
        elector = candidate(link_to(server), "first")
        await elector.acquire()
        lease = await lease_of(server)
        await client_of(server).update(
            lease.evolve(metadata=lease.metadata.evolve(labels={"touched": "yes"}))
        )
        renewing = asyncio.create_task(elector.renew())
        await asyncio.sleep(5)
        assert not renewing.done()
        assert (await lease_of(server)).spec.holder_identity == "first"
        renewing.cancel()
        await asyncio.wait([renewing])


async def test_taking_over_from_another_is_not_the_slow_path_of_a_leader() -> None:
    async with embedded() as server:
        await candidate(link_to(server), "first").acquire()  # and is never heard of again
        metrics = RuntimeMetrics()
        await candidate(link_to(server), "second", metrics=metrics.election("gangs")).acquire()
        assert (await lease_of(server)).spec.holder_identity == "second"
        assert not metrics.registry.value("leader_election_slowpath_total", "gangs")


@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted", "restored"])
async def test_a_lease_that_no_longer_tells_of_its_holder_is_not_free_yet(is_deleted: bool) -> None:
    """Its holder does not know yet, and goes on; a backup may be from before it was won."""
    async with embedded() as server:
        client = client_of(server)
        first, second = (candidate(link_to(server), name) for name in ("first", "second"))
        await second.acquire()
        await second.release()
        before = await lease_of(server)
        await asyncio.sleep(1)
        await first.acquire()
        assert not await second.try_acquire_or_renew()
        if is_deleted:
            await client.delete(await lease_of(server))
        else:
            lease = await lease_of(server)
            await client.update(lease.evolve(spec=before.spec))
        assert first.may_write()
        assert not await second.try_acquire_or_renew()
        assert await first.try_acquire_or_renew()
        assert (await lease_of(server)).spec.holder_identity == "first"


async def test_remote_dates_do_not_matter_only_change_does() -> None:
    """A record renewed in the far past by its date, but seen just now, is valid for its whole duration."""
    async with embedded() as server:
        client = client_of(server)
        holder = options("ghost")
        old = MicroTime("2001-01-01T00:00:00.000000Z")
        ghost = LeaderElector(client, holder, clock=LoopClock())
        await ghost.acquire()
        lease = await lease_of(server)
        await client.update(lease.evolve(spec=lease.spec.evolve(renew_time=old, acquire_time=old)))
        elector = candidate(link_to(server), "second")
        before = now()
        await elector.acquire()
        assert 15 <= now() - before <= 15 + 2 * 2.2


async def test_attempts_are_jittered_between_one_and_two_point_two_retry_periods() -> None:
    async with embedded() as server:
        leader = candidate(link_to(server), "first")
        await leader.acquire()
        renewing = asyncio.create_task(leader.renew())
        link = link_to(server)
        campaign = asyncio.create_task(candidate(link, "second").acquire())
        await asyncio.sleep(300)
        for task in (campaign, renewing):
            task.cancel()
            await asyncio.wait([task])
        gaps = [b.at - a.at for a, b in zip(link.log, link.log[1:], strict=False)]
        assert min(gaps) >= 2.0
        assert max(gaps) <= 2.0 * 2.2
        assert max(gaps) - min(gaps) > 0.5


async def test_a_conflict_while_taking_over_is_a_lost_try() -> None:
    async with embedded() as server:
        one, two = candidate(link_to(server), "one"), candidate(link_to(server), "two")
        results = await asyncio.gather(one.try_acquire_or_renew(), two.try_acquire_or_renew())
        assert sorted(results) == [False, True]


async def test_the_fence_closes_although_nobody_renews_or_notices() -> None:
    async with embedded() as server:
        elector = candidate(link_to(server), "first")
        assert not elector.may_write()
        await elector.acquire()
        await asyncio.sleep(10)
        assert elector.may_write()
        await asyncio.sleep(0.1)
        assert not elector.may_write()
        elector.check()
        await asyncio.sleep(15)
        with pytest.raises(LeaseOverdue):
            elector.check()


async def test_losing_and_winning_is_told() -> None:
    async with embedded() as server:
        told: list[tuple[str, str]] = []
        link = link_to(server)
        elector = candidate(link, "first", tell=lambda lease, note: told.append((lease.metadata.name, note)))
        await elector.acquire()
        link.cut()
        before = now()
        await elector.renew()
        assert now() - before == pytest.approx(10, abs=0.1)
        assert told == [("gangs", "first became leader"), ("gangs", "first stopped leading")]
        assert not await elector.release(), "what was lost is not released while the server cannot be reached"


async def test_a_leader_that_cannot_renew_tries_every_two_seconds_until_its_deadline() -> None:
    async with embedded() as server:
        link = link_to(server)
        elector = candidate(link, "first")
        await elector.acquire()
        link.plan.add(Refuse(500, verbs=frozenset({"update", "get"})))
        link.log.clear()
        started = now()
        await elector.renew()
        assert now() - started == pytest.approx(10, abs=0.1)
        tries = sorted({round(each.at - started, 1) for each in link.log})
        assert tries[:5] == [0, 2, 4, 6, 8]


async def test_a_lease_that_cannot_be_given_back_is_left_to_expire() -> None:
    async with embedded() as server:
        link = link_to(server)
        elector = candidate(link, "first")
        await elector.acquire()
        link.plan.add(Refuse(500, verbs=frozenset({"get"}), times=1))
        assert not await elector.release()
        assert (await lease_of(server)).spec.holder_identity == "first"
        link.plan.add(Refuse(409, verbs=frozenset({"update"}), times=2))
        assert await elector.release(), "conflicts are tried again"
        assert not await elector.release(), "it is nobody's by now"


async def test_a_candidate_that_never_tried_releases_nothing() -> None:
    async with embedded() as server:
        link = link_to(server)
        assert not await candidate(link, "first").release()
        assert link.log == []
        with pytest.raises(NotFound):
            await lease_of(server)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": ""}, "LeaderElectionID must be configured"),
        ({"lease_duration": 10.0}, "leaseDuration must be greater than renewDeadline"),
        ({"renew_deadline": 2.4}, "renewDeadline must be greater than retryPeriod"),
        ({"retry_period": 0.5}, "at least one second"),
    ],
)
async def test_impossible_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    settings = LeaderElection(**{"name": "gangs", "namespace": "a", **changes})
    with pytest.raises(ConfigError, match=message):
        settings.checked()


async def test_outside_of_a_cluster_the_namespace_must_be_given(tmp_path: Any) -> None:
    with pytest.raises(ConfigError, match="unable to find leader election namespace: not running in-cluster"):
        find_namespace(tmp_path)
    (tmp_path / "namespace").write_text("gang-system\n")
    assert find_namespace(tmp_path) == "gang-system"


async def test_identities_are_host_and_uuid_and_never_the_same() -> None:
    made = {LeaderElection(name="a", namespace="b").checked().identity for _ in range(3)}
    assert len(made) == 3
    assert all("_" in identity for identity in made)


async def test_keys_spread_evenly_and_move_little_when_shards_are_added() -> None:
    keys = [f"team-{i % 7}/job-{i}" for i in range(4000)]
    before = [shard_of(key, 4) for key in keys]
    after = [shard_of(key, 5) for key in keys]
    sizes = [before.count(shard) for shard in range(4)]
    assert min(sizes) > 850
    moved = sum(a != b for a, b in zip(before, after, strict=True))
    assert moved == after.count(4), "only keys of the new shard move"
    assert rendezvous("x", ["b", "a"]) == rendezvous("x", ["a", "b"])


async def test_shards_are_shared_between_replicas_and_taken_over_from_a_dead_one() -> None:
    from quarterdeck.runtime.election import ShardedElector

    async with embedded() as server:
        leading: dict[int, str] = {}
        links = {name: link_to(server) for name in ("a", "b", "c")}

        def start(name: str) -> tuple[ShardedElector, asyncio.Task[None]]:
            client: Client = links[name].client
            elector = ShardedElector(
                client, options(name, shards=8), clock=LoopClock(), rng=random.Random(name)
            )

            async def won(shard: int) -> None:
                assert shard not in leading, "two leaders of one shard"
                leading[shard] = name

            async def lost(shard: int) -> None:
                assert leading.pop(shard) == name

            return elector, asyncio.create_task(elector.run(won, lost))

        runs = {name: start(name) for name in links}
        await asyncio.sleep(60)
        held = {name: elector.held for name, (elector, _) in runs.items()}
        assert sorted(shard for shards in held.values() for shard in shards) == list(range(8))
        assert all(held.values()), f"one replica has nothing to do: {held}"
        key = "team/job"
        assert [name for name, (elector, _) in runs.items() if elector.owns(key)] == [
            leading[shard_of(key, 8)]
        ]

        links["b"].cut()
        await asyncio.sleep(60)
        survivors = {name: runs[name][0].held for name in ("a", "c")}
        assert sorted(shard for shards in survivors.values() for shard in shards) == list(range(8))
        assert set(held["a"]) <= set(survivors["a"]), "shards of living replicas stay where they are"
        assert set(held["c"]) <= set(survivors["c"])

        for _, task in runs.values():
            task.cancel()
            await asyncio.wait([task])
        assert leading == {}


async def test_shards_that_were_given_to_a_newcomer_come_back_when_it_is_gone() -> None:
    from quarterdeck.runtime.election import ShardedElector

    async with embedded() as server:
        links = {name: link_to(server) for name in ("a", "b")}

        async def told(shard: int) -> None:
            pass

        def start(name: str) -> tuple[ShardedElector, asyncio.Task[None]]:
            elector = ShardedElector(
                links[name].client, options(name, shards=8), clock=LoopClock(), rng=random.Random(name)
            )
            return elector, asyncio.create_task(elector.run(told, told))

        first, running = start("a")
        await asyncio.sleep(60)
        assert len(first.held) == 8
        second, other = start("b")
        await asyncio.sleep(120)
        assert 0 < len(first.held) < 8
        assert len(first.held) + len(second.held) == 8
        links["b"].cut()
        await asyncio.sleep(120)
        assert len(first.held) == 8
        for task in (running, other):
            task.cancel()
            await asyncio.wait([task])


@pytest.mark.parametrize(("shards", "kind"), [(1, ThreadedElector), (2, ThreadedShardedElector)])
def test_keys_are_shared_among_replicas_from_two_shards_on(shards: int, kind: type[object]) -> None:
    options = LeaderElection(name="crew", namespace=NAMESPACE, identity="a", shards=shards)
    config = Config(server="https://127.0.0.1")
    made = make_elector(options, config, recorder=NoRecorder(), metrics=None, rng=random.Random(1))
    assert type(made) is kind
