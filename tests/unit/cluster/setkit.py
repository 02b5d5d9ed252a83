"""Helpers of the tests of Deployments, StatefulSets, DaemonSets and so on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from quarterdeck.api import DynamicObject, Resource
from quarterdeck.api.k8s import Pod
from quarterdeck.client import Client
from quarterdeck.errors import NotFound
from quarterdeck.testing import eventually

from .workloadkit import NAMESPACE

R = TypeVar("R", bound=Resource)
LABELS = {"app": "web"}


def template(
    image: str = "one",
    *,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod template; another image is another revision."""
    return {
        "metadata": {"labels": {**LABELS, **(labels or {})}, "annotations": annotations or {}},
        "spec": {"containers": [{"name": "c", "image": image}], **spec},
    }


def made(kind: str, name: str = "web", *, api: str = "apps/v1", **spec: Any) -> DynamicObject:
    """An object with a template and a selector for its pods, unless told otherwise."""
    whole = {"selector": {"matchLabels": LABELS}, "template": template(), **spec}
    return DynamicObject(
        {
            "apiVersion": api,
            "kind": kind,
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {key: value for key, value in whole.items() if value is not None},
        }
    )


async def pods(client: Client, **labels: str) -> list[Pod]:
    """Pods by their labels, in the order of their names; those of the usual template by default."""
    found = await client.list(Pod, namespace=NAMESPACE, labels=labels or LABELS)
    return sorted(found.items, key=lambda each: each.metadata.name)


async def until(
    client: Client, kind: type[R], holds: Callable[[R], object], *, name: str = "web", timeout: float = 600.0
) -> R:
    """Wait until something holds about an object."""

    async def probe() -> R | None:
        try:
            found = await client.get(kind, name, NAMESPACE)
        except NotFound:
            return None
        return found if holds(found) else None

    found = await eventually(probe, timeout=timeout, interval=0.1)
    assert found is not None
    return found
