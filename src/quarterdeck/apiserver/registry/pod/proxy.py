"""`pods/proxy` and `services/proxy`: a client's request, passed on to a pod by way of its node.

Which pod it is follows from names alone; the node knows its address. Nobody's credentials go along.
"""

from __future__ import annotations

import random
from typing import Final, NamedTuple

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.nodelink import NodeLink
from quarterdeck.apiserver.registry.pod.htmllink import rewrite_links, through_proxy
from quarterdeck.apiserver.registry.request import ApiRequest
from quarterdeck.apiserver.resource.strategy import ClusterState
from quarterdeck.wire.http import Response

_SERVICE_NAME: Final = "kubernetes.io/service-name"


class Target(NamedTuple):
    """What a name in the path asks for: ``[scheme:]name[:port]``."""

    scheme: str
    name: str
    port: str


def parse_target(text: str) -> Target | None:
    """The parts of a name; None if it is none. Pure."""
    parts = text.split(":")
    match parts:
        case [name]:
            found = Target("http", name, "")
        case [name, port]:
            found = Target("http", name, port)
        case [("" | "http" | "https") as scheme, name, port]:
            found = Target(scheme or "http", name, port)
        case _:
            return None
    return found if found.name else None


def split_path(path: str) -> tuple[str, str]:
    """The path of a proxy itself, and what stands behind it: ``/api/v1/namespaces/…/pods/…/proxy``. Pure."""
    parts = path.split("/")
    return "/".join(parts[:8]), "".join(f"/{each}" for each in parts[8:])


class PodProxy:
    """Passes requests on."""

    def __init__(self, nodes: NodeLink, cluster: ClusterState) -> None:
        self._nodes: Final = nodes
        self._cluster: Final = cluster

    async def serve(self, request: ApiRequest) -> Response:
        """The pod's answer."""
        info = request.info
        prefix, rest = split_path(request.http.raw_path)
        if not rest and request.http.method in ("GET", "HEAD"):  # links of the page are relative to it
            query = f"?{request.http.raw_query}" if request.http.raw_query else ""
            return Response(301, headers=[("Location", f"{prefix}/{query}")])
        target = parse_target(info.name)
        if target is None:
            raise status.bad_request(f"invalid {request.resource.kind.lower()} request {info.name!r}")
        if request.resource.plural == "services":
            target = self._endpoint(request, target)
        pod = self._cluster.get("", "pods", info.namespace, target.name)
        if pod is None:
            raise request.resource.not_found(target.name)
        node = pod["spec"].get("nodeName", "")
        if not self._nodes.reaches(node):
            raise status.bad_request("proxy is not supported by the embedded API server")
        port = target.port or _first_port(pod)
        answer = await self._nodes.pass_on(
            node, ("proxy", target.name, pod["metadata"]["uid"], target.scheme, port), rest, request.http
        )
        is_page = answer.content_type.partition(";")[0].strip().lower() == "text/html"
        is_plain = all(name.lower() != "content-encoding" for name, _ in answer.headers)
        return Response(
            answer.status,
            rewrite_links(answer.body, prefix) if is_page and is_plain else answer.body,
            content_type=answer.content_type,
            headers=[_inside(each, prefix) for each in answer.headers],
        )

    def _endpoint(self, request: ApiRequest, target: Target) -> Target:
        """A ready pod of a Service, and the port that its own leads to."""
        namespace = request.info.namespace
        service = self._cluster.get("", "services", namespace, target.name)
        if service is None:
            raise request.resource.not_found(target.name)
        ports = service["spec"].get("ports") or []
        fits = [each for each in ports if target.port in (each.get("name", ""), str(each["port"]))]
        chosen = fits or (ports if not target.port and len(ports) == 1 else [])
        if not chosen:
            raise status.unavailable(f'no service port "{target.port}" found for service "{target.name}"')
        found: list[Target] = []
        for each in self._cluster.list("discovery.k8s.io", "endpointslices", namespace):
            if (each["metadata"].get("labels") or {}).get(_SERVICE_NAME) != target.name:
                continue
            number = next(
                (
                    port.get("port")
                    for port in each.get("ports") or ()
                    if (port.get("name") or "") == chosen[0].get("name", "")
                ),
                None,
            )
            for endpoint in each.get("endpoints") or ():
                reference = endpoint.get("targetRef") or {}
                is_ready = (endpoint.get("conditions") or {}).get("ready") is not False
                if number and is_ready and reference.get("kind") == "Pod":
                    found.append(Target(target.scheme, reference["name"], str(number)))
        if not found:
            raise status.unavailable(f'no endpoints available for service "{request.info.name}"')
        return random.choice(found)  # noqa: S311  any will do


def _first_port(pod: Json) -> str:
    for container in pod["spec"]["containers"]:
        for port in container.get("ports") or ():
            return str(port["containerPort"])
    return "80"


def _inside(header: tuple[str, str], prefix: str) -> tuple[str, str]:
    """A header for the client: where a pod sends it elsewhere on itself, it comes by way of us again."""
    name, value = header
    return (name, through_proxy(value, prefix)) if name.lower() == "location" else header
