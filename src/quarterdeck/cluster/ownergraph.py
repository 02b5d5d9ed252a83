"""Who owns whom, by UID: the garbage collector's picture of the cluster. Pure bookkeeping, no I/O.

Objects enter and leave as their metadata is observed. An owner that is referred to but has never been
seen is only a reference here; whether it exists is for the collector to find out.

Most objects of a large cluster have no owner and are not being deleted. Nothing has to be decided about
such an object; others only ask whether it is there, and in which namespace. So it has a ``Place``, one for
all objects of a kind in a namespace, instead of a ``Node``.
"""

from __future__ import annotations

from typing import ClassVar, Final

import msgspec

from quarterdeck.api import GroupVersionKind, OwnerReference

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"


class Place(msgspec.Struct, frozen=True, gc=False):
    """Where objects are about which there is nothing to decide."""

    gvk: GroupVersionKind
    namespace: str
    waits_for_dependents: ClassVar[bool] = False


class Node(msgspec.Struct, frozen=True, gc=False):
    """The last observed state of one object that has owners or is being deleted."""

    gvk: GroupVersionKind
    namespace: str
    name: str
    uid: str
    owners: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    is_deleting: bool = False

    @property
    def waits_for_dependents(self) -> bool:
        """Deleted in the foreground: it goes when its blocking dependents are gone."""
        return self.is_deleting and FOREGROUND in self.finalizers

    @property
    def orphans_dependents(self) -> bool:
        return self.is_deleting and ORPHAN in self.finalizers

    def blocks(self, owner_uid: str) -> bool:
        """Whether the owner's foreground deletion waits for this object."""
        return any(owner.uid == owner_uid and owner.block_owner_deletion for owner in self.owners)

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.gvk.kind} {place}"


class OwnerGraph:
    """Nodes and the edges from owners to dependents."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node | Place] = {}
        self._places: dict[Place, Place] = {}
        self._dependents: dict[str, str | set[str]] = {}
        """UIDs by that of their owner; many an owner has one dependent, which needs no set."""

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, uid: str) -> Node | Place | None:
        return self._nodes.get(uid)

    def dependents(self, uid: str) -> list[Node]:
        """The observed objects that name this UID among their owners."""
        found = (self._nodes[each] for each in self._dependents_of(uid))
        return [node for node in found if isinstance(node, Node)]

    def is_blocked(self, uid: str) -> bool:
        """Whether there are dependents that a foreground deletion waits for."""
        return any(dependent.blocks(uid) for dependent in self.dependents(uid))

    def observe(self, node: Node) -> set[str]:
        """Take an object's new state; returns the UIDs of objects to look at because of it."""
        before = self._nodes.get(node.uid)
        self._keep(node)
        old_owners = {owner.uid for owner in before.owners} if isinstance(before, Node) else set()
        new_owners = {owner.uid for owner in node.owners}
        for uid in old_owners - new_owners:
            self._unlink(uid, node.uid)
        for uid in new_owners - old_owners:
            self._link(uid, node.uid)
        affected: set[str] = set()
        if self._needs_look(node):
            affected.add(node.uid)
        if node.waits_for_dependents and (before is None or not before.waits_for_dependents):
            # They are to go; whoever comes later, or has changed since, is looked at when it is observed.
            affected |= self._dependents_of(node.uid)
        # an owner in foreground deletion may have one blocker less
        affected |= {uid for uid in old_owners | new_owners if self._waits(uid)}
        return affected

    def forget(self, uid: str) -> set[str]:
        """An object is gone; returns the UIDs of objects to look at because of it."""
        node = self._nodes.pop(uid, None)
        affected = self._dependents_of(uid)
        if isinstance(node, Node):
            for owner in node.owners:
                self._unlink(owner.uid, uid)
                if self._waits(owner.uid):
                    affected.add(owner.uid)
        return affected

    def forget_kind(self, gvk: GroupVersionKind) -> set[str]:
        """A kind is no longer observed; returns the UIDs of objects to look at because of it."""
        affected: set[str] = set()
        for uid in [uid for uid, node in self._nodes.items() if node.gvk == gvk]:
            affected |= self.forget(uid)
        return affected

    def _keep(self, node: Node) -> None:
        if node.owners or node.is_deleting:
            self._nodes[node.uid] = node
        else:
            place = Place(node.gvk, node.namespace)
            self._nodes[node.uid] = self._places.setdefault(place, place)

    def _needs_look(self, node: Node) -> bool:
        """Whether an object may have to go. While all its owners are known to stay, it stays as well, and
        their going wakes it."""
        if node.is_deleting:
            return node.waits_for_dependents or node.orphans_dependents
        return not all(self._stays(owner.uid, node.namespace) for owner in node.owners)

    def _stays(self, uid: str, namespace: str) -> bool:
        owner = self._nodes.get(uid)
        return owner is not None and owner.namespace in ("", namespace) and not owner.waits_for_dependents

    def _waits(self, uid: str) -> bool:
        node = self._nodes.get(uid)
        return node is not None and node.waits_for_dependents

    def _dependents_of(self, uid: str) -> set[str]:
        known = self._dependents.get(uid, set())
        return {known} if isinstance(known, str) else set(known)

    def _link(self, owner: str, dependent: str) -> None:
        known = self._dependents.get(owner)
        if known is None:
            self._dependents[owner] = dependent
        elif isinstance(known, set):
            known.add(dependent)
        elif known != dependent:
            self._dependents[owner] = {known, dependent}

    def _unlink(self, owner: str, dependent: str) -> None:
        known = self._dependents.get(owner)
        if isinstance(known, set):
            known.discard(dependent)
        if not known or known == dependent:
            self._dependents.pop(owner, None)
