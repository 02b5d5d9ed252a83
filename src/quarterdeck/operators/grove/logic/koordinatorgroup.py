"""A PodGang in the words of Koordinator: a PodGroup for each group of pods, and their names in each of them.

PodGroups that name each other start together or not at all; each of them has a minimum of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from quarterdeck.api import GroupVersionKind, owner_reference, to_dict
from quarterdeck.api.jsonobject import Json
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import PodGang

POD_GROUP: Final = GroupVersionKind("scheduling.sigs.k8s.io", "v1alpha1", "PodGroup")


def plan_pod_groups(gang: PodGang) -> list[Json]:
    """The PodGroups of a gang, named after its PodCliques."""
    namespace, groups = gang.metadata.namespace, gang.spec.podgroups
    together = msgspec.json.encode([f"{namespace}/{group.name}" for group in groups]).decode()
    return [
        {
            "apiVersion": POD_GROUP.api_version,
            "kind": POD_GROUP.kind,
            "metadata": {
                "name": group.name,
                "namespace": namespace,
                "labels": dict(gang.metadata.labels),
                "annotations": {names.KOORDINATOR_GROUPS: together},
                "ownerReferences": [to_dict(owner_reference(gang, controller=True))],
            },
            "spec": {"minMember": group.min_replicas or 1},
        }
        for group in groups
    ]


def group_changes(present: Mapping[str, Any], wanted: Mapping[str, Any]) -> Json:
    """The merge patch that makes a PodGroup what it should be; empty if it is. What others set stays."""
    patch: Json = {}
    for part in ("labels", "annotations"):
        if changed := _changed(present["metadata"].get(part), wanted["metadata"][part]):
            patch.setdefault("metadata", {})[part] = changed
    if changed := _changed(present.get("spec"), wanted["spec"]):
        patch["spec"] = changed
    return patch


def _changed(present: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> Json:
    return {key: value for key, value in wanted.items() if (present or {}).get(key) != value}
