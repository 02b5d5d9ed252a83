"""Which Secrets, ConfigMaps, claims and service accounts belong to the pods of a node.

Follows the pods only from the first question on: without kubelets that have an identity of their own it
costs nothing. Changes are noted by name; they are read when a question about their namespace comes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.pod import reference
from quarterdeck.apiserver.resource.resource import Resource
from quarterdeck.apiserver.storage import Event

from .clusterstate import StoredState

#: resource and name within a namespace
Reference = tuple[str, str]
_MIRROR: Final = "kubernetes.io/config.mirror"
_NODE_NAMED: Final = {"volumeattachments": "storage.k8s.io", "resourceslices": "resource.k8s.io", "pods": ""}
_PV_SECRETS: Final = ("cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos")
_CSI_SECRETS: Final = ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef")


class StoredRelations:
    """See auth.nodeauthorizer.NodeRelations."""

    def __init__(self, pods: Resource, cluster: StoredState) -> None:
        self._pods = pods
        self._cluster = cluster
        self._by_namespace: dict[str, _PodReferences] = {}
        self._is_following = False

    def is_related(self, node: str, resource: str, namespace: str, name: str) -> bool:
        if resource in _NODE_NAMED:
            found = self._cluster.get(_NODE_NAMED[resource], resource, namespace, name)
            return found is not None and (found.get("spec") or {}).get("nodeName") == node
        if resource == "persistentvolumes":
            volume = self._cluster.get("", "persistentvolumes", "", name)
            return volume is not None and self._has_claim_of(volume, node)
        if self._is_used(node, resource, namespace, name):
            return True
        return resource == "secrets" and any(
            (namespace, name) in _volume_secrets(volume) and self._has_claim_of(volume, node)
            for volume in self._cluster.list("", "persistentvolumes")
        )

    def _has_claim_of(self, volume: Json, node: str) -> bool:
        claim = (volume.get("spec") or {}).get("claimRef") or {}
        return bool(claim) and self._is_used(
            node, "persistentvolumeclaims", claim.get("namespace", ""), claim.get("name", "")
        )

    def _is_used(self, node: str, resource: str, namespace: str, name: str) -> bool:
        self._follow()
        known = self._by_namespace.get(namespace)
        if known is None:
            return False
        for changed in known.take_changed():
            entry = self._pods.bucket.get(namespace, changed)
            known.put(changed, None if entry is None else self._pods.read(entry))
        return known.uses(node, (resource, name))

    def _follow(self) -> None:
        if self._is_following:
            return
        self._is_following = True
        for entry in self._pods.bucket.scan():
            self._note(entry.namespace, entry.name)

        def changed(events: list[Event]) -> None:
            for event in events:
                self._note(event.entry.namespace, event.entry.name)

        self._pods.bucket.subscribers[self] = changed

    def _note(self, namespace: str, name: str) -> None:
        known = self._by_namespace.get(namespace)
        if known is None:
            known = self._by_namespace[namespace] = _PodReferences()
        known.note(name)


class _PodReferences:
    """What the bound pods of one namespace name."""

    def __init__(self) -> None:
        self._changed: set[str] = set()
        self._by_pod: dict[str, tuple[str, frozenset[Reference]]] = {}
        self._nodes: dict[Reference, Counter[str]] = {}

    def note(self, pod: str) -> None:
        self._changed.add(pod)

    def take_changed(self) -> set[str]:
        changed, self._changed = self._changed, set()
        return changed

    def put(self, name: str, pod: Json | None) -> None:
        node, references = self._by_pod.pop(name, ("", frozenset()))
        for each in references:
            nodes = self._nodes[each]
            nodes[node] -= 1
            if not nodes[node]:
                del nodes[node]
            if not nodes:
                del self._nodes[each]
        bound_to = ((pod or {}).get("spec") or {}).get("nodeName")
        if pod is None or not bound_to:
            return
        named = frozenset(_references(pod))
        self._by_pod[name] = bound_to, named
        for each in named:
            self._nodes.setdefault(each, Counter())[bound_to] += 1

    def uses(self, node: str, wanted: Reference) -> bool:
        return node in self._nodes.get(wanted, ())


def _references(pod: Json) -> Iterator[Reference]:
    """A mirror pod grants nothing: its node made it."""
    if _MIRROR in (pod["metadata"].get("annotations") or {}):
        return
    spec = pod["spec"]
    if spec.get("serviceAccountName"):
        yield "serviceaccounts", spec["serviceAccountName"]
    for resource, names in (
        ("secrets", reference.secret_names(spec)),
        ("configmaps", reference.config_map_names(spec)),
        ("persistentvolumeclaims", reference.volume_claim_names(pod)),
        ("resourceclaims", reference.resource_claim_names(pod)),
    ):
        for name in names:
            yield resource, name


def _volume_secrets(volume: Json) -> set[tuple[str, str]]:
    """(namespace, name) of the Secrets that a kubelet needs to mount a volume."""
    spec = volume.get("spec") or {}
    own = (spec.get("claimRef") or {}).get("namespace", "")
    found = set()
    azure = spec.get("azureFile") or {}
    if azure.get("secretName"):
        found.add((azure.get("secretNamespace") or own, azure["secretName"]))
    references = [(spec.get(source) or {}).get("secretRef") for source in _PV_SECRETS]
    references += [(spec.get("csi") or {}).get(field) for field in _CSI_SECRETS]
    for each in references:
        if each and each.get("name"):
            found.add((each.get("namespace") or own, each["name"]))
    return found
