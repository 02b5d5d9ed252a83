"""The operator as a program of its own, on sockets: what its configuration says about the process holds."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from quarterdeck.api.k8s import Secret, ValidatingWebhookConfiguration
from quarterdeck.apiserver import ApiServer
from quarterdeck.client import Client, InProcessTransport
from quarterdeck.operators.grove.command import add_command
from quarterdeck.operators.grove.program import GroveProgram, RunOptions
from quarterdeck.runtime.operator.install import create_namespace

CONFIG = """\
server:
  webhooks: {{bindAddress: 127.0.0.1, port: {}, secretName: my-certificate}}
  healthProbes: {{bindAddress: 127.0.0.1, port: {}}}
  metrics: {{bindAddress: 127.0.0.1, port: {}}}
"""


def free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports: list[int] = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


async def get(port: int, path: str) -> tuple[int, bytes]:
    """Status and body of an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), body


async def until(holds: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(20):
        while True:
            try:
                if await holds():
                    return
            except OSError:
                pass
            await asyncio.sleep(0.02)


@pytest.mark.real_time  # webhooks under a certificate that is made for today
async def test_status_certificate_and_a_switch_that_is_taken_back(tmp_path: Path) -> None:
    webhooks, health, metrics = free_ports(3)
    config, kubeconfig = tmp_path / "config.yaml", tmp_path / "kubeconfig"
    config.write_text(CONFIG.format(webhooks, health, metrics))
    server = ApiServer()
    await server.start()
    server.write_kubeconfig(kubeconfig)
    program = GroveProgram(
        RunOptions(
            config=config,
            kubeconfig=str(kubeconfig),
            webhook_url=f"https://127.0.0.1:{webhooks}",
            installs=True,
        )
    )
    running = asyncio.ensure_future(program.run(program.load()))

    async def is_ready() -> bool:
        return (await get(health, "/readyz"))[0] == 200

    async def is_unready() -> bool:
        return not await is_ready()

    try:
        await until(is_ready)
        status, body = await get(health, "/status")
        assert status == 200
        document = json.loads(body)
        assert document["activeBackend"] == "default-scheduler"
        assert document["conditions"][0]["status"] == "True"
        assert (await get(metrics, "/status"))[0] == 404
        client = Client.over(InProcessTransport(server.local()))
        secrets = (await client.list(Secret, namespace="grove-system")).items
        assert [each.metadata.name for each in secrets] == ["my-certificate"]

        before = config.read_text()
        config.write_text(f"{before}schedulerConfig: {{gangScheduling: true}}\n")
        os.kill(os.getpid(), signal.SIGHUP)
        await until(is_unready)
        config.write_text(before)
        os.kill(os.getpid(), signal.SIGHUP)
        await until(is_ready)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        assert await running == 0
        await server.stop()


@pytest.mark.real_time  # the certificate of the kubeconfig is made for today
async def test_behind_the_images_of_upstreams_chart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its init container runs at every start, and its Service has the port of the webhooks."""
    config, kubeconfig = tmp_path / "config.yaml", tmp_path / "kubeconfig"
    webhooks, *others = free_ports(3)
    config.write_text(CONFIG.format(webhooks, *others))
    server = ApiServer()
    await server.start()
    server.write_kubeconfig(kubeconfig)
    client = Client.over(InProcessTransport(server.local()))
    parser = argparse.ArgumentParser()
    add_command(parser.add_subparsers())
    arguments = parser.parse_args(["grove", "install-crds", "--kubeconfig", str(kubeconfig)])
    program = GroveProgram(RunOptions(config=config, kubeconfig=str(kubeconfig)))

    async def registered_ports() -> set[object]:
        found = (await client.list(ValidatingWebhookConfiguration)).items
        return {hook.client_config.service.port for each in found for hook in each.webhooks}

    try:
        for _ in range(2):
            assert await asyncio.to_thread(arguments.run, arguments) == 0
            assert "/podgangs.scheduler.grove.io applied" in capsys.readouterr().out
        await create_namespace(client, "grove-system")
        running = asyncio.ensure_future(program.run(program.load()))
        await until(registered_ports)
        assert await registered_ports() == {webhooks}
        os.kill(os.getpid(), signal.SIGTERM)
        assert await running == 0
    finally:
        await server.stop()
