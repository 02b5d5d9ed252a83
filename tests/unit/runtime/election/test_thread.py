"""The election on a thread of its own, against the embedded server over a real socket, in real time."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from quarterdeck.api.k8s import Lease
from quarterdeck.apiserver import ApiServer, ServerOptions
from quarterdeck.client import Client, Config, MergePatch
from quarterdeck.runtime.election import (
    ElectionFailed,
    LeaderElection,
    ThreadedElector,
    ThreadedShardedElector,
    election_client,
    shard_of,
)
from quarterdeck.runtime.metrics import RuntimeMetrics
from tests.harness.wire import load_kubeconfig
from tests.unit.runtime.servicekit import until

pytestmark = pytest.mark.real_time

OPTIONS = {"lease_duration": 30.0, "renew_deadline": 20.0, "retry_period": 1.0}
SOON_LOST = {"lease_duration": 6.0, "renew_deadline": 4.0, "retry_period": 1.0, "stall_limit": 1.0}


def settings(identity: str, **changes: Any) -> LeaderElection:
    return LeaderElection(
        **{"name": "gangs", "namespace": "kube-system", "identity": identity, **OPTIONS, **changes}
    )


def block_until(holds: Callable[[], bool]) -> None:
    """Block the loop of the caller until something holds: it must come about without that loop."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "it does not come about while the loop is blocked"
        time.sleep(0.02)


class Told:
    def __init__(self) -> None:
        self.notes: list[str] = []

    def event(
        self,
        regarding: Any,
        type: str,
        reason: str,
        action: str,
        note: str,
        *,
        related: Any = None,
        annotations: Any = None,
        field_path: str = "",
        host: str = "",
    ) -> None:
        assert (regarding.kind, type, reason) == ("Lease", "Normal", "LeaderElection")
        self.notes.append(note)


class Run:
    """An elector being run, and what it called."""

    def __init__(self, elector: ThreadedElector) -> None:
        self.elector = elector
        self.calls: list[str] = []
        self.task = asyncio.create_task(elector.run(self._started, self._stopped))

    async def _started(self) -> None:
        self.calls.append("started")

    async def _stopped(self) -> None:
        self.calls.append("stopped")

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


def config_of(server: ApiServer, tmp_path: Path) -> Config:
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(server.kubeconfig()))
    return Config.load(path)


