"""What is known of a pod when its group is told: its owners, and what else of the cluster matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import msgspec

from quarterdeck.api import DynamicObject, GroupVersionKind
from quarterdeck.api.k8s import Pod
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.types import PodGroup


class KindDefault(msgspec.Struct, frozen=True, rename="camel"):
    """Priority and preemptibility for a kind of workload whose author says nothing about them."""

    type_name: str
    group: str = ""
    """Empty for the kind in any group."""
    priority_name: str = ""
    preemptibility: str = ""


def parse_kind_defaults(text: str) -> tuple[KindDefault, ...]:
    """The defaults of a ConfigMap's key; raises ``ValueError`` for text that is no list of them."""
    try:
        return msgspec.json.decode(text, type=tuple[KindDefault, ...])
    except msgspec.DecodeError as error:
        raise ValueError(f"default priorities cannot be read: {error}") from error


class Reference(msgspec.Struct, frozen=True):
    """Another object that a grouper wants to see."""

    kind: GroupVersionKind
    name: str
    is_watched: bool = False
    """Whether the operator watches the kind; others are read when they are asked for."""


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """A pod and what was found about it."""

    pod: Pod
    owners: tuple[DynamicObject, ...] = ()
    """From the pod's own owner up to the top; empty for a pod without owner."""
    related: DynamicObject | None = None
    """What the grouper asked for."""
    companions: tuple[Pod, ...] = ()
    """Other pods that the grouper asked for."""
    groups: tuple[PodGroup, ...] = ()
    """PodGroups that the top owner has already, if the grouper asked for them."""
    priority_classes: frozenset[str] = frozenset()
    """Names of the PriorityClasses that exist."""
    kind_defaults: Sequence[KindDefault] = ()
    node_pool_label: str = names.NODE_POOL_LABEL

    @property
    def node_pool(self) -> str | None:
        """The node pool that the pod asks for."""
        return self.pod.metadata.labels.get(self.node_pool_label)

    @property
    def top_owner(self) -> DynamicObject:
        """The owner that is not owned itself; the pod, if it has none."""
        return self.owners[-1] if self.owners else DynamicObject(self.pod.to_dict())

    def without_top_owner(self) -> Self:
        """The same workload as if the next owner were the top; it inherits what it lacks of metadata.

        The defaults for the kind that is skipped are for those below it.
        """
        skipped = self._with_defaults(self.owners[-1])
        if len(self.owners) == 1:
            heir = _inheriting(DynamicObject(self.pod.to_dict()), skipped)
            return msgspec.structs.replace(self, owners=(), pod=Pod.from_dict(heir.to_dict()))
        heir = _inheriting(self.owners[-2], skipped)
        return msgspec.structs.replace(self, owners=(*self.owners[:-2], heir))

    def _with_defaults(self, owner: DynamicObject) -> DynamicObject:
        """An owner with the labels that its kind has unless it says otherwise."""
        by_kind = {(default.group, default.type_name): default for default in self.kind_defaults}
        kind = owner.gvk
        default = by_kind.get((kind.group, kind.kind)) or by_kind.get(("", kind.kind))
        if default is None:
            return owner
        labels = {}
        if default.priority_name in self.priority_classes:
            labels[names.PRIORITY_CLASS_LABEL] = default.priority_name
        if default.preemptibility:
            labels[names.PREEMPTIBILITY_LABEL] = default.preemptibility.lower()
        document = owner.draft()
        document["metadata"]["labels"] = {**labels, **owner.metadata.labels}
        return DynamicObject(document)


def _inheriting(heir: DynamicObject, ancestor: DynamicObject) -> DynamicObject:
    document: dict[str, Any] = heir.draft()
    metadata = document.setdefault("metadata", {})
    inherited: Mapping[str, Mapping[str, str]] = {
        "labels": ancestor.metadata.labels,
        "annotations": ancestor.metadata.annotations,
    }
    for field, values in inherited.items():
        if values:
            metadata[field] = {**values, **(metadata.get(field) or {})}
    return DynamicObject(document)
