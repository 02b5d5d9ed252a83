"""A cluster that serves widgets, and the link over which what is under test sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from quarterdeck.api import DynamicObject, GroupVersionKind, Resource
from quarterdeck.api.k8s.core import Namespace
from quarterdeck.api.k8s.pod import Pod
from quarterdeck.api.meta import ObjectMeta
from quarterdeck.client import Response, Stream, Transport
from quarterdeck.client.transport import Headers
from quarterdeck.errors import AlreadyExists
from quarterdeck.testing import FaultPlan, Link, Refuse, TestCluster

from .runtimewidget import Widget

__all__ = [
    "MISSING",
    "NO_STREAMED_LISTS",
    "PODS",
    "WIDGET",
    "WIDGETS",
    "AlteredStreams",
    "WidgetCluster",
    "colored_widgets",
    "owner_of",
    "widget_cluster",
]

PODS: Final = frozenset({"pods"})
WIDGETS: Final = "widgets.example.com"
WIDGET: Final = GroupVersionKind("example.com", "v1", "Widget")
MISSING: Final = Refuse(404, message="the server could not find the requested resource")
NO_STREAMED_LISTS: Final = Refuse(422, parameter="sendInitialEvents")
POD_SPEC: Final = {"containers": [{"name": "main", "image": "main"}]}


class WidgetCluster:
    """The test's hand in the cluster: what it writes meets no faults. ``link`` is for what is under test."""

    def __init__(self, cluster: TestCluster, link: Link) -> None:
        self.cluster: Final = cluster
        self.client: Final = cluster.client
        self.link: Final = link
        self._namespaces = {"default"}

    async def put(
        self,
        kind: type[Resource],
        name: str,
        namespace: str = "ns",
        *,
        metadata: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> DynamicObject:
        """Create an object, or replace it; a status is written as one."""
        if namespace not in self._namespaces:
            self._namespaces.add(namespace)
            await self.client.create(Namespace(metadata=ObjectMeta(name=namespace)))
        if kind is Pod:
            fields.setdefault("spec", POD_SPEC)
        place = {"name": name, "namespace": namespace}
        doc = {**kind().to_dict(), "metadata": {**(metadata or {}), **place}, **fields}
        try:
            written = await self.client.create(DynamicObject(doc))
        except AlreadyExists:
            old = await self.client.get(kind, name, namespace)
            place["resourceVersion"] = old.metadata.resource_version
            doc["metadata"] = {**(metadata or {}), **place}
            written = await self.client.update(DynamicObject(doc))
        if "status" in fields:
            doc["metadata"] = {**place, "resourceVersion": written.metadata.resource_version}
            written = await self.client.subresource("status").update(DynamicObject(doc))
        return written

    async def fill(self, *names: str, **fields: Any) -> None:
        """Put some widgets that are alike."""
        for name in names:
            await self.put(Widget, name, **fields)

    async def remove(self, kind: type[Resource], name: str, namespace: str = "ns") -> None:
        """Delete an object."""
        await self.client.delete(kind, name, namespace)

    async def names(self, kind: type[Resource], namespace: str = "ns") -> list[str]:
        """What there is, by name."""
        return sorted(each.metadata.name for each in await self.client.list(kind, namespace=namespace))

    @property
    def version(self) -> str:
        """The newest version of the cluster."""
        return str(self.cluster.server.store.rev)


@asynccontextmanager
async def widget_cluster(*names: str, plan: FaultPlan | None = None) -> AsyncIterator[WidgetCluster]:
    """A cluster of its own with some widgets in the namespace ``ns``."""
    async with TestCluster(crds=[Widget]) as cluster:
        made = WidgetCluster(cluster, cluster.link(plan, name="under test"))
        await made.fill(*names)
        yield made


def _unaltered(query: str, stream: Stream) -> Stream:
    return stream


class AlteredStreams:
    """A transport that changes streams on their way: for what our server would not send."""

    def __init__(
        self,
        link: Link,
        answer: Callable[[str, Stream], Stream] = _unaltered,
        *,
        question: Callable[[str], str] = str,
    ) -> None:
        """``answer`` gets the query and what was answered to it; ``question`` rewrites the query."""
        self._inner: Final[Transport] = link
        self._answer: Final = answer
        self._question: Final = question

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: str = "",
        headers: Headers = (),
        body: bytes = b"",
        timeout: float | None = None,
    ) -> Response:
        return await self._inner.request(
            method, path, query=query, headers=headers, body=body, timeout=timeout
        )

    async def stream(
        self,
        method: str,
        path: str,
        *,
        query: str = "",
        headers: Headers = (),
        body: bytes = b"",
        timeout: float | None = None,
    ) -> Stream:
        stream = await self._inner.stream(
            method, path, query=self._question(query), headers=headers, body=body, timeout=timeout
        )
        return self._answer(query, stream)

    async def aclose(self) -> None:
        await self._inner.aclose()


@asynccontextmanager
async def colored_widgets(
    *names: str, namespace: str = "ns", plan: FaultPlan | None = None
) -> AsyncIterator[WidgetCluster]:
    """Widgets with a label and a color that follow from their names."""
    async with widget_cluster(plan=plan) as api:
        for name in names:
            labels = {"app": name[0]}
            await api.put(Widget, name, namespace, metadata={"labels": labels}, spec={"color": name})
        yield api


async def owner_of(api: WidgetCluster, name: str) -> dict[str, Any]:
    """The reference by which a widget controls an object."""
    kind = {"apiVersion": "example.com/v1", "kind": "Widget", "controller": True}
    return {**kind, "name": name, "uid": (await api.client.get(Widget, name, "ns")).metadata.uid}
