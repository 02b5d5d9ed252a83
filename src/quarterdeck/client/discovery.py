"""Which resources a server has: kind ↔ plural, scope, verbs, subresources.

Typed classes carry all that themselves, so programs that only use classes never ask. For everything
else the mapper learns lazily: the first unknown kind costs two requests (aggregated discovery), or one
per group and version on servers without it. A kind that is still unknown makes it look at that group
once more, since its definition may have just been installed, before ``NoKindMatch`` is raised.
``forget`` drops a mapping after the server answered 404 for it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from quarterdeck.api import GroupVersionKind
from quarterdeck.api.codec import UNREADABLE
from quarterdeck.api.kind import GroupKind, GroupVersionResource
from quarterdeck.client.rest import RestClient
from quarterdeck.errors import ApiError, NoKindMatch, NotAcceptable, NotFound, ProtocolError

_AGGREGATED_TYPES: Final = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)
_AGGREGATED: Final = (("accept", _AGGREGATED_TYPES),)
_PLAIN: Final = (("accept", "application/json"),)


class ResourceMapping(msgspec.Struct, frozen=True):
    """One resource of a server."""

    gvk: GroupVersionKind
    gvr: GroupVersionResource
    is_namespaced: bool
    verbs: frozenset[str] = frozenset()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    singular: str = ""
    subresources: frozenset[str] = frozenset()


class RestMapper:
    """Finds resources by kind, lazily."""

    def __init__(self, rest: RestClient) -> None:
        self._rest = rest
        self._by_kind: dict[GroupVersionKind, ResourceMapping] = {}
        self._versions: dict[str, list[str]] = {}
        self._is_complete = False

    async def mapping(self, gvk: GroupVersionKind) -> ResourceMapping:
        """The resource of a kind; raises ``NoKindMatch``."""
        known = self._by_kind.get(gvk)
        if known is not None:
            return known
        if not self._is_complete:
            await self.refresh()
        else:
            await self._refresh_group(gvk.group, gvk.version)
        known = self._by_kind.get(gvk)
        if known is None:
            raise NoKindMatch(gvk.kind, gvk.api_version)
        return known

    async def preferred(self, group_kind: GroupKind) -> ResourceMapping:
        """The resource of a kind in the version the server prefers; raises ``NoKindMatch``."""
        for attempt in (0, 1):
            for version in self._versions.get(group_kind.group, ()):
                known = self._by_kind.get(GroupVersionKind(group_kind.group, version, group_kind.kind))
                if known is not None:
                    return known
            if attempt == 0:
                await self.refresh()
        raise NoKindMatch(group_kind.kind, group_kind.group)

    async def find(self, resource: str) -> ResourceMapping:
        """By plural, singular, short name or kind, with or without group: ``po``, ``deployments.apps``."""
        for attempt in (0, 1):
            for mapping in self._ordered():
                if _is_called(mapping, resource):
                    return mapping
            if attempt == 0:
                await self.refresh()
        raise NoKindMatch(resource, "")

    async def all(self) -> tuple[ResourceMapping, ...]:
        """Every resource, groups and versions in the server's order of preference."""
        if not self._is_complete:
            await self.refresh()
        return tuple(self._ordered())

    def forget(self, gvk: GroupVersionKind) -> None:
        """Drop a mapping that turned out to be stale."""
        self._by_kind.pop(gvk, None)

    async def refresh(self) -> None:
        """Ask the server for everything again."""
        by_kind: dict[GroupVersionKind, ResourceMapping] = {}
        versions: dict[str, list[str]] = {}
        for path in ("/api", "/apis"):
            document = await self._get(path, _AGGREGATED)
            if document.get("kind") == "APIGroupDiscoveryList":
                _read_aggregated(document, by_kind, versions)
            else:
                await self._read_legacy(path, document, by_kind, versions)
        self._by_kind, self._versions = by_kind, versions
        self._is_complete = True

    async def _refresh_group(self, group: str, version: str) -> None:
        try:
            document = await self._get(GroupVersionResource(group, version, "").prefix, _PLAIN)
        except NotFound:
            return
        if version not in self._versions.setdefault(group, []):
            self._versions[group].append(version)
        _read_resources(document, group, version, self._by_kind)

    async def _read_legacy(
        self,
        path: str,
        document: Mapping[str, Any],
        by_kind: dict[GroupVersionKind, ResourceMapping],
        versions: dict[str, list[str]],
    ) -> None:
        if path == "/api":
            groups: list[tuple[str, list[str]]] = [("", list(document.get("versions", ())))]
        else:
            groups = [(group["name"], _preferred_first(group)) for group in document.get("groups", ())]
        for group, names in groups:
            versions[group] = names
            for version in names:
                try:
                    found = await self._get(GroupVersionResource(group, version, "").prefix, _PLAIN)
                except ApiError:
                    continue  # an extension server that is down must not hide the others
                _read_resources(found, group, version, by_kind)

    async def _get(self, path: str, headers: tuple[tuple[str, str], ...]) -> dict[str, Any]:
        try:
            response = await self._rest.request("GET", path, verb="get", headers=headers)
        except NotAcceptable:
            response = await self._rest.request("GET", path, verb="get", headers=_PLAIN)
        try:
            document: dict[str, Any] = msgspec.json.decode(response.body)
        except UNREADABLE as error:
            raise ProtocolError(f"no discovery document at {path}: {error}") from error
        return document

    def _ordered(self) -> Iterator[ResourceMapping]:
        for group, names in self._versions.items():
            for version in names:
                for gvk, mapping in self._by_kind.items():
                    if gvk.group == group and gvk.version == version:
                        yield mapping


