"""pods/<name>/exec, attach and portforward: who may, through admission, and on to the node."""

from __future__ import annotations

from typing import Final

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.admission.attributes import Attributes, GroupVersionKind
from quarterdeck.apiserver.admission.chain import AdmissionChain
from quarterdeck.apiserver.auth import Authorizer, forbidden_error, request_attributes
from quarterdeck.apiserver.nodelink import NodeLink
from quarterdeck.apiserver.registry.pod.log import check_container
from quarterdeck.apiserver.registry.pod.proxy import PodProxy
from quarterdeck.apiserver.registry.request import ApiRequest, is_set
from quarterdeck.apiserver.registry.write.context import Context
from quarterdeck.apiserver.resource.strategy import ClusterState
from quarterdeck.wire.http import Response

KINDS: Final = {
    "exec": "PodExecOptions",
    "attach": "PodAttachOptions",
    "portforward": "PodPortForwardOptions",
}
_FLAGS: Final = ("stdin", "stdout", "stderr", "tty")


class PodStreams:
    """Streams into containers."""

    def __init__(
        self, nodes: NodeLink, admission: AdmissionChain, cluster: ClusterState, authorizer: Authorizer
    ) -> None:
        self.nodes: Final = nodes
        self._admission: Final = admission
        self._cluster: Final = cluster
        self._authorizer: Final = authorizer
        self.proxy: Final = PodProxy(nodes, cluster)

    async def serve(self, request: ApiRequest) -> Response:
        """Hand the client's connection to the node, if it may have it."""
        info = request.info
        verb = info.subresource
        entry = request.resource.bucket.get(info.namespace, info.name)
        if entry is None:
            raise request.resource.not_found(info.name)
        pod = request.resource.read(entry)
        node = pod["spec"].get("nodeName")
        if not node:
            raise status.bad_request(f"pod {info.name} does not have a host assigned")
        self._check_create(request)
        options = self._options(request)
        if verb != "portforward":
            check_container(options.get("container", ""), pod)
        if verb == "exec" and not options.get("command"):
            raise status.bad_request("you must specify at least 1 command for the container")
        if not self.nodes.reaches(node):
            raise status.bad_request(f"{verb} is not supported by the embedded API server")
        await self._admit(request, options)
        uid = pod["metadata"]["uid"]
        if verb == "portforward":
            parts: tuple[str, ...] = ("portForward", info.name, uid)
        else:
            container = options.get("container") or pod["spec"]["containers"][0]["name"]
            parts = (verb, info.name, uid, container)
        return await self.nodes.upgrade(node, parts, request.http)

    def _check_create(self, request: ApiRequest) -> None:
        """A WebSocket can only be asked for by GET, but it acts: it needs the right to create."""
        if request.info.verb != "get" or request.user.is_master:
            return
        attributes = msgspec.structs.replace(request_attributes(request.user, request.info), verb="create")
        decision = self._authorizer.authorize(attributes)
        if not decision.allowed:
            raise forbidden_error(attributes, decision.reason)

    def _options(self, request: ApiRequest) -> Json:
        http, verb = request.http, request.info.subresource
        made: Json = {"kind": KINDS[verb], "apiVersion": "v1"}
        if verb == "portforward":
            ports = [each for value in http.query.get("ports", ()) for each in value.split(",")]
            if ports:
                made["ports"] = [int(each) for each in ports if each.isdigit()]
            return made
        made |= {name: True for name in _FLAGS if is_set(http.query.get(name))}
        if container := http.param("container"):
            made["container"] = container
        if verb == "exec":
            made["command"] = http.query.get("command", [])
        return made

    async def _admit(self, request: ApiRequest, options: Json) -> None:
        resource, info = request.resource, request.info
        if not self._admission.needs_admission(
            resource.group, resource.plural, info.subresource, "CONNECT", request.user
        ):
            return
        attributes = Attributes(
            operation="CONNECT",
            group=resource.group,
            version=resource.version,
            kind=resource.kind,
            resource=resource.plural,
            subresource=info.subresource,
            namespace=info.namespace,
            name=info.name,
            namespaced=True,
            object=options,
            user=request.user,
            context=Context(request, self._cluster, dry_run=False),
        )
        attributes.object_kind = GroupVersionKind("", "v1", options["kind"])
        await self._admission.mutate(attributes)
        await self._admission.validate(attributes)
