"""Helpers: an embedded server, links that can fail, certificates, and kinds to work with."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from quarterdeck.api import UNSET, DynamicObject, GroupVersionKind, Maybe, Model, Resource, omitempty
from quarterdeck.api.model import EMPTY_MAP, Map, Seq
from quarterdeck.apiserver import ApiServer, ServerOptions
from quarterdeck.client import Client, InProcessTransport
from quarterdeck.testing import FaultPlan, Link
from quarterdeck.wire.certificate import issue, make_authority, to_pem


@asynccontextmanager
async def embedded(**options: Any) -> AsyncIterator[ApiServer]:
    """The embedded server, without a socket."""
    server = ApiServer(ServerOptions(**options))
    await server.start(listen=False)
    try:
        yield server
    finally:
        await server.stop()


def link_to(server: ApiServer, plan: FaultPlan | None = None) -> Link:
    """A line to the server that can fail, with a client of its own."""
    return Link(InProcessTransport(server.local()), plan=plan)


def client_of(server: ApiServer) -> Client:
    return link_to(server).client


async def until(condition: Callable[[], Any], *, seconds: float = 60.0) -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  any condition
            await asyncio.sleep(0.01)


DEFINITION = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


async def install(client: Client, definition: dict[str, Any]) -> None:
    """Create a CRD and wait until it is served."""
    await client.create(DynamicObject(definition))
    async with asyncio.timeout(60):
        while True:
            found = await client.get(DEFINITION, definition["metadata"]["name"])
            conditions = {each["type"]: each["status"] for each in found.at("status", "conditions") or ()}
            if conditions.get("Established") == "True":
                return
            await asyncio.sleep(0.02)


class Authority:
    """An authority that issues certificates for localhost into a directory."""

    def __init__(self, name: str = "test") -> None:
        self.now = datetime.now(UTC)
        self._certificate, self._key = make_authority(name, now=self.now, life=timedelta(days=1))
        self.pem = to_pem([self._certificate])

    def issue(self, directory: Path) -> bytes:
        """Write a new pair; returns the certificate."""
        certificate, key = issue(
            self._certificate, self._key, ["localhost"], now=self.now, life=timedelta(days=1)
        )
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "tls.crt").write_bytes(certificate)
        (directory / "tls.key").write_bytes(key)
        return certificate

    def client_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.pem.decode())


class Web:
    """A keep-alive HTTPS connection that speaks just enough HTTP."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, port: int, context: ssl.SSLContext | None, name: str | None = "localhost") -> Web:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname=name if context is not None else None
        )
        return cls(reader, writer)

    @property
    def peer_certificate(self) -> bytes:
        return bytes(self._writer.get_extra_info("ssl_object").getpeercert(True))

    async def send(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
        lines += [f"{key}: {value}" for key, value in (headers or {}).items()]
        self._writer.write(("\r\n".join(lines) + "\r\n\r\n").encode() + body)
        await self._writer.drain()
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        length = next(
            int(line.split(":")[1])
            for line in head.split("\r\n")
            if line.lower().startswith("content-length")
        )
        return int(head.split()[1]), await self._reader.readexactly(length)

    async def post(self, path: str, document: Any, **headers: str) -> dict[str, Any]:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        status, answer = await self.send("POST", path, body, {"Content-Type": "application/json", **headers})
        assert status == 200, answer
        decoded: dict[str, Any] = json.loads(answer)
        return decoded

    async def close(self) -> None:
        self._writer.transport.abort()
        await asyncio.sleep(0)


class SubGroup(Model):
    name: str
    min_member: Maybe[int] = UNSET
    parent: Maybe[str] = UNSET


class GangSpec(Model):
    queue: str = omitempty("")
    min_member: Maybe[int] = UNSET
    replicas: int = 1
    tags: Map[str, str] = omitempty(EMPTY_MAP)
    sub_groups: Seq[SubGroup] = omitempty(())


class Gang(Resource, group="example.io", version="v1"):
    spec: GangSpec = omitempty(GangSpec())


class PoolSpec(Model):
    cidr: str = omitempty("")
    zone: str = omitempty("")
    sizes: Seq[int] = omitempty(())


class Pool(Resource, group="example.io", version="v1", plural="pools"):
    """The hub."""

    spec: PoolSpec = omitempty(PoolSpec())


class OldPoolSpec(Model):
    network: str = omitempty("")
    sizes: Seq[int] = omitempty(())


class OldPool(Resource, group="example.io", version="v1alpha1", kind="Pool", plural="pools", storage=False):
    """A spoke that cannot hold the zone."""

    spec: OldPoolSpec = omitempty(OldPoolSpec())


class BetaPoolSpec(Model):
    net: str = omitempty("")
    zone: str = omitempty("")
    sizes: Seq[int] = omitempty(())


class BetaPool(Resource, group="example.io", version="v1beta1", kind="Pool", plural="pools", storage=False):
    """A spoke with its conversion as methods."""

    spec: BetaPoolSpec = omitempty(BetaPoolSpec())

    def to_hub(self) -> Pool:
        spec = self.spec
        return Pool(metadata=self.metadata, spec=PoolSpec(cidr=spec.net, zone=spec.zone, sizes=spec.sizes))

    @classmethod
    def from_hub(cls, hub: Pool) -> BetaPool:
        spec = hub.spec
        return cls(metadata=hub.metadata, spec=BetaPoolSpec(net=spec.cidr, zone=spec.zone, sizes=spec.sizes))
