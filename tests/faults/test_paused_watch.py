"""A program with an open watch is stopped for longer than its watchdog allows, and woken again."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s.core import ConfigMap
from quarterdeck.testing import TestCluster

SILENCE = 2.0
PATIENCE = 20.0

pytestmark = [pytest.mark.real_time, pytest.mark.cluster(listen=True)]


class Watcher:
    """The running program and what it has said so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.said: list[str] = []

    async def says(self, line: str) -> None:
        """Wait until it has said so."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            while line not in self.said:
                read = await self._process.stdout.readline()
                assert read, f"it ended after {self.said}"
                self.said.append(read.decode().strip())

    async def pause(self, seconds: float) -> None:
        self._process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)

    def wake(self) -> None:
        self._process.send_signal(signal.SIGCONT)


@asynccontextmanager
async def watching(kubeconfig: Path) -> AsyncIterator[Watcher]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("watcher.py")),
        str(kubeconfig),
        str(SILENCE),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield Watcher(process)
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        await process.wait()


async def test_an_informer_paused_for_longer_than_its_silence_limit_sees_what_happens_afterwards(
    cluster: TestCluster, tmp_path: Path
) -> None:
    async def create(name: str) -> None:
        await cluster.client.create(ConfigMap(metadata=ObjectMeta(name=name, namespace="default")))

    kubeconfig = tmp_path / "kubeconfig"
    cluster.server.write_kubeconfig(kubeconfig)
    await create("first")
    async with watching(kubeconfig) as watcher:
        await watcher.says("first")
        # Something arrives after the watchdog was set, so that it looks again, in the past, when it wakes up.
        await create("second")
        await watcher.says("second")
        await watcher.pause(SILENCE * 1.5)
        await create("while-stopped")
        watcher.wake()
        await watcher.says("warning watch is silent, reconnecting")
        await watcher.says("while-stopped")
        await create("afterwards")
        await watcher.says("afterwards")
