"""What admission needs from the server around it (see admission.attributes.Host)."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from functools import partial

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.admission.attributes import (
    Decision,
    GroupVersionKind,
    GroupVersionResource,
    Served,
)
from quarterdeck.apiserver.auth import AccessAttributes, Authorizer
from quarterdeck.apiserver.nodelink import NodeLink
from quarterdeck.apiserver.resource.resource import Resource, Undecodable
from quarterdeck.apiserver.resource.resourcetable import ResourceTable
from quarterdeck.apiserver.status import StatusError
from quarterdeck.apiserver.webhookclient import Place

from .clusterstate import StoredState

#: resources that are served in two groups over one storage
_TWINS = {("", "events"): ("events.k8s.io", "events"), ("events.k8s.io", "events"): ("", "events")}


class AdmissionHost:
    """What admission may ask of the rest of the server."""

    def __init__(self, table: ResourceTable, cluster: StoredState, authorizer: Authorizer) -> None:
        self._table = table
        self._cluster = cluster
        self._authorizer = authorizer

    @property
    def cluster(self) -> StoredState:
        return self._cluster

    def equivalents(self, group: str, resource: str, subresource: str) -> Sequence[Served]:
        versions = list(self._table.versions_of(group, resource))
        twin = _TWINS.get((group, resource))
        if twin is not None:
            versions += self._table.versions_of(*twin)
        served = []
        for each in versions:
            kind = each.kind
            group_version = (each.group, each.version)
            sub = each.subresources.get(subresource) if subresource else None
            if sub is not None:
                kind = sub.kind
                if sub.version:
                    group_version = (sub.group, sub.version)
            served.append(
                Served(
                    GroupVersionResource(each.group, each.version, each.plural),
                    GroupVersionKind(*group_version, kind),
                )
            )
        return served

    def _resource_of(self, kind: GroupVersionKind) -> Resource | None:
        return self._table.find_kind(kind.group, kind.version, kind.kind)

    def kind_of_param(self, api_version: str, kind: str) -> tuple[GroupVersionResource, bool] | None:
        group, _, version = api_version.rpartition("/")
        resource = self._table.find_kind(group, version, kind)
        if resource is None:
            return None
        return GroupVersionResource(group, version, resource.plural), resource.namespaced

    async def params(self, kind: GroupVersionResource, namespace: str, name: str) -> Sequence[Json]:
        resource = self._table.get(*kind)
        if resource is None:
            return ()
        if name:
            entry = resource.bucket.get(namespace, name)
            entries = [] if entry is None else [entry]
        else:
            entries = list(resource.bucket.scan(namespace))
        if any(resource.needs_webhook(entry) for entry in entries):
            return await resource.read_many(entries)
        return [self._cluster.read(resource, entry) for entry in entries]

    async def convert(self, obj: Json, kind: GroupVersionKind) -> Json:
        if obj.get("apiVersion") == kind.api_version:
            return obj
        group, _, version = obj["apiVersion"].rpartition("/")
        source, resource = (
            self._resource_of(GroupVersionKind(group, version, obj["kind"])),
            self._resource_of(kind),
        )
        if source is None or resource is None:
            raise ValueError(f"no kind {kind} is served")
        return await resource.convert_from(obj, source)

    def settle(self, obj: Json, kind: GroupVersionKind) -> Json:
        resource = self._resource_of(kind)
        if resource is None:
            return obj
        try:
            settled, _ = resource.decode(obj)
        except Undecodable as error:
            raise ValueError(error.problem) from None
        except StatusError as error:
            raise ValueError(error.message) from None
        resource.strategy.default(settled)
        return settled

    def merge(self, live: Json, patch: Json, kind: GroupVersionKind) -> Json:
        resource = self._resource_of(kind)
        if resource is None:
            raise ValueError(f"no kind {kind} is served")
        return resource.merge(live, patch)

    def authorize(self, question: AccessAttributes) -> Decision:
        answer = self._authorizer.authorize(question)
        return Decision(answer.allowed, answer.reason)


def resolve_service(
    cluster: StoredState, namespace: str, name: str, port: int, nodes: NodeLink
) -> Place | None:
    """A ready endpoint of a Service's port that can be dialled: on loopback, or a pod of a node of this
    machine, through its node. None when there is none: nothing else is ever dialled."""
    service = cluster.get("", "services", namespace, name)
    if service is None:
        return None
    ports = [item for item in service["spec"].get("ports") or () if item["port"] == port]
    if not ports:
        return None
    wanted = ports[0]
    for endpoint_slice in cluster.list("discovery.k8s.io", "endpointslices", namespace):
        labels = endpoint_slice["metadata"].get("labels") or {}
        if labels.get("kubernetes.io/service-name") != name:
            continue
        for slice_port in endpoint_slice.get("ports") or ():
            if (slice_port.get("name") or "") != (wanted.get("name") or ""):
                continue
            for endpoint in endpoint_slice.get("endpoints") or ():
                place = _place(cluster, endpoint, slice_port["port"], nodes)
                if place is not None:
                    return place
    return None


def _place(cluster: StoredState, endpoint: Json, port: int, nodes: NodeLink) -> Place | None:
    addresses = endpoint.get("addresses") or ()
    if not addresses or (endpoint.get("conditions") or {}).get("ready") is False:
        return None
    if _is_loopback(addresses[0]):
        return Place(addresses[0], port)
    node, target = endpoint.get("nodeName") or "", endpoint.get("targetRef") or {}
    if target.get("kind") != "Pod" or not nodes.reaches(node):
        return None
    name = target.get("name") or ""
    pod = cluster.get("", "pods", target.get("namespace") or "", name)
    uid = pod["metadata"]["uid"] if pod is not None else ""
    if not uid or target.get("uid", uid) != uid:  # the endpoint is of an earlier pod of that name
        return None
    return Place(addresses[0], port, partial(nodes.dial, node, name, uid, port))


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
