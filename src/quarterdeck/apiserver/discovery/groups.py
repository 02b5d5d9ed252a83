"""Discovery documents: which groups, versions and resources there are, in both forms kubectl reads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.document.negotiate import accept
from quarterdeck.apiserver.resource.resource import Resource, Subresource
from quarterdeck.apiserver.resource.resourcetable import ResourceTable
from quarterdeck.apiserver.status import not_acceptable
from quarterdeck.wire.http import Request, Response

_encode = msgspec.json.Encoder().encode
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class Discovery:
    """Answers /api, /apis and what is below, from the resource table; documents are cached per generation."""

    def __init__(self, table: ResourceTable, computed: Mapping[tuple[str, str], list[Json]] = {}) -> None:
        """``computed`` has the resources of group versions that are not in the table."""
        self._table = table
        self._computed = computed
        self._generation = -1
        self._cache: dict[str, tuple[bytes, str]] = {}
        self.server_address = ""

    def serve(self, request: Request) -> Response | None:
        """The document at a path, or None when there is none."""
        path = request.path.rstrip("/")
        if path == "/apis":
            path = request.path.removesuffix("/")
        output = accept(request.headers.get("accept", ""), objects=False)
        if output is None:
            raise not_acceptable(
                "only the following media types are accepted: application/json, application/yaml, "
                "application/vnd.kubernetes.protobuf"
            )
        if path in ("/api", "/apis") and output.kind:
            body, tag = self._document(f"{path}!aggregated")
            headers = [("Cache-Control", "public"), ("ETag", tag), ("Vary", "Accept")]
            if request.headers.get("if-none-match", "") == tag:
                return Response(304, headers=headers)
            return Response(200, body, content_type=_AGGREGATED, headers=headers)
        found = self._document(path)
        if not found[0]:
            return None
        if output.yaml:
            from quarterdeck.apiserver.document.yamltext import to_yaml

            return Response(200, to_yaml(msgspec.json.decode(found[0])), content_type="application/yaml")
        return Response(200, found[0])

    def _document(self, key: str) -> tuple[bytes, str]:
        if self._generation != self._table.generation:
            self._generation = self._table.generation
            self._cache.clear()
        cached = self._cache.get(key)
        if cached is None:
            document = self._build(key)
            body = b"" if document is None else _encode(document) + b"\n"
            cached = (body, f'"{hashlib.sha512(body).hexdigest().upper()}"')
            if document is not None:  # unknown paths must not fill the cache
                self._cache[key] = cached
        return cached

    def _build(self, key: str) -> Json | None:
        if key == "/api":
            return {
                "kind": "APIVersions",
                "versions": ["v1"],
                "serverAddressByClientCIDRs": [
                    {"clientCIDR": "0.0.0.0/0", "serverAddress": self.server_address}
                ],
            }
        if key == "/apis":
            groups = [self._group(group, versions) for group, versions in self._groups() if group]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        if key == "/api!aggregated":
            return self._aggregated([("", ["v1"])])
        if key == "/apis!aggregated":
            return self._aggregated([(group, versions) for group, versions in self._groups() if group])
        parts = key.strip("/").split("/")
        if parts == ["api", "v1"]:
            return self._resource_list("", "v1")
        if parts[0] == "apis" and len(parts) == 2:
            for group, versions in self._groups():
                if group == parts[1]:
                    return {"kind": "APIGroup", "apiVersion": "v1", **self._group(group, versions)}
            return None
        if parts[0] == "apis" and len(parts) == 3 and parts[1]:
            return self._resource_list(parts[1], parts[2])
        return None

    def _groups(self) -> list[tuple[str, list[str]]]:
        return [*self._table.groups(), *((group, [version]) for group, version in self._computed)]

    def _group(self, group: str, versions: list[str]) -> Json:
        listed = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
        return {"name": group, "versions": listed, "preferredVersion": listed[0]}

    def _resource_list(self, group: str, version: str) -> Json | None:
        resources = self._table.resources(group, version)
        entries: list[Json] = [*self._computed.get((group, version), ())]
        if not resources and not entries:
            return None
        for resource in sorted(resources, key=lambda each: each.plural):
            entries.append(_entry(resource))
            entries += [_sub_entry(resource, sub) for sub in _subresources(resource)]
        head: Json = {"kind": "APIResourceList", "apiVersion": "v1"}
        if not group:
            del head["apiVersion"]  # upstream leaves it out of the oldest document
        return {
            **head,
            "groupVersion": f"{group}/{version}" if group else version,
            "resources": entries,
        }

    def _aggregated(self, groups: list[tuple[str, list[str]]]) -> Json:
        items = []
        for group, versions in groups:
            listed = []
            for version in versions:
                resources = self._table.resources(group, version)
                listed.append(
                    {
                        "version": version,
                        "resources": [
                            _aggregated_entry(resource)
                            for resource in sorted(resources, key=lambda each: each.plural)
                        ]
                        + [_aggregated_computed(each) for each in self._computed.get((group, version), ())],
                        "freshness": "Current",
                    }
                )
            metadata: Json = {"name": group} if group else {}
            items.append({"metadata": metadata, "versions": listed})
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": items,
        }


def _entry(resource: Resource) -> Json:
    entry: Json = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.storage_version_hash:
        entry["storageVersionHash"] = resource.storage_version_hash
    return entry


def _subresources(resource: Resource) -> list[Subresource]:
    """Built-in ones by name, custom ones as upstream knows them: status before scale."""
    if resource.is_custom:
        return list(resource.subresources.values())
    return [sub for _, sub in sorted(resource.subresources.items())]


def _sub_entry(resource: Resource, sub: Subresource) -> Json:
    entry: Json = {
        "name": f"{resource.plural}/{sub.name}",
        "singularName": "",
        "namespaced": resource.namespaced,
    }
    if sub.version:
        entry["group"] = sub.group
        entry["version"] = sub.version
    entry["kind"] = sub.kind
    entry["verbs"] = list(sub.verbs)
    return entry


def _aggregated_entry(resource: Resource) -> Json:
    own_kind = _kind(resource, resource.kind, "", "")
    entry: Json = {
        "resource": resource.plural,
        "responseKind": own_kind,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.subresources:
        entry["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": _kind(resource, sub.kind, sub.group, sub.version),
                "verbs": list(sub.verbs),
            }
            for sub in _subresources(resource)
        ]
    return entry


def _aggregated_computed(entry: Json) -> Json:
    return {
        "resource": entry["name"],
        "responseKind": {"group": "", "version": "", "kind": entry["kind"]},
        "scope": "Namespaced" if entry["namespaced"] else "Cluster",
        "singularResource": entry["singularName"],
        "verbs": entry["verbs"],
    }


def _kind(resource: Resource, kind: str, group: str, version: str) -> Json:
    if version:
        return {"group": group, "version": version, "kind": kind}
    if resource.is_custom:
        return {"group": resource.group, "version": resource.version, "kind": kind}
    return {"group": "", "version": "", "kind": kind}  # inherited from the enclosing group version
