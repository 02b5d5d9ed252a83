"""The built-in resources: discovery facts, types and strategies put together.

Which resources there are, their verbs, short names and subresources comes from
`data/resources.json`; what their fields are from the type table; their rules from
`builtin.catalog`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from .builtin.builtinresource import BuiltinResource
from .builtin.catalog import strategy_for
from .builtin.check.deprecation import request_warning
from .builtin.versions import converter_for
from .crd.strategy import DefinitionStrategy
from .document.typetable import struct_for
from .resource.resource import Subresource
from .resource.strategy import Strategy
from .storage import Store

#: groups that share the objects of another one: (group, resource) -> where they are stored
_SHARED = {("events.k8s.io", "events"): ("", "events")}


class _SubresourceFacts(msgspec.Struct):
    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


class _ResourceFacts(msgspec.Struct, rename="camel"):
    name: str
    singular_name: str
    namespaced: bool
    kind: str
    verbs: tuple[str, ...]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    storage_version_hash: str = ""
    subresources: tuple[_SubresourceFacts, ...] = ()


class _Version(msgspec.Struct):
    version: str
    resources: list[_ResourceFacts]


class _Group(msgspec.Struct):
    group: str
    versions: list[_Version]


class _Facts(msgspec.Struct):
    groups: list[_Group]
    bootstrap: dict[str, list[dict[str, Any]]]


@cache
def facts() -> _Facts:
    return msgspec.json.decode((Path(__file__).parent / "data" / "resources.json").read_bytes(), type=_Facts)


def _strategy(group: str, resource: str) -> Strategy:
    if resource == "customresourcedefinitions":
        return DefinitionStrategy()
    return strategy_for(group, resource)


def builtin_resources(store: Store) -> list[BuiltinResource]:
    """Every built-in resource over the store's buckets."""
    resources = []
    for group in facts().groups:
        for version in group.versions:
            for known in version.resources:
                place = _SHARED.get((group.group, known.name), (group.group, known.name))
                resources.append(
                    BuiltinResource(
                        struct=struct_for(group.group, version.version, known.kind),
                        converter=converter_for(group.group, version.version, known.name),
                        group=group.group,
                        version=version.version,
                        plural=known.name,
                        singular=known.singular_name,
                        kind=known.kind,
                        namespaced=known.namespaced,
                        verbs=known.verbs,
                        short_names=known.short_names,
                        categories=known.categories,
                        storage_version_hash=known.storage_version_hash,
                        subresources={
                            sub.name: Subresource(sub.name, sub.kind, sub.verbs, sub.group, sub.version)
                            for sub in known.subresources
                        },
                        bucket=store.bucket(*place, namespaced=known.namespaced),
                        strategy=_strategy(group.group, known.name),
                        deprecation=request_warning(group.group, known.name),
                    )
                )
    return resources
