"""Clients whose calls somebody looks at on their way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from quarterdeck.client import Call, Client, Response
from quarterdeck.client.call import Proceed, Verb

Send: TypeAlias = Callable[[Call], Awaitable[Response]]

_VERBS: Final[tuple[Verb, ...]] = (
    "get", "list", "create", "update", "patch", "apply", "delete", "deletecollection",
)  # fmt: skip


def with_hook(client: Client, hook: Callable[[Call, Send], Awaitable[Response]]) -> Client:
    """A client like ``client`` (whose own hooks stay) that gives every call but watches to ``hook``."""

    async def intercept(call: Call, proceed: Proceed) -> Response:
        return await hook(call, client.send)

    return Client(
        client.rest,
        scheme=client.scheme,
        mapper=client.mapper,
        interceptors=dict.fromkeys(_VERBS, intercept),
        stream_interceptor=lambda call, proceed: client.open(call),
    )
