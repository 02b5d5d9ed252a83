"""Reads of what is stored, by group and resource, for rules that look beyond one object."""

from __future__ import annotations

from collections.abc import Sequence

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.auth import AccessAttributes, Authorizer, forbidden_error
from quarterdeck.apiserver.resource.resource import Resource
from quarterdeck.apiserver.resource.resourcetable import ResourceTable
from quarterdeck.apiserver.resource.serviceallocator import ServiceAllocator
from quarterdeck.apiserver.storage import Entry

#: lists up to this length are kept decoded: every new pod asks for the few PriorityClasses
_KEPT = 100
#: single objects that are kept decoded: every new pod asks for its namespace, every binding for its node
_KEPT_OBJECTS = 512


class StoredState:
    """See strategy.ClusterState. Objects come in the preferred served version; nobody may change them."""

    def __init__(self, table: ResourceTable) -> None:
        self._table = table
        self._lists: dict[tuple[str, str], tuple[Resource, int, list[Json]]] = {}
        self._objects: dict[tuple[Resource, str, str], tuple[Entry, Json]] = {}
        self.service_allocator: ServiceAllocator | None = None
        #: may everything be done that is not a request of its own? None: yes
        self.authorizer: Authorizer | None = None

    def denied(self, question: AccessAttributes) -> str:
        if self.authorizer is None:
            return ""
        decision = self.authorizer.authorize(question)
        return "" if decision.allowed else forbidden_error(question, decision.reason).message

    def get(self, group: str, resource: str, namespace: str, name: str) -> Json | None:
        versions = self._table.versions_of(group, resource)
        if not versions:
            return None
        served = versions[0]
        entry = served.bucket.get(namespace, name)
        return None if entry is None else self.read(served, entry)

    def read(self, resource: Resource, entry: Entry) -> Json:
        """A stored object in a version that it can be read in without asking a webhook."""
        place = (resource, entry.namespace, entry.name)
        known = self._objects.get(place)
        if known is None or known[0] is not entry:
            known = entry, resource.read(entry)
            self._objects.pop(place, None)
            self._objects[place] = known
            if len(self._objects) > _KEPT_OBJECTS:
                del self._objects[next(iter(self._objects))]
        return known[1]

    def exists(self, group: str, resource: str, namespace: str, name: str) -> bool:
        versions = self._table.versions_of(group, resource)
        return bool(versions) and versions[0].bucket.get(namespace, name) is not None

    def list(self, group: str, resource: str, namespace: str = "") -> Sequence[Json]:
        versions = self._table.versions_of(group, resource)
        if not versions:
            return []
        served = versions[0]
        bucket = served.bucket
        if namespace or bucket.count > _KEPT:
            return [served.read(entry) for entry in bucket.scan(namespace)]
        known = self._lists.get((group, resource))
        if known is None or known[0] is not served or known[1] != bucket.last_rev:
            objects = [served.read(entry) for entry in bucket.scan()]
            known = self._lists[group, resource] = served, bucket.last_rev, objects
        return known[2]