def _preferred_first(group: Mapping[str, Any]) -> list[str]:
    names: list[str] = [version["version"] for version in group.get("versions", ())]
    first: str = (group.get("preferredVersion") or {}).get("version", "")
    return [first, *(name for name in names if name != first)] if first in names else names


def _read_aggregated(
    document: Mapping[str, Any],
    by_kind: dict[GroupVersionKind, ResourceMapping],
    versions: dict[str, list[str]],
) -> None:
    for item in document.get("items", ()):
        group = item["metadata"].get("name", "")
        for entry in item.get("versions", ()):
            version = entry["version"]
            versions.setdefault(group, []).append(version)
            for resource in entry.get("resources", ()):
                kind = resource.get("responseKind") or {}
                gvk = GroupVersionKind(
                    kind.get("group") or group, kind.get("version") or version, kind.get("kind", "")
                )
                if gvk.group != group or gvk.version != version:
                    continue
                by_kind.setdefault(
                    gvk,
                    ResourceMapping(
                        gvk,
                        GroupVersionResource(group, version, resource["resource"]),
                        resource.get("scope") == "Namespaced",
                        frozenset(resource.get("verbs", ())),
                        tuple(resource.get("shortNames", ())),
                        tuple(resource.get("categories", ())),
                        resource.get("singularResource", ""),
                        frozenset(sub["subresource"] for sub in resource.get("subresources", ())),
                    ),
                )


def _read_resources(
    document: Mapping[str, Any],
    group: str,
    version: str,
    by_kind: dict[GroupVersionKind, ResourceMapping],
) -> None:
    entries = document.get("resources", ())
    subresources: dict[str, set[str]] = {}
    for entry in entries:
        parent, _, sub = entry["name"].partition("/")
        if sub:
            subresources.setdefault(parent, set()).add(sub)
    for entry in entries:
        if "/" in entry["name"]:
            continue
        gvk = GroupVersionKind(group, version, entry["kind"])
        by_kind[gvk] = ResourceMapping(
            gvk,
            GroupVersionResource(group, version, entry["name"]),
            bool(entry.get("namespaced")),
            frozenset(entry.get("verbs", ())),
            tuple(entry.get("shortNames", ())),
            tuple(entry.get("categories", ())),
            entry.get("singularName", ""),
            frozenset(subresources.get(entry["name"], ())),
        )


def _is_called(mapping: ResourceMapping, text: str) -> bool:
    name, _, group = text.partition(".")
    if group and mapping.gvr.group != group:
        return False
    wanted = name.lower()
    return (
        wanted in (mapping.gvr.resource, mapping.singular, mapping.gvk.kind.lower())
        or wanted in mapping.short_names
    )
