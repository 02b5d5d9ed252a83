"""Secrets and tokens never appear in logs: everything that handles them, at debug level, and then a grep.

`quarterdeck up` runs as a process of its own with its whole output kept (server, service-account tokens, root
certificates, operators with their webhooks); beside it a manager in this process caches Secrets, fails, and
talks with bearer tokens, with every record of every logger kept.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.api import DynamicObject, ObjectMeta
from quarterdeck.api.k8s import Secret
from quarterdeck.api.k8s.core import ServiceAccount
from quarterdeck.client import Client, Config
from quarterdeck.errors import ApiError, Unauthorized
from quarterdeck.runtime import Context, Manager
from quarterdeck.runtime.certificate import SelfSigned
from quarterdeck.runtime.log import JsonFormatter
from quarterdeck.runtime.webhook import Validator, WebhookOptions, WebhookServer
from quarterdeck.testing import eventually

pytestmark = pytest.mark.real_time(limit=120)
PASSWORD = "hunter2-swordfish"
STATIC = "static-token-4711"
CARELESS = "a program logs a whole object"


@asynccontextmanager
async def up(directory: Path) -> AsyncIterator[tuple[Config, Path]]:
    """A whole cluster in a process that logs all it can; its output is kept in a file."""
    kubeconfig, output, tokens = directory / "kubeconfig", directory / "output", directory / "tokens.csv"
    tokens.write_text(f'{STATIC},scraper,1,"system:masters"\n')
    command = [sys.executable, "-m", "quarterdeck.cli", "up", "--port", "0", "--log-level", "DEBUG"]
    command += ["--kubeconfig", str(kubeconfig), "--token-file", str(tokens)]
    with output.open("wb") as file:
        process = await asyncio.create_subprocess_exec(*command, stdout=file, stderr=file)
    try:
        async with asyncio.timeout(40):
            while not kubeconfig.exists():
                assert process.returncode is None, output.read_text()
                await asyncio.sleep(0.05)
        yield Config.load(kubeconfig), output
        process.terminate()
        assert await process.wait() == 0, output.read_text()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


class Everything(logging.Handler):
    """Keeps every record, as the JSON formatter writes it and as it was logged."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.written: list[str] = []
        self.raw: list[str] = []
        self._formatter = JsonFormatter()

    def emit(self, record: logging.LogRecord) -> None:
        self.written.append(self._formatter.format(record))
        if record.name.startswith("quarterdeck.") and record.getMessage() != CARELESS:
            self.raw.append(str(record.__dict__))


@contextmanager
def everything_logged() -> Iterator[Everything]:
    root, handler = logging.getLogger(), Everything()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield handler
    finally:
        root.removeHandler(handler)
        root.setLevel(before)


def secret(name: str, **fields: Any) -> DynamicObject:
    metadata = {"name": name, "namespace": "default", **fields.pop("metadata", {})}
    return DynamicObject({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **fields})


async def handle_secrets(config: Config) -> list[str]:
    """Make, cache, refuse and fail with secrets of all kinds; returns what must never be seen."""
    hidden = [PASSWORD, STATIC]
    async with Client.connect(config) as client:
        encoded = base64.b64encode(PASSWORD.encode()).decode()
        hidden.append(encoded)
        await client.create(secret("plain", data={"password": encoded}))
        await client.create(secret("text", stringData={"password": PASSWORD}))
        for bad in (
            secret("bad", type="kubernetes.io/tls", data={"tls.key": encoded}),
            secret("Bad_Name", stringData={"password": PASSWORD}),
            secret("not-base64", data={"password": f"%{PASSWORD}"}),
        ):
            with suppress(ApiError):
                await client.create(bad)

        await client.create(ServiceAccount(metadata=ObjectMeta(name="robot", namespace="default")))
        annotations = {"kubernetes.io/service-account.name": "robot"}
        await client.create(
            secret(
                "robot-token",
                type="kubernetes.io/service-account-token",
                metadata={"annotations": annotations},
            )
        )

        async def token() -> str:
            found = await client.get(Secret, "robot-token", "default")
            return bytes(found.data.get("token", b"")).decode()

        hidden.append(await eventually(token))
        review = await client.subresource("token").create(
            await client.get(ServiceAccount, "robot", "default"),
            DynamicObject(
                {
                    "apiVersion": "authentication.k8s.io/v1",
                    "kind": "TokenRequest",
                    "spec": {"expirationSeconds": 600},
                }
            ),
        )
        hidden.append(review.to_dict()["status"]["token"])
        hidden += await use_certificates(client)
    for bearer in (*hidden[-3:], STATIC, "wrong-token-0815"):
        hidden.append(bearer)
        await use_token(config, bearer)
    hidden += [line for line in config.tls.key_data.splitlines() if len(line) > 40]
    return hidden


async def use_certificates(client: Client) -> list[str]:
    """Webhook certificates of our own making, kept in a Secret."""
    source = SelfSigned("hook", "default", client=client, dns_names=("localhost",))
    server = WebhookServer(WebhookOptions(host="127.0.0.1", port=0), certificates=source)
    server.add(Validator(Secret, lambda admission, obj: None))
    async with server:
        await server.check()
    found = await client.get(Secret, "hook-tls", "default")
    keys = [bytes(found.data[name]).decode() for name in ("tls.key", "ca.key")]
    return [line for key in keys for line in key.splitlines() if "-----" not in line and len(line) > 40]


async def use_token(config: Config, token: str) -> None:
    """A client with a bearer token, good or bad; its errors are logged as a program would."""
    bearer = config.evolve(token=token, tls=config.tls.__class__(ca_data=config.tls.ca_data))
    async with Client.connect(bearer) as client:
        try:
            await client.list(Secret, namespace="default")
        except (Unauthorized, ApiError) as error:
            logging.getLogger("quarterdeck.test").error("refused", exc_info=error)


async def reconcile_secrets(config: Config) -> None:
    """A controller of Secrets that logs, fails and panics over each of them."""
    seen: set[str] = set()

    async def reconcile(ctx: Context[Secret]) -> None:
        ctx.log.info(CARELESS, object=ctx.obj)
        seen.add(ctx.key.name)
        if ctx.key.name == "plain":
            raise ValueError("cannot use it")
        if ctx.key.name == "text":
            await ctx.update(ctx.obj.evolve(metadata=ctx.obj.metadata.evolve(name="other")))

    async with Manager(config) as manager:
        manager.add(manager.controller(Secret).build(reconcile))
        async with asyncio.TaskGroup() as group:
            group.create_task(manager.serve())
            await eventually(lambda: {"plain", "text", "robot-token", "hook-tls"} <= seen)
            manager.request_stop()


async def test_secrets_and_tokens_never_appear_in_logs(tmp_path: Path) -> None:
    async with up(tmp_path) as (config, output):
        with everything_logged() as kept:
            hidden = await handle_secrets(config)
            await reconcile_secrets(config)
    text = output.read_text()
    assert "serviceaccount-token-controller" in text
    assert len(kept.written) > 15
    assert len(hidden) > 10
    for each in hidden:
        assert len(each) > 8
        assert each not in text, "in the output of quarterdeck up"
        assert not [line for line in kept.written if each in line], "in what is written here"
        assert not [line for line in kept.raw if each in line], "in a record, before it is cleaned"
