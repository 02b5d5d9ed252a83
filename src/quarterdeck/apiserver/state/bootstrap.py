"""What every cluster has from the start: namespaces, roles, priority classes, the `kubernetes` service.

Runs at every start and only creates what is missing; nothing that exists is changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.auth import bootstrap_objects
from quarterdeck.apiserver.auth.certificates import SERVICE_ADDRESS
from quarterdeck.apiserver.builtins import facts
from quarterdeck.apiserver.resource.resourcetable import ResourceTable
from quarterdeck.apiserver.storage import Store, encode_value
from quarterdeck.apiserver.uid import new_uid
from quarterdeck.wire.wallclock import timestamp

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
#: fields of a spec that are set after the writer was noted as owner of the rest
_ALLOCATED = frozenset({"finalizers", "clusterIPs", "ipFamilies"})


class Bootstrap:
    """Creates the initial objects straight in the store: there is nobody to ask yet."""

    def __init__(self, store: Store, table: ResourceTable, port: int) -> None:
        self._store = store
        self._table = table
        self._port = port

    async def run(self) -> None:
        await self.create(self._objects())

    async def create(self, objects: Iterable[tuple[str, str, str, Json]]) -> None:
        """Store what is missing of some objects: group, plural, namespace and document of each."""
        now = timestamp()
        writes = []
        for group, plural, namespace, document in objects:
            resource = self._table.versions_of(group, plural)[0]
            name = document["metadata"]["name"]
            if resource.bucket.get(namespace, name) is not None:
                continue
            meta = {**document["metadata"], "uid": new_uid(), "creationTimestamp": now}
            if namespace:
                meta["namespace"] = namespace
            if resource.strategy.has_generation:
                meta.setdefault("generation", 1)
            obj = {
                **{key: value for key, value in document.items() if key not in ("kind", "apiVersion")},
                "metadata": meta,
            }
            owned = {"kind": resource.kind, "apiVersion": resource.api_version, **obj}
            if isinstance(owned.get("spec"), dict):
                owned["spec"] = {key: item for key, item in owned["spec"].items() if key not in _ALLOCATED}
            resource.field_manager.update(
                None, owned, manager="kube-apiserver", api_version=resource.api_version, now=now
            )
            writes.append(
                self._store.put(
                    resource.bucket,
                    namespace,
                    name,
                    encode_value(obj),
                    expected=0,
                    labels=meta.get("labels") or {},
                )
            )
        if writes:
            await asyncio.gather(*writes)

    def _objects(self) -> list[tuple[str, str, str, Json]]:
        objects: list[tuple[str, str, str, Json]] = []
        for name in NAMESPACES:
            document = {
                "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            }
            objects.append(("", "namespaces", "", document))
        objects.append(("", "services", "default", kubernetes_service(self._port)))
        objects.append(
            (
                "networking.k8s.io",
                "servicecidrs",
                "",
                {"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.0.0.0/16"]}, "status": {}},
            )
        )
        for item in bootstrap_objects():
            objects.append(("rbac.authorization.k8s.io", item.resource, item.namespace, item.document))
        recorded = facts().bootstrap
        for document in recorded["priorityclasses"]:
            objects.append(("scheduling.k8s.io", "priorityclasses", "", document))
        for plural in ("flowschemas", "prioritylevelconfigurations"):
            for document in recorded[plural]:
                objects.append(("flowcontrol.apiserver.k8s.io", plural, "", document))
        return objects


def kubernetes_service(port: int) -> Json:
    """The service that clients in a cluster find the API server by."""
    return {
        "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port or 6443}],
            "clusterIP": SERVICE_ADDRESS,
            "clusterIPs": [SERVICE_ADDRESS],
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
        },
        "status": {"loadBalancer": {}},
    }
