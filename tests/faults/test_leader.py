"""Two replicas as real processes over TLS: one leads, and is killed, or stopped and woken again.

The log of writes is the server's own: every commit of the config map and of the Lease, in order, as a watch
in the server's process sees it.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from quarterdeck.api import ObjectMeta, value_or
from quarterdeck.api.k8s import Lease
from quarterdeck.api.k8s.core import ConfigMap
from quarterdeck.testing import TestCluster, eventually

from .replica import LEASE_NAME, NAMESPACE, RENEW, TARGET

pytestmark = [pytest.mark.real_time(limit=300), pytest.mark.cluster(listen=True)]


class Commit(msgspec.Struct, frozen=True):
    """One write as the server stored it."""

    at: float
    what: str
    by: str


class WriteLog:
    """Who wrote the config map and who renewed the Lease, and when."""

    def __init__(self) -> None:
        self.commits: list[Commit] = []

    def times(self, what: str, by: str) -> list[float]:
        return [each.at for each in self.commits if (each.what, each.by) == (what, by)]

    @property
    def last_writer(self) -> str:
        return next((each.by for each in reversed(self.commits) if each.what == "write"), "")

    def note(self, what: str, by: str) -> None:
        if by:
            self.commits.append(Commit(asyncio.get_running_loop().time(), what, by))


@asynccontextmanager
async def log_of_writes(cluster: TestCluster) -> AsyncIterator[WriteLog]:
    log = WriteLog()

    async def configs() -> None:
        async with cluster.client.watch(ConfigMap, namespace=NAMESPACE) as events:
            async for event in events:
                if event.object.metadata.name == TARGET:
                    log.note("write", event.object.data.get("by", ""))

    async def leases() -> None:
        async with cluster.client.watch(Lease, namespace=NAMESPACE) as events:
            async for event in events:
                if event.object.metadata.name == LEASE_NAME:
                    log.note("renew", value_or(event.object.spec.holder_identity, ""))

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(configs()), group.create_task(leases())]
        yield log
        for task in tasks:
            task.cancel()


@asynccontextmanager
async def replica(kubeconfig: Path, identity: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A running replica; it is gone at the end, whatever happened."""
    program = str(Path(__file__).with_name("replica.py"))
    process = await asyncio.create_subprocess_exec(
        sys.executable, program, str(kubeconfig), identity, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            assert await process.stdout.readline() == b"ready\n"
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        await process.wait()


@asynccontextmanager
async def two_replicas(
    cluster: TestCluster, directory: Path
) -> AsyncIterator[tuple[WriteLog, asyncio.subprocess.Process]]:
    """The log and the process that leads; the other one campaigns."""
    kubeconfig = directory / "kubeconfig"
    cluster.server.write_kubeconfig(kubeconfig)
    await cluster.client.create(ConfigMap(metadata=ObjectMeta(name=TARGET, namespace=NAMESPACE)))
    async with log_of_writes(cluster) as log, replica(kubeconfig, "first") as first:
        await eventually(lambda: log.last_writer == "first", timeout=60)
        async with replica(kubeconfig, "second"):
            await eventually(lambda: len(log.times("renew", "first")) > 1)
            yield log, first


def assert_handed_over(log: WriteLog) -> None:
    """Nothing of the first lands after its deadline, and nothing after the second leads.

    That the second leads in time is for tests on virtual time: here it depends on the machine.
    """
    deadline = log.times("renew", "first")[-1] + RENEW
    taken_at = log.times("renew", "second")[0]
    assert max(log.times("write", "first")) <= deadline
    assert min(log.times("write", "second")) >= taken_at
    assert max(log.times("write", "first")) < min(log.times("write", "second"))


async def test_killed_leader_is_replaced_and_writes_nothing_more(
    cluster: TestCluster, tmp_path: Path
) -> None:
    async with two_replicas(cluster, tmp_path) as (log, first):
        first.kill()
        assert await first.wait() == -signal.SIGKILL
        await eventually(lambda: log.last_writer == "second", timeout=60)
        await asyncio.sleep(RENEW)
        assert_handed_over(log)


async def test_stopped_leader_that_wakes_up_after_its_deadline_writes_nothing_and_ends(
    cluster: TestCluster, tmp_path: Path
) -> None:
    async with two_replicas(cluster, tmp_path) as (log, first):
        # Just after a write of its own has been stored: what it decides next, it decides when it wakes up.
        seen = len(log.commits)
        await eventually(lambda: any(each.what == "write" for each in log.commits[seen:]), interval=0.001)
        first.send_signal(signal.SIGSTOP)
        await eventually(lambda: log.last_writer == "second", timeout=60)
        first.send_signal(signal.SIGCONT)
        async with asyncio.timeout(60):
            assert await first.wait() == 1, "it has lost its Lease, and says so"
        await asyncio.sleep(0.5)
        assert_handed_over(log)
