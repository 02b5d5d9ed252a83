"""Gangs in the words of the default scheduler: a Workload, and one PodGroup for each of its templates.

The scheduler starts each PodGroup as a whole; that all of them start together is more than it can say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quarterdeck.api import GroupVersionKind, owner_reference, to_dict
from quarterdeck.api.jsonobject import Json
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import PodGang

from .gangowner import owning_set

WORKLOAD: Final = GroupVersionKind("scheduling.k8s.io", "v1alpha2", "Workload")
POD_GROUP: Final = GroupVersionKind("scheduling.k8s.io", "v1alpha2", "PodGroup")


def plan_workload(gang: PodGang) -> Json:
    """The Workload of a gang; raises ``MappingError`` for a gang that no set owns."""
    templates = [
        {"name": group.name, "schedulingPolicy": _policy(group.min_replicas)} for group in gang.spec.podgroups
    ]
    owner = {"apiGroup": names.GROUP, "kind": "PodCliqueSet", "name": owning_set(gang).name}
    return _object(
        WORKLOAD, gang, gang.metadata.name, {"controllerRef": owner, "podGroupTemplates": templates}
    )


def plan_pod_groups(gang: PodGang) -> list[Json]:
    """The PodGroups of a gang, named like its PodCliques."""
    return [
        _object(
            POD_GROUP,
            gang,
            group.name,
            {
                "podGroupTemplateRef": {
                    "workload": {"workloadName": gang.metadata.name, "podGroupTemplateName": group.name}
                },
                "schedulingPolicy": _policy(group.min_replicas),
            },
        )
        for group in gang.spec.podgroups
    ]


def _policy(least: int) -> Json:
    return {"gang": {"minCount": least}}


def _object(gvk: GroupVersionKind, gang: PodGang, name: str, spec: Json) -> Json:
    managed = {key: gang.metadata.labels[key] for key in _COPIED if key in gang.metadata.labels}
    return {
        "apiVersion": gvk.api_version,
        "kind": gvk.kind,
        "metadata": {
            "name": name,
            "namespace": gang.metadata.namespace,
            "labels": {**managed, names.PODGANG: gang.metadata.name},
            "ownerReferences": [to_dict(owner_reference(gang, controller=True))],
        },
        "spec": spec,
    }


_COPIED: Final = (names.MANAGED_BY, names.PART_OF)


def has_same_policy(present: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether an object says what it should, whatever the server added to it."""
    return _essence(present.get("spec") or {}) == _essence(wanted["spec"])


def _essence(spec: Mapping[str, Any]) -> list[tuple[str, object]]:
    parts = spec.get("podGroupTemplates") or [{"name": "", **spec}]
    return [(part["name"], _least(part.get("schedulingPolicy") or {})) for part in parts]


def _least(policy: Mapping[str, Any]) -> object:
    return (policy.get("gang") or {}).get("minCount")
