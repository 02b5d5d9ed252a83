"""One object in full, for whoever drills down to it: conditions, owners, YAML, commands to copy. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import yaml

from quarterdeck.api import GroupVersionKind
from quarterdeck.health import KINDS
from quarterdeck.health.field import items, key_of, of

Json = dict[str, Any]
_KNOWN: Final = {each.kind.type_info.gvk.kind: each.kind.type_info.gvk for each in KINDS}
_HIDDEN: Final = "not shown"


def kind_named(kind: str, api_version: str) -> GroupVersionKind | None:
    """The kind that an address names; ``None`` if it needs its version to be known."""
    if not api_version:
        return _KNOWN.get(kind)
    return GroupVersionKind.parse(api_version, kind)


def inspection(obj: Json, events: Iterable[Json], children: Iterable[Json]) -> Json:
    """What the page shows of an object."""
    metadata, status = of(obj, "metadata"), of(obj, "status")
    kind, name = str(obj.get("kind") or ""), str(metadata.get("name") or "")
    namespace = str(metadata.get("namespace") or "")
    key = key_of(obj)
    return {
        "kind": kind,
        "apiVersion": str(obj.get("apiVersion") or ""),
        "namespace": namespace,
        "name": name,
        "since": metadata.get("creationTimestamp", ""),
        "deleting": metadata.get("deletionTimestamp", ""),
        "state": str(status.get("phase") or status.get("terminalState") or status.get("state") or ""),
        "labels": of(metadata, "labels"),
        "conditions": [
            {
                field: str(each.get(field) or "")
                for field in ("type", "status", "reason", "message", "lastTransitionTime")
            }
            for each in items(status, "conditions")
        ],
        "owners": [
            {
                "kind": each.get("kind", ""),
                "apiVersion": each.get("apiVersion", ""),
                "namespace": namespace,
                "name": each.get("name", ""),
            }
            for each in items(metadata, "ownerReferences")
        ],
        "children": sorted(children, key=lambda each: (each["kind"], each["name"])),
        "events": [each for each in events if (each["kind"], each["about"]) == (kind, key)],
        "containers": [
            each.get("name", "")
            for field in ("initContainers", "containers")
            for each in items(of(obj, "spec"), field)
        ]
        if kind == "Pod"
        else [],
        "commands": _commands(kind, namespace, name),
        "yaml": yaml.safe_dump(_readable(obj), sort_keys=False, default_flow_style=False, width=110),
    }


def _readable(obj: Mapping[str, Any]) -> Json:
    """The object without what nobody reads, and without what nobody should."""
    metadata = {name: value for name, value in of(obj, "metadata").items() if name != "managedFields"}
    shown: Json = {**obj, "metadata": metadata}
    if obj.get("kind") == "Secret":
        for field in ("data", "stringData"):
            if of(obj, field):
                shown[field] = dict.fromkeys(of(obj, field), _HIDDEN)
        metadata["annotations"] = dict.fromkeys(of(metadata, "annotations"), _HIDDEN)
    return shown


def _commands(kind: str, namespace: str, name: str) -> list[str]:
    where = f"{kind.lower()}/{name}" + (f" -n {namespace}" if namespace else "")
    found = [f"kubectl describe {where}", f"kubectl get {where} -o yaml"]
    if kind == "Pod":
        found += [f"kubectl logs {where} -f", f"kubectl logs {where} --previous"]
    if kind == "PodGroup":
        found.append(f"quarterdeck scheduler explain podgroup {namespace}/{name}")
    return found
