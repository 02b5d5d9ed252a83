"""The write pipeline around a strategy, without storage: what the registry does to one object."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from quarterdeck.apiserver import metadata, status
from quarterdeck.apiserver.admission.attributes import Attributes, Decision
from quarterdeck.apiserver.admission.plugin import FOR_TESTS, plugins
from quarterdeck.apiserver.auth.user import UserInfo
from quarterdeck.apiserver.builtin import strategy_for
from quarterdeck.apiserver.builtins import facts
from quarterdeck.apiserver.document import shape
from quarterdeck.apiserver.document.typetable import struct_for

Json = dict[str, Any]
NOW = "2026-01-01T00:00:00Z"
_PATH = re.compile(r"/(?:api/(v1)|apis/([^/]+)/([^/]+))(?:/namespaces/([^/]+))?/([^/]+)$")


class Cluster:
    """Stored objects by (group, resource, namespace, name)."""

    service_allocator: Any = None

    def __init__(self, **stored: Json) -> None:
        self.objects: dict[tuple[str, str, str, str], Json] = {}

    def add(self, group: str, resource: str, obj: Json) -> None:
        meta = obj["metadata"]
        self.objects[(group, resource, meta.get("namespace", ""), meta["name"])] = obj

    def get(self, group: str, resource: str, namespace: str, name: str) -> Json | None:
        return self.objects.get((group, resource, namespace, name))

    def denied(self, question: object) -> str:
        return ""

    def list(self, group: str, resource: str, namespace: str = "") -> list[Json]:
        return [obj for key, obj in self.objects.items() if key[:2] == (group, resource)]


class Context:
    now = NOW
    dry_run = False

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.requester: Json = {"username": "admin", "groups": ["system:masters"]}
        self.warnings: list[str] = []

    verb = "update"

    def denied(self, verb: str, subresource: str, *, in_namespace: bool = False, name: str = "") -> str:
        return ""

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def at_end(self, work: Callable[[], None]) -> None:
        """The write goes on after these functions: what it took stays taken."""


@cache
def _kinds() -> dict[tuple[str, str, str], tuple[str, bool]]:
    return {
        (group.group, version.version, known.name): (known.kind, known.namespaced)
        for group in facts().groups
        for version in group.versions
        for known in version.resources
    }


def parse_path(path: str) -> tuple[str, str, str, str]:
    """(group, version, namespace, resource) of a collection's path."""
    found = _PATH.match(path)
    assert found is not None, path
    return found[2] or "", found[1] or found[3], found[4] or "", found[5]


def copy(document: Json) -> Json:
    copied: Json = json.loads(json.dumps(document))
    return copied


class Admission:
    """The plugins that look at one write, without policies and webhooks."""

    def __init__(self, path: str, subresource: str, operation: str, context: Context) -> None:
        group, version, namespace, resource = parse_path(path)
        kind, namespaced = _kinds()[(group, version, resource)]
        self._attributes = Attributes(
            operation=operation,
            group=group,
            version=version,
            kind=kind,
            resource=resource,
            subresource=subresource,
            namespace=namespace,
            namespaced=namespaced,
            user=UserInfo(name="admin", groups=("system:masters",)),
            context=context,
        )
        self._key = (group, resource, subresource, operation)
        self._plugins = [each for each in plugins(FOR_TESTS, lambda _: Decision(True)) if not each.only_nodes]

    def mutate(self, obj: Json, old: Json | None) -> None:
        self._attributes.object, self._attributes.old_object = obj, old
        for plugin in self._plugins:
            if self._key in plugin.mutates:
                plugin.mutate(self._attributes)

    def validate(self, obj: Json | None, old: Json | None) -> None:
        self._attributes.object, self._attributes.old_object = obj, old
        self._attributes.name = (obj or old or {})["metadata"].get("name", "")
        for plugin in self._plugins:
            if self._key in plugin.validates:
                plugin.validate(self._attributes)


def create(path: str, document: Json, context: Context | None = None) -> Json:
    """The object a create would store; raises StatusError."""
    context = context or Context()
    group, version, namespace, resource = parse_path(path)
    kind, namespaced = _kinds()[(group, version, resource)]
    document = copy(document)
    document.setdefault("apiVersion", f"{group}/{version}" if group else version)
    document.setdefault("kind", kind)
    obj, _ = shape.normalize(document, struct_for(group, version, kind))
    meta = obj.setdefault("metadata", {})
    strategy = strategy_for(group, resource)
    strategy.default(obj)
    admission = Admission(path, "", "CREATE", context)
    admission.mutate(obj, None)
    meta["uid"] = "UID"
    meta["creationTimestamp"] = NOW
    if strategy.has_generation:
        meta["generation"] = 1
    if namespaced:
        meta["namespace"] = namespace
    strategy.prepare_create(obj, context)
    errors = metadata.validate_object_meta(meta, namespaced=namespaced, name_errors=strategy.name_errors)
    errors += strategy.validate_create(obj, context)
    if errors:
        raise status.invalid(kind, group, meta.get("name", ""), errors)
    admission.validate(obj, None)
    for text in strategy.warnings(obj, None):
        context.warn(text)
    return obj


def update(path: str, old: Json, wanted: Json, subresource: str = "", context: Context | None = None) -> Json:
    """The object an update would store; raises StatusError."""
    context = context or Context()
    group, version, _, resource = parse_path(path)
    kind, _ = _kinds()[(group, version, resource)]
    own_rules = subresource in ("resize", "ephemeralcontainers")
    strategy = strategy_for(group, f"{resource}/{subresource}" if own_rules else resource)
    obj, _ = shape.normalize(copy(wanted), struct_for(group, version, kind))
    old = copy(old)
    old["metadata"]["resourceVersion"] = "1"
    strategy.default(obj)
    for key in ("uid", "creationTimestamp", "namespace", "generation", "name", "resourceVersion"):
        if key in old["metadata"]:
            obj["metadata"][key] = old["metadata"][key]
    admission = Admission(path, subresource, "UPDATE", context)
    if subresource == "status":
        obj = _status_view(strategy.status_metadata, old, obj)
        strategy.prepare_status_update(obj, old, context)
    else:
        admission.mutate(obj, old)
        if strategy.has_status and not subresource and "status" in old:
            obj["status"] = copy(old["status"])
        strategy.prepare_update(obj, old, context)
        if strategy.has_generation and strategy.generation_changed(obj, old):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    errors = metadata.validate_object_meta_update(obj["metadata"], old["metadata"])
    if subresource == "status":
        errors += strategy.validate_status_update(obj, old, context)
    else:
        errors += strategy.validate_update(obj, old, context)
    if errors:
        raise status.invalid(kind, group, old["metadata"]["name"], errors)
    admission.validate(obj, old)
    return obj


def _status_view(taken: frozenset[str], old: Json, new: Json) -> Json:
    view = copy(old)
    view["status"] = new.get("status", {})
    for key in taken:
        if key in new["metadata"]:
            view["metadata"][key] = new["metadata"][key]
        else:
            view["metadata"].pop(key, None)
    return view


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def scrub(obj: Json) -> Json:
    """Without what a server makes up."""
    obj = copy(obj)
    for key in ("managedFields", "uid", "creationTimestamp", "resourceVersion"):
        obj["metadata"].pop(key, None)
    return obj
