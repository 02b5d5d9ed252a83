"""What a grove case sees of the server: objects as documents, written and read by kind and name."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from quarterdeck.client.warning import parse_warning
from quarterdeck.errors import ApiError
from tests.harness.case import CaseFailure

from .server import GroveServer

__all__ = ["KINDS", "CaseObjects", "Outcome"]

Json = dict[str, Any]

NAMESPACE: Final = "default"
_GROVE: Final = "/apis/grove.io/v1alpha1"
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
#: kind -> root of its API, resource, whether it lives in namespaces
KINDS: Final[dict[str, tuple[str, str, bool]]] = {
    "PodCliqueSet": (_GROVE, "podcliquesets", True),
    "PodClique": (_GROVE, "podcliques", True),
    "PodCliqueScalingGroup": (_GROVE, "podcliquescalinggroups", True),
    "ClusterTopologyBinding": (_GROVE, "clustertopologybindings", False),
    "PodGang": ("/apis/scheduler.grove.io/v1alpha1", "podgangs", True),
    "PodGroup": ("/apis/scheduling.run.ai/v2alpha2", "podgroups", True),
    "Queue": ("/apis/scheduling.run.ai/v2", "queues", False),
    "Topology": ("/apis/kai.scheduler/v1alpha1", "topologies", False),
    "Pod": ("/api/v1", "pods", True),
    "Service": ("/api/v1", "services", True),
    "ServiceAccount": ("/api/v1", "serviceaccounts", True),
    "Secret": ("/api/v1", "secrets", True),
    "ConfigMap": ("/api/v1", "configmaps", True),
    "Node": ("/api/v1", "nodes", False),
    "Role": (_RBAC, "roles", True),
    "RoleBinding": (_RBAC, "rolebindings", True),
    "HorizontalPodAutoscaler": ("/apis/autoscaling/v2", "horizontalpodautoscalers", True),
    "ResourceClaim": ("/apis/resource.k8s.io/v1", "resourceclaims", True),
    "ResourceClaimTemplate": ("/apis/resource.k8s.io/v1", "resourceclaimtemplates", True),
    "PriorityClass": ("/apis/scheduling.k8s.io/v1", "priorityclasses", False),
}
_LEFT_ALONE: Final = frozenset({"PriorityClass"})
_OURS: Final = "app.kubernetes.io/managed-by=grove-operator"
_SHARED: Final = ("Service", "ServiceAccount", "Secret", "ConfigMap", "Role", "RoleBinding")
"""Kinds that others have objects of; a case clears away what the operator made."""
_MERGE: Final = "application/merge-patch+json"
_JSON: Final = "application/json"


class Outcome(msgspec.Struct, frozen=True):
    """What became of a request."""

    code: int
    document: Json
    message: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def is_refused(self) -> bool:
        """Whether nothing was done."""
        return self.code >= 300


class CaseObjects:
    """The objects of one case."""

    def __init__(self, server: GroveServer) -> None:
        self.server: Final = server
        self._made: Final[list[str]] = []

    def collection(self, kind: str) -> str:
        """The path of all objects of a kind."""
        if kind not in KINDS:
            raise CaseFailure(f"kind {kind} is not understood")
        root, resource, is_namespaced = KINDS[kind]
        return f"{root}/namespaces/{NAMESPACE}/{resource}" if is_namespaced else f"{root}/{resource}"

    def path(self, kind: str, name: str) -> str:
        """The path of an object."""
        return f"{self.collection(kind)}/{quote(name)}"

    async def request(
        self, method: str, path: str, body: Any = None, *, media: str = _JSON, query: str = ""
    ) -> Outcome:
        """One request as the administrator; a refusal is an outcome, too."""
        rest = self.server.cluster.client.rest
        try:
            async with self.server.patience():
                response = await rest.request(
                    method,
                    path,
                    query=query,
                    headers=(("accept", _JSON), ("content-type", media)),
                    body=json.dumps(body).encode() if body is not None else b"",
                )
        except ApiError as error:
            return Outcome(error.code, {}, error.message)
        headers = [value for name, value in response.headers if name.lower() == "warning"]
        texts = tuple(text for value in headers for text in parse_warning(value))
        document = msgspec.json.decode(response.body) if response.body else {}
        return Outcome(response.status, document, "", texts)

    async def create(self, document: Json) -> Outcome:
        """POST an object."""
        outcome = await self.request("POST", self.collection(document["kind"]), document)
        if not outcome.is_refused:
            self._made.append(self.path(document["kind"], outcome.document["metadata"]["name"]))
        return outcome

    async def make(self, document: Json) -> Json:
        """POST an object that must be taken; returns it as it was stored."""
        outcome = await self.create(document)
        if outcome.is_refused:
            name = document["metadata"].get("name")
            raise CaseFailure(f"{document['kind']} {name}: {outcome.code}: {outcome.message}")
        return outcome.document

    async def replace(self, document: Json) -> Outcome:
        """PUT an object over the one that exists."""
        path = self.path(document["kind"], document["metadata"]["name"])
        present = await self.request("GET", path)
        if present.is_refused:
            raise CaseFailure(f"{path}: {present.message}")
        version = present.document["metadata"]["resourceVersion"]
        metadata = {**document["metadata"], "resourceVersion": version}
        return await self.request("PUT", path, {**document, "metadata": metadata})

    async def apply(self, document: Json) -> Outcome:
        """Create an object, or make the one that exists like it."""
        path = self.path(document["kind"], document["metadata"]["name"])
        present = await self.request("GET", path)
        return await self.create(document) if present.code == 404 else await self.replace(document)

    async def patch(self, kind: str, name: str, body: Any, *, media: str = _MERGE, part: str = "") -> Outcome:
        """Patch an object, or a subresource of it."""
        path = self.path(kind, name)
        return await self.request("PATCH", f"{path}/{part}" if part else path, body, media=media)

    async def read(self, kind: str, name: str) -> Json | None:
        """GET an object; nothing if it is not there."""
        outcome = await self.request("GET", self.path(kind, name))
        if outcome.code == 404:
            return None
        if outcome.is_refused:
            raise CaseFailure(f"{kind} {name}: {outcome.message}")
        return outcome.document

    async def need(self, kind: str, name: str) -> Json:
        """GET an object that must be there."""
        found = await self.read(kind, name)
        if found is None:
            raise CaseFailure(f"{kind} {name} does not exist")
        return found

    async def items(self, kind: str, selector: str = "") -> list[Json]:
        """All objects of a kind that a label selector matches, those that are going left out."""
        query = urlencode({"labelSelector": selector}) if selector else ""
        outcome = await self.request("GET", self.collection(kind), query=query)
        if outcome.is_refused:
            raise CaseFailure(f"{kind}: {outcome.message}")
        found = outcome.document.get("items") or []
        return [each for each in found if not each["metadata"].get("deletionTimestamp")]

    async def version(self) -> str:
        """Changes with every write."""
        outcome = await self.request("GET", self.collection("PodGang"), query="limit=1")
        return str(outcome.document["metadata"]["resourceVersion"])

    async def clear(self) -> None:
        """Remove everything that the case made, or that was made for it."""
        if not self.server.is_embedded:
            for path in reversed(self._made):
                await self.remove(path)
            return
        for kind in KINDS:
            if kind in _LEFT_ALONE:
                continue
            query = urlencode({"labelSelector": _OURS}) if kind in _SHARED else ""
            outcome = await self.request("GET", self.collection(kind), query=query)
            for each in outcome.document.get("items") or ():
                await self.remove(self.path(kind, each["metadata"]["name"]))
        for path in reversed(self._made):
            await self.remove(path)

    async def remove(self, path: str) -> None:
        """Delete an object at once, whoever holds it."""
        present = await self.request("GET", path)
        if present.is_refused:
            return
        if present.document["metadata"].get("finalizers"):
            await self.request("PATCH", path, {"metadata": {"finalizers": None}}, media=_MERGE)
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        await self.request("DELETE", path, options)
        while not (await self.request("GET", path)).is_refused:
            await self.request("PATCH", path, {"metadata": {"finalizers": None}}, media=_MERGE)
            await asyncio.sleep(0.01)
