"""A PodGang in the words of Volcano: one PodGroup, with a policy for each group of pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quarterdeck.api import GroupVersionKind, owner_reference, to_dict
from quarterdeck.api.jsonobject import Json
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import GangGroup, PodGang

POD_GROUP: Final = GroupVersionKind("scheduling.volcano.sh", "v1beta1", "PodGroup")
QUEUE: Final = GroupVersionKind("scheduling.volcano.sh", "v1beta1", "Queue")


def plan_pod_group(gang: PodGang, queue: str) -> Json:
    """The PodGroup of a gang."""
    groups = gang.spec.podgroups
    return {
        "apiVersion": POD_GROUP.api_version,
        "kind": POD_GROUP.kind,
        "metadata": {
            "name": gang.metadata.name,
            "namespace": gang.metadata.namespace,
            "labels": dict(gang.metadata.labels),
            "ownerReferences": [to_dict(owner_reference(gang, controller=True))],
        },
        "spec": {
            "minMember": sum(group.min_replicas for group in groups) or 1,
            "subGroupPolicy": [_policy(group) for group in groups],
            "queue": queue,
            "priorityClassName": gang.spec.priority_class_name,
        },
    }


def _policy(group: GangGroup) -> Json:
    return {
        "name": group.name,
        "labelSelector": {"matchLabels": {names.PODCLIQUE: group.name}},
        "matchLabelKeys": [names.PODCLIQUE],
        "subGroupSize": group.min_replicas or 1,
        # the pods of a clique are one subgroup, and that one has to start
        "minSubGroups": 1,
    }


def group_changes(present: Mapping[str, Any], wanted: Mapping[str, Any], gang: PodGang) -> Json:
    """The merge patch that makes a PodGroup what it should be; empty if it is. What others set stays.

    A gang whose minimums were all taken away keeps the constraints that its PodGroup has.
    """
    metadata, spec = present.get("metadata") or {}, present.get("spec") or {}
    labels = {
        key: value
        for key, value in wanted["metadata"]["labels"].items()
        if (metadata.get("labels") or {}).get(key) != value
    }
    fields = dict(wanted["spec"])
    is_constrained = bool(spec.get("minMember") or spec.get("subGroupPolicy"))
    if is_constrained and not any(group.min_replicas for group in gang.spec.podgroups):
        del fields["minMember"], fields["subGroupPolicy"]
    changed = {key: value for key, value in fields.items() if (spec.get(key) or "") != (value or "")}
    patch: Json = {}
    if labels:
        patch["metadata"] = {"labels": labels}
    if changed:
        patch["spec"] = changed
    return patch
