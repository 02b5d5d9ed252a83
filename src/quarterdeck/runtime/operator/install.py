"""Putting into a cluster what an operator stands on: its definitions, a namespace of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from quarterdeck.api import DynamicObject, GroupVersionKind, ObjectMeta, Resource, crd
from quarterdeck.client import Client
from quarterdeck.errors import AlreadyExists, ConfigError

FIELD_MANAGER: Final = "quarterdeck"
TIMEOUT: Final = 30.0
"""Seconds for the API server to serve a definition."""
_DEFINITION: Final = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
_POLL: Final = 0.01


async def create_namespace(client: Client, name: str) -> None:
    """Create a namespace unless it exists."""
    from quarterdeck.api.k8s import Namespace  # late: the built-in kinds take a while to import

    try:
        await client.create(Namespace(metadata=ObjectMeta(name=name)))
    except AlreadyExists:
        return


async def install_definitions(client: Client, *definitions: type[Resource] | Mapping[str, Any]) -> None:
    """Apply definitions, given as classes or as objects, and wait until the API server serves them.

    Raises ``ApiError`` when they are refused, ``ConfigError`` when they are not served in time.
    """
    objects = [crd(each) if isinstance(each, type) else dict(each) for each in definitions]
    for each in objects:
        await client.apply(DynamicObject(each), field_manager=FIELD_MANAGER, force=True)
    for each in objects:
        await _wait_served(client, each["metadata"]["name"])


async def _wait_served(client: Client, name: str) -> None:
    try:
        async with asyncio.timeout(TIMEOUT):
            while not _is_established(await client.get(_DEFINITION, name)):  # noqa: ASYNC110  it is on a server
                await asyncio.sleep(_POLL)
    except TimeoutError as error:
        raise ConfigError(
            f"CustomResourceDefinition {name} is not served after {TIMEOUT:g} s: see its status.conditions"
        ) from error


def _is_established(definition: DynamicObject) -> bool:
    conditions = definition.at("status", "conditions", default=()) or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
