"""A server with a cluster's admission plugins, asked in process as whoever the test names."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection
from typing import Any
from urllib.parse import urlencode

from quarterdeck.apiserver import ApiServer, ServerOptions
from quarterdeck.apiserver.admission.plugin import FOR_CLUSTERS
from quarterdeck.apiserver.admission.plugin.podsecurity import PodSecurityConfiguration
from quarterdeck.apiserver.auth import UserInfo

Json = dict[str, Any]
MERGE = "application/merge-patch+json"
PODS = "/api/v1/namespaces/default/pods"


class Answer:
    """What the server said."""

    def __init__(self, code: int, body: Any, warnings: list[str]) -> None:
        self.code = code
        self.body = body
        self.warnings = warnings

    @property
    def message(self) -> str:
        text = self.body.get("message", "")
        assert isinstance(text, str)
        return text

    @property
    def why(self) -> str:
        """What stands behind `is forbidden: `."""
        assert self.code == 403, self.body
        return self.message.partition(" is forbidden: ")[2]


class Api:
    """Requests of the administrator, or of somebody else with `as_user`."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        media: str = "application/json",
        as_user: UserInfo | None = None,
        **query: str,
    ) -> Answer:
        raw = b"" if body is None else json.dumps(body).encode()
        headers = [("Content-Type", media)] if raw else []
        local = self._server.local() if as_user is None else self._server.local(as_user)
        code, found, answer = await local.exchange(method, path, urlencode(query), headers, raw)
        warnings = [
            value.partition('"')[2].removesuffix('"') for name, value in found if name.lower() == "warning"
        ]
        return Answer(code, json.loads(answer), [text.replace('\\"', '"') for text in warnings])

    async def create(self, path: str, body: Json, **options: Any) -> Json:
        answer = await self.call("POST", path, body, **options)
        assert answer.code == 201, answer.body
        found: Json = answer.body
        return found

    async def account(self, name: str = "default", namespace: str = "default", **fields: Any) -> None:
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        await self.create(path, {"metadata": {"name": name, **fields.pop("metadata", {})}, **fields})


def pod(name: str = "p", *, container: Json | None = None, metadata: Json | None = None, **spec: Any) -> Json:
    return {
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"containers": [{"name": "c", "image": "i:1", **(container or {})}], **spec},
    }


def node_user(name: str) -> UserInfo:
    return UserInfo(f"system:node:{name}", groups=("system:nodes", "system:authenticated"))


def run(
    scenario: Callable[[Api], Awaitable[None]],
    plugins: Collection[str] = FOR_CLUSTERS,
    pod_security: PodSecurityConfiguration | None = None,
) -> None:
    options = ServerOptions(port=0, admission_plugins=plugins, pod_security=pod_security)

    async def serve() -> None:
        async with ApiServer(options) as server:
            await scenario(Api(server))

    asyncio.run(serve())
