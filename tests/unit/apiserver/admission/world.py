"""A small server around admission: a few resources, a store of dicts, documents that are never typed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from quarterdeck.apiserver.admission.attributes import (
    Attributes,
    Decision,
    GroupVersionKind,
    GroupVersionResource,
    Served,
)
from quarterdeck.apiserver.auth.attributes import AccessAttributes as AccessQuestion
from quarterdeck.apiserver.auth.user import UserInfo

Json = dict[str, Any]

ALICE = UserInfo(name="alice", groups=("devs", "system:authenticated"))
#: (group, plural) -> (kind, namespaced, versions)
RESOURCES: dict[tuple[str, str], tuple[str, bool, tuple[str, ...]]] = {
    ("", "configmaps"): ("ConfigMap", True, ("v1",)),
    ("", "namespaces"): ("Namespace", False, ("v1",)),
    ("", "nodes"): ("Node", False, ("v1",)),
    ("ex.io", "things"): ("Thing", True, ("v1", "v2")),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): (
        "ValidatingAdmissionPolicy",
        False,
        ("v1",),
    ),
}


UNDECLARED = "failed to convert patch object to typed object: .zzz: field not declared in schema"


class World:
    """Implements `Host`, `ClusterState` and `WriteContext` at once."""

    now = "2026-01-01T00:00:00Z"
    dry_run = False

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str, str], Json] = {}
        self.warnings: list[str] = []
        self.requester: Json = ALICE.to_json()
        self.questions: list[AccessQuestion] = []
        self.allowed_verbs: set[str] = set()
        self.add_namespace("team", team="a")

    @property
    def cluster(self) -> World:
        return self

    def add(self, group: str, resource: str, obj: Json) -> None:
        meta = obj["metadata"]
        self.objects[(group, resource, meta.get("namespace", ""), meta["name"])] = obj

    def add_namespace(self, name: str, **labels: str) -> None:
        self.add(
            "", "namespaces", {"metadata": {"name": name, "labels": labels}, "status": {"phase": "Active"}}
        )

    # ClusterState

    def get(self, group: str, resource: str, namespace: str, name: str) -> Json | None:
        return copy.deepcopy(self.objects.get((group, resource, namespace, name)))

    def list(self, group: str, resource: str, namespace: str = "") -> Sequence[Json]:
        return [
            copy.deepcopy(obj)
            for key, obj in sorted(self.objects.items())
            if key[:2] == (group, resource) and namespace in ("", key[2])
        ]

    def denied(self, *_: object, **__: object) -> str:
        return ""

    @property
    def service_allocator(self) -> None:
        return None

    # WriteContext

    verb = "update"

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def at_end(self, work: Callable[[], None]) -> None:
        """Nothing here takes anything."""

    # Host

    def equivalents(self, group: str, resource: str, subresource: str) -> Sequence[Served]:
        kind, _, versions = RESOURCES[(group, resource)]
        return [
            Served(GroupVersionResource(group, version, resource), GroupVersionKind(group, version, kind))
            for version in versions
        ]

    def kind_of_param(self, api_version: str, kind: str) -> tuple[GroupVersionResource, bool] | None:
        group, _, version = api_version.rpartition("/")
        for (known, plural), (name, namespaced, versions) in RESOURCES.items():
            if (known, name) == (group, kind) and version in versions:
                return GroupVersionResource(group, version, plural), namespaced
        return None

    async def params(self, kind: GroupVersionResource, namespace: str, name: str) -> Sequence[Json]:
        if name:
            found = self.get(kind.group, kind.resource, namespace, name)
            return [] if found is None else [found]
        return self.list(kind.group, kind.resource, namespace)

    async def convert(self, obj: Json, kind: GroupVersionKind) -> Json:
        return {**copy.deepcopy(obj), "apiVersion": kind.api_version}

    def settle(self, obj: Json, kind: GroupVersionKind) -> Json:
        if not all(isinstance(value, str) for value in (obj.get("data") or {}).values()):
            raise ValueError(
                "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
            )
        return obj

    def merge(self, live: Json, patch: Json, kind: GroupVersionKind) -> Json:
        if "zzz" in patch:
            raise ValueError(
                "failed to convert patch object to typed object: .zzz: field not declared in schema"
            )
        merged = copy.deepcopy(live)
        _merge(merged, patch)
        return merged

    def authorize(self, question: AccessQuestion) -> Decision:
        self.questions.append(question)
        return Decision(question.verb in self.allowed_verbs, "because")

    # requests

    def request(
        self,
        operation: str = "CREATE",
        *,
        group: str = "",
        resource: str = "configmaps",
        version: str = "v1",
        namespace: str = "team",
        name: str = "x",
        obj: Json | None = None,
        old: Json | None = None,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Attributes:
        kind, namespaced, _ = RESOURCES[(group, resource)]
        api_version = f"{group}/{version}" if group else version
        if obj is None and operation != "DELETE":
            obj = {"metadata": {"name": name}}
        whole = {"apiVersion": api_version, "kind": kind}
        return Attributes(
            operation=operation,
            group=group,
            version=version,
            kind=kind,
            resource=resource,
            subresource=subresource,
            namespace=namespace if namespaced else "",
            name=name,
            namespaced=namespaced,
            object={**whole, **obj} if obj is not None else None,
            old_object={**whole, **old} if old is not None else None,
            options={"kind": f"{operation.title()}Options", "apiVersion": "meta.k8s.io/v1"},
            user=ALICE,
            dry_run=dry_run,
            context=self,
        )


def _merge(target: Json, patch: Json) -> None:
    for key, value in patch.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        else:
            target[key] = value


def rule(*resources: str, **changes: Any) -> Json:
    return {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": list(resources or ("configmaps",)),
        "scope": "*",
        **changes,
    }
