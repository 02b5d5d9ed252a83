"""managedFields across the scale subresource.

A Scale is a view of another object: its spec.replicas is a field of the parent. So the parent's entries
that own that field become entries of the Scale, the field manager of Scale works on those, and what comes
out is put back in place of what went in.

    scale["metadata"]["managedFields"] = to_scale(parent_entries, paths)
    ...                                       # FieldManager of autoscaling/v1 Scale, subresource "scale"
    parent_entries = to_parent(parent_entries, scale_entries, api_version, paths)

`paths` maps each apiVersion of the parent to the path of its replicas, `("f:spec", "f:replicas")`; None
for a version without a scale subresource.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quarterdeck.api.jsonobject import Json

from . import fieldset
from .managed import Managed, ManagedEntry, encode, read_stored

Path = tuple[str, ...]

API_VERSION: Final = "autoscaling/v1"
_REPLICAS: Final = ("f:spec", "f:replicas")


def to_scale(entries: list[Json] | None, paths: Mapping[str, Path | None]) -> list[Json]:
    """The entries of the Scale."""
    scale: Managed = {}
    for identity, entry in read_stored(entries).items():
        path = paths.get(entry.api_version)
        if path is not None and fieldset.contains(entry.fields, path):
            scale[identity] = ManagedEntry(API_VERSION, fieldset.from_paths([_REPLICAS]), entry.time)
    return encode(scale)


def to_parent(
    entries: list[Json] | None,
    scale_entries: list[Json] | None,
    api_version: str,
    paths: Mapping[str, Path | None],
) -> list[Json]:
    """The parent's entries after a write through its Scale in `api_version`."""
    path = paths[api_version]
    assert path is not None
    stored = read_stored(entries)
    owners = {
        (identity.manager, identity.operation, identity.subresource): identity
        for identity, entry in read_stored(scale_entries).items()
        if fieldset.contains(entry.fields, _REPLICAS)
    }
    parent: Managed = {}
    for identity, entry in stored.items():
        if entry.api_version not in paths:
            continue
        own = paths[entry.api_version]
        owner = (identity.manager, identity.operation, identity.subresource)
        if own is None or not fieldset.contains(entry.fields, own) or owners.pop(owner, None) is not None:
            parent[identity] = entry
        else:
            fields = fieldset.difference(entry.fields, fieldset.from_paths([own]))
            if fields:
                parent[identity] = entry._replace(fields=fields)
    for each in owners.values():
        identity = each._replace(api_version=api_version if each.operation == "Update" else "")
        # Upstream does not date entries made through a Scale.
        time = stored[identity].time if identity in stored else None
        parent[identity] = ManagedEntry(api_version, fieldset.from_paths([path]), time)
    return encode(parent)