@asynccontextmanager
async def server_process(tmp_path: Path) -> AsyncIterator[Config]:
    """A server in a process of its own: while our loop is blocked, nothing else in this process works."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "quarterdeck.cli", "apiserver", "--port", "0"),
        *("--kubeconfig", str(tmp_path / "kubeconfig")),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    await process.stdout.readline()
    try:
        yield Config.load(tmp_path / "kubeconfig")
    finally:
        process.terminate()
        await process.wait()


def renewals(tmp_path: Path) -> dict[str, str]:
    """When the server last saw each Lease renewed, asked without any loop."""
    connection = load_kubeconfig(tmp_path / "kubeconfig").connect(timeout=60.0)
    try:
        answer = connection.request("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases")
    finally:
        connection.close()
    found = {each["metadata"]["name"]: each["spec"] for each in answer.json()["items"]}
    return {name: spec["renewTime"] for name, spec in found.items() if name.startswith("gangs")}


async def test_a_blocked_main_loop_does_not_cost_the_lease_and_a_stop_gives_it_back(tmp_path: Path) -> None:
    async with server_process(tmp_path) as config, Client.connect(config) as client:
        metrics = RuntimeMetrics()
        told = Told()
        mine = settings("first")
        run = Run(ThreadedElector(mine, election_client(config, mine), recorder=told, metrics=metrics))
        await until(lambda: run.calls == ["started"])
        assert run.elector.may_write()
        before = await client.get(Lease, "gangs", "kube-system")
        block_until(lambda: renewals(tmp_path)["gangs"] != str(before.spec.renew_time))
        after = await client.get(Lease, "gangs", "kube-system")
        assert after.spec.holder_identity == "first"
        assert after.spec.renew_time != before.spec.renew_time
        assert run.elector.may_write()
        assert metrics.registry.value("leader_election_master_status", "gangs") == 1
        await run.stop()
        assert not run.elector.may_write()
        released = await client.get(Lease, "gangs", "kube-system")
        assert not released.spec.holder_identity
        assert run.calls == ["started"], "a stop on request is no loss"
        await asyncio.sleep(0)
        assert told.notes == ["first became leader", "first stopped leading"]
        assert metrics.registry.value("leader_election_master_status", "gangs") == 0


class ShardRun:
    """A sharded elector being run, and the shards it was told it has."""

    def __init__(self, elector: ThreadedShardedElector) -> None:
        self.elector = elector
        self.working: set[int] = set()
        self.task = asyncio.create_task(elector.run(self._started, self._stopped))

    async def _started(self, shard: int) -> None:
        assert threading.current_thread() is threading.main_thread()
        self.working.add(shard)

    async def _stopped(self, shard: int) -> None:
        assert threading.current_thread() is threading.main_thread()
        self.working.discard(shard)

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


async def test_a_blocked_main_loop_costs_no_shard_and_a_stop_gives_all_of_them_back(tmp_path: Path) -> None:
    async with server_process(tmp_path) as config, Client.connect(config) as client:
        told, mine = Told(), settings("first", shards=3)
        run = ShardRun(ThreadedShardedElector(mine, election_client(config, mine), recorder=told))

        async def leases() -> dict[str, Lease]:
            found = await client.list(Lease, namespace="kube-system")
            return {lease.metadata.name: lease for lease in found if lease.metadata.name[:5] == "gangs"}

        await until(lambda: run.working == {0, 1, 2})
        assert run.elector.held == (0, 1, 2)
        assert run.elector.owns("team/job")
        before = await leases()
        times = {name: str(lease.spec.renew_time) for name, lease in before.items()}
        block_until(lambda: all(at != times[name] for name, at in renewals(tmp_path).items()))
        after = await leases()
        assert run.elector.may_write("team/job")
        assert len(before) == 4, "one Lease for every shard, and one that says we are alive"
        for name, lease in after.items():
            assert lease.spec.holder_identity == "first"
            assert lease.spec.renew_time != before[name].spec.renew_time
        await run.stop()
        assert run.working == set()
        assert not run.elector.may_write("team/job")
        assert [lease.spec.holder_identity for lease in (await leases()).values()] == [""] * 3
        await asyncio.sleep(0)
        assert sorted(told.notes) == ["first became leader"] * 3 + ["first stopped leading"] * 3


async def test_a_main_loop_that_stays_blocked_loses_its_shards(tmp_path: Path) -> None:
    async with ApiServer(ServerOptions()) as server:
        config = config_of(server, tmp_path)
        mine = settings("first", shards=2, **SOON_LOST)
        run = ShardRun(ThreadedShardedElector(mine, election_client(config, mine)))
        await until(lambda: run.working == {0, 1})
        block_until(lambda: not run.elector.may_write("team/job"))  # nobody renews any more
        await asyncio.wait([run.task])
        assert run.task.exception() is None
        assert run.working == set()


async def test_a_callback_that_fails_ends_the_sharded_election(tmp_path: Path) -> None:
    async def fail(shard: int) -> None:
        raise RuntimeError("no room for another shard")

    async def stopped(shard: int) -> None:
        return None

    async with ApiServer(ServerOptions()) as server:
        mine = settings("first", shards=2)
        elector = ThreadedShardedElector(mine, election_client(config_of(server, tmp_path), mine))
        with pytest.raises(ElectionFailed) as caught:
            await elector.run(fail, stopped)
        assert isinstance(caught.value.__cause__, ExceptionGroup)
        assert caught.value.__cause__.subgroup(RuntimeError) is not None


async def test_a_lost_lease_ends_the_run_after_telling(tmp_path: Path) -> None:
    async with ApiServer(ServerOptions()) as server:
        config = config_of(server, tmp_path)
        mine = settings("first", lease_duration=6.0, renew_deadline=4.0)
        run = Run(ThreadedElector(mine, election_client(config, mine)))
        await until(lambda: run.elector.is_leader)
        async with Client.connect(config) as client:
            while run.elector.is_leader:  # somebody takes it by force, as often as it takes
                lease = await client.get(Lease, "gangs", "kube-system")
                taken = {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 60}}
                await client.patch(lease, MergePatch(taken))
                await asyncio.sleep(0.05)
        await asyncio.wait([run.task])
        assert run.task.exception() is None
        assert run.calls == ["started", "stopped"]
        assert not run.elector.may_write()
        assert run.elector.holder == "thief"


async def test_a_main_loop_that_stays_blocked_loses_the_lease(tmp_path: Path) -> None:
    async with ApiServer(ServerOptions()) as server:
        config = config_of(server, tmp_path)
        mine = settings("first", **SOON_LOST)
        run = Run(ThreadedElector(mine, election_client(config, mine)))
        await until(lambda: run.calls == ["started"])
        block_until(lambda: not run.elector.may_write())
        await asyncio.wait([run.task])
        assert run.calls == ["started", "stopped"]


def test_who_has_not_begun_to_campaign_leads_nothing_and_is_well() -> None:
    one = ThreadedElector(settings("first"), lambda: pytest.fail("nobody connects"))
    assert not one.is_leader
    assert not one.may_write()
    one.check()
    many = ThreadedShardedElector(settings("first", shards=8), lambda: pytest.fail("nobody connects"))
    assert many.held == ()
    assert not many.owns("team/job")
    assert not many.may_write("team/job")
    many.check()
    assert many.shard("team/job") == shard_of("team/job", 8)
    assert len({many.shard(f"team/{index}") for index in range(200)}) == 8


async def test_a_candidate_can_be_stopped_while_it_waits(tmp_path: Path) -> None:
    async with ApiServer(ServerOptions()) as server:
        config = config_of(server, tmp_path)
        one, two = settings("one"), settings("two")
        leader = Run(ThreadedElector(one, election_client(config, one)))
        await until(lambda: leader.elector.is_leader)
        waiting = Run(ThreadedElector(two, election_client(config, two)))
        await until(lambda: waiting.elector.holder == "one")
        await waiting.stop()
        assert waiting.calls == []
        assert leader.elector.may_write()
        await leader.stop()
