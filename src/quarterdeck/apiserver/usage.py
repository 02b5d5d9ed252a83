"""`metrics.k8s.io`: what pods and nodes use, for `kubectl top` and autoscaling.

Pods on simulated nodes use what their annotations say, each of their containers this much, and next to
nothing if they say nothing. What nodes of this machine and their pods use is measured there. Others are left
out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator
from typing import Any, Final

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.api.quantity import Quantity
from quarterdeck.apiserver import status
from quarterdeck.apiserver.nodelink import NodeLink
from quarterdeck.apiserver.registry.answer import status_response
from quarterdeck.apiserver.registry.selection import Selection
from quarterdeck.apiserver.requestinfo import RequestInfo
from quarterdeck.apiserver.resource.resource import Resource
from quarterdeck.apiserver.resource.resourcetable import ResourceTable
from quarterdeck.apiserver.storage import Entry
from quarterdeck.wire.http import Request, Response
from quarterdeck.wire.wallclock import timestamp

GROUP: Final = "metrics.k8s.io"
VERSION: Final = "v1beta1"
SIMULATED: Final = "quarterdeck.dev/simulated"
USAGE: Final = {"cpu": "quarterdeck.dev/usage-cpu", "memory": "quarterdeck.dev/usage-memory"}
"""Annotations of pods: what each of their containers uses."""
_IDLE: Final = {"cpu": "1m", "memory": "1Mi"}
_WINDOW: Final = "15s"
_KINDS: Final = {"nodes": ("NodeMetrics", False), "pods": ("PodMetrics", True)}
_NOTHING: Final = Quantity("0")
_Usage = dict[str, Quantity]


class _Node(msgspec.Struct, gc=False):
    """A node of this machine."""

    usage: _Usage
    pods: dict[str, dict[str, _Usage]]
    """By pod (its uid) and container."""


_Measured = dict[str, _Node]


class _State(msgspec.Struct, gc=False):
    running: dict[str, Any] | None = None


class _Container(msgspec.Struct, gc=False):
    name: str = ""
    state: _State = msgspec.field(default_factory=_State)


class _Status(msgspec.Struct, gc=False, rename="camel"):
    phase: str = ""
    container_statuses: tuple[_Container, ...] = ()


class _Spec(msgspec.Struct, gc=False, rename="camel"):
    node_name: str = ""


class _Meta(msgspec.Struct, gc=False):
    uid: str = ""
    annotations: dict[str, str] = {}


class _Pod(msgspec.Struct, gc=False):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    def running(self) -> list[str]:
        """Its containers that run."""
        return [each.name for each in self.status.container_statuses if each.state.running is not None]

    def usage(self) -> dict[str, Quantity]:
        """What each of them uses."""
        found = {}
        for name, annotation in USAGE.items():
            told = Quantity(self.metadata.annotations.get(annotation, _IDLE[name]))
            found[name] = told if told.is_valid() else Quantity(_IDLE[name])
        return found


_decode: Final = msgspec.json.Decoder(_Pod).decode


class UsageApi:
    """Answers requests below ``/apis/metrics.k8s.io/v1beta1``."""

    def __init__(self, table: ResourceTable, nodes: NodeLink) -> None:
        self._links: Final = nodes
        self._pods: Final = table.versions_of("", "pods")[0]
        self._nodes: Final = table.versions_of("", "nodes")[0]

    @staticmethod
    def entries() -> list[Json]:
        """The resources, as discovery lists them."""
        return [
            {
                "name": plural,
                "singularName": "",
                "namespaced": is_namespaced,
                "kind": kind,
                "verbs": ["get", "list"],
            }
            for plural, (kind, is_namespaced) in _KINDS.items()
        ]

    def serve(self, request: Request, info: RequestInfo) -> Response | Awaitable[Response]:
        """Answer a request for one object or a list."""
        local = [each.name for each in self._nodes.bucket.scan() if self._links.reaches(each.name)]
        return self._serve_measured(request, info, local) if local else self._serve(request, info, {})

    async def _serve_measured(self, request: Request, info: RequestInfo, nodes: list[str]) -> Response:
        measured: _Measured = {}
        for node in nodes:
            told = await self._links.usage(node)
            if told is None:
                continue
            found = measured[node] = _Node(_usage(told.cpu, told.memory), {})
            for uid, container, cpu, memory in told.containers:
                found.pods.setdefault(uid, {})[container] = _usage(cpu, memory)
        try:
            return self._serve(request, info, measured)
        except status.StatusError as error:
            return status_response(error)

    def _serve(self, request: Request, info: RequestInfo, measured: _Measured) -> Response:
        if info.resource not in _KINDS or info.subresource:
            raise status.resource_not_found()
        if info.verb not in ("get", "list"):
            raise status.method_not_allowed()
        is_pod = info.resource == "pods"
        resource = self._pods if is_pod else self._nodes
        if info.name:
            entry = resource.bucket.get(info.namespace, info.name)
            found = None
            if entry is not None:
                found = self._pod(entry, measured) if is_pod else self._node(entry, measured)
            if found is None:
                raise status.not_found(info.resource, GROUP, info.name)
            return _answer(found)
        chosen = self._chosen(request, info, resource)
        if is_pod:
            items = [found for each in chosen if (found := self._pod(each, measured))]
        else:
            items = self._of_nodes(chosen, measured)
        kind = f"{_KINDS[info.resource][0]}List"
        return _answer({"kind": kind, "apiVersion": f"{GROUP}/{VERSION}", "metadata": {}, "items": items})

    def _chosen(self, request: Request, info: RequestInfo, resource: Resource) -> Iterator[Entry]:
        selection = Selection(resource, request.param("labelSelector"), request.param("fieldSelector"))
        for entry in resource.bucket.scan(info.namespace):
            if selection.matches(entry):
                yield entry

    def _is_simulated(self, node: str) -> bool:
        entry = self._nodes.bucket.get("", node)
        return entry is not None and entry.labels.get(SIMULATED) == "true"

    def _running(self, entry: Entry) -> _Pod | None:
        """A pod on a simulated node that runs."""
        pod = _decode(b"{" + entry.body)
        runs = pod.status.phase == "Running" and self._is_simulated(pod.spec.node_name)
        return pod if runs else None

    def _pod(self, entry: Entry, measured: _Measured) -> Json | None:
        uid = _decode(b"{" + entry.body).metadata.uid if measured else ""
        for node in measured.values():
            if used := node.pods.get(uid):
                containers = [
                    {"name": name, "usage": {key: str(each) for key, each in usage.items()}}
                    for name, usage in used.items()
                ]
                return {**_head("PodMetrics", entry), "containers": containers}
        pod = self._running(entry)
        names = pod.running() if pod is not None else []
        if pod is None or not names:
            return None
        usage = {name: str(amount) for name, amount in pod.usage().items()}
        return {
            **_head("PodMetrics", entry),
            "containers": [{"name": name, "usage": usage} for name in names],
        }

    def _node(self, entry: Entry, measured: _Measured) -> Json | None:
        return next(iter(self._of_nodes([entry], measured)), None)

    def _of_nodes(self, entries: Iterable[Entry], measured: _Measured) -> list[Json]:
        """One look at all pods, however many nodes are asked for."""
        totals: dict[str, dict[str, Quantity]] = {}
        for each in self._pods.bucket.scan():
            pod = self._running(each)
            if pod is None:
                continue
            total = totals.setdefault(pod.spec.node_name, dict.fromkeys(USAGE, _NOTHING))
            count = len(pod.running())
            for name, amount in pod.usage().items():
                total[name] += amount * count
        totals |= {name: node.usage for name, node in measured.items()}
        return [
            {
                **_head("NodeMetrics", entry),
                "usage": {name: str(totals.get(entry.name, {}).get(name, _NOTHING)) for name in USAGE},
            }
            for entry in entries
            if entry.labels.get(SIMULATED) == "true" or entry.name in measured
        ]


def _usage(cpu: int, memory: int) -> _Usage:
    return {"cpu": Quantity.of_milli(cpu), "memory": Quantity.of_bytes(memory)}


def _head(kind: str, entry: Entry) -> Json:
    metadata = {"name": entry.name, "creationTimestamp": timestamp(), "labels": dict(entry.labels)}
    if entry.namespace:
        metadata["namespace"] = entry.namespace
    return {
        "kind": kind,
        "apiVersion": f"{GROUP}/{VERSION}",
        "metadata": metadata,
        "timestamp": timestamp(),
        "window": _WINDOW,
    }


def _answer(document: Json) -> Response:
    return Response(200, msgspec.json.encode(document))
