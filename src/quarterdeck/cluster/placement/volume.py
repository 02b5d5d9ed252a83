"""What the claims of a pod demand of its node.

A claim that is bound ties the pod to the nodes that reach its volume. One that waits for its first consumer
leaves the choice to the scheduler, within the topologies of its class. One that is to be bound at once, and
is not, keeps the pod waiting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from quarterdeck.api import value_or
from quarterdeck.api.k8s import (
    CSINode,
    NodeSelector,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from quarterdeck.api.k8s.placement import NodeSelectorRequirement, NodeSelectorTerm
from quarterdeck.cluster.placement.state import Demand
from quarterdeck.cluster.placement.volumelimit import Volume
from quarterdeck.cluster.volume.names import BIND_COMPLETED, OLD_CLASS, WAITS
from quarterdeck.runtime.cache import Cache

_UNBOUND: Final = "pod has unbound immediate PersistentVolumeClaims"
_NO_VOLUME: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


def claims_of(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the claims that a pod uses, in its namespace."""
    names = []
    for volume in pod["spec"].get("volumes") or ():
        if volume.get("persistentVolumeClaim") is not None:
            names.append(volume["persistentVolumeClaim"].get("claimName", ""))
        elif volume.get("ephemeral") is not None:
            names.append(f"{pod['metadata']['name']}-{volume['name']}")
    return tuple(names)


class VolumeReader:
    """Reads claims, volumes and classes of the cache."""

    def __init__(self, cache: Cache) -> None:
        self._cache: Final = cache

    def demanded(self, demand: Demand, claims: Iterable[str]) -> tuple[Demand, tuple[str, ...]]:
        """A demand with that of its claims, and the claims that get volumes once it has a node."""
        reached: list[NodeSelector] = []
        possible: list[NodeSelector] = []
        unbound: list[str] = []
        for name in claims:
            claim = self._find(PersistentVolumeClaim, name, demand.info.namespace)
            if claim is None:
                return self._hopeless(demand, f'persistentvolumeclaim "{name}" not found')
            if claim.metadata.is_deleting:
                return self._hopeless(demand, f'persistentvolumeclaim "{name}" is being deleted')
            if claim.spec.volume_name and BIND_COMPLETED in claim.metadata.annotations:
                volume = self._find(PersistentVolume, claim.spec.volume_name)
                if volume is None:
                    return self._hopeless(demand, _NO_VOLUME)
                affinity = volume.spec.node_affinity
                if affinity and affinity.required:
                    reached.append(affinity.required)
                continue
            storage_class = self._class_of(claim)
            if storage_class is None or storage_class.volume_binding_mode != WAITS:
                return self._hopeless(demand, _UNBOUND)
            unbound.append(name)
            if storage_class.allowed_topologies:
                possible.append(_selector(storage_class))
        constraints = msgspec.structs.replace(
            demand.info.constraints, volume_nodes=tuple(reached), claim_nodes=tuple(possible)
        )
        info = msgspec.structs.replace(demand.info, constraints=constraints)
        return msgspec.structs.replace(demand, info=info), tuple(unbound)

    def limits(self) -> dict[str, dict[str, int]]:
        """How many volumes nodes can have attached, by node and driver, where that is limited."""
        found = {}
        for node in self._all(CSINode):
            counts = {
                driver.name: driver.allocatable.count
                for driver in node.spec.drivers
                if driver.allocatable and isinstance(driver.allocatable.count, int)
            }
            if counts:
                found[node.metadata.name] = counts
        return found

    def attachable(self, namespace: str, claims: Iterable[str]) -> frozenset[Volume]:
        """The volumes of CSI drivers behind claims; one that is yet to be made is of its class's driver."""
        found = set()
        for name in claims:
            claim = self._find(PersistentVolumeClaim, name, namespace)
            if claim is None:
                continue
            volume = self._find(PersistentVolume, value_or(claim.spec.volume_name, ""))
            storage_class = self._class_of(claim) if volume is None else None
            if storage_class is not None:
                found.add(Volume(storage_class.provisioner, f"{namespace}/{name}"))
            elif volume is not None and volume.spec.csi:
                found.add(Volume(volume.spec.csi.driver, volume.spec.csi.volume_handle))
        return frozenset(found)

    def attached(self) -> Iterable[tuple[str, Volume]]:
        """What is attached to nodes according to VolumeAttachments, whoever uses it."""
        for each in self._all(VolumeAttachment):
            name = each.spec.source.persistent_volume_name
            volume = self._find(PersistentVolume, name) if isinstance(name, str) else None
            if volume is not None and volume.spec.csi:
                yield each.spec.node_name, Volume(each.spec.attacher, volume.spec.csi.volume_handle)

    def _all(self, kind: type[Any]) -> Iterable[Any]:
        informer = self._cache.informer(kind)
        return map(informer.decoder(kind), informer.entries())

    @staticmethod
    def _hopeless(demand: Demand, problem: str) -> tuple[Demand, tuple[str, ...]]:
        return msgspec.structs.replace(demand, problem=problem), ()

    def _class_of(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        name = claim.metadata.annotations.get(OLD_CLASS) or claim.spec.storage_class_name
        return self._find(StorageClass, name) if isinstance(name, str) and name else None

    def _find(self, kind: type[Any], name: str, namespace: str = "") -> Any:
        informer = self._cache.informer(kind)
        entry = informer.get(namespace, name)
        return None if entry is None else informer.decoder(kind)(entry)


def _selector(storage_class: StorageClass) -> NodeSelector:
    """Where a class makes volumes."""
    return NodeSelector(
        node_selector_terms=tuple(
            NodeSelectorTerm(
                match_expressions=tuple(
                    NodeSelectorRequirement(key=each.key, operator="In", values=each.values)
                    for each in term.match_label_expressions
                )
            )
            for term in storage_class.allowed_topologies
        )
    )
