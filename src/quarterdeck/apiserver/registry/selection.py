"""Label and field selectors of list, watch and deletecollection."""

from __future__ import annotations

from quarterdeck.api.selector import FieldSelector, Requirement, Selector
from quarterdeck.apiserver import status
from quarterdeck.apiserver.resource.resource import Resource
from quarterdeck.apiserver.storage import Entry
from quarterdeck.errors import SchemaError
from quarterdeck.wire import gostyle


class Selection:
    """A compiled pair of selectors for one resource."""

    __slots__ = ("_fields", "_labels", "_resource", "name", "namespace")

    def __init__(self, resource: Resource, label_selector: str, field_selector: str) -> None:
        self._resource = resource
        self.name = ""
        self.namespace = ""
        self._labels: tuple[Requirement, ...] = ()
        self._fields: list[tuple[str, bool, str]] = []
        try:
            if label_selector:
                self._labels = Selector.parse(label_selector).requirements
            terms = FieldSelector.parse(field_selector).terms if field_selector else ()
        except SchemaError as error:
            raise status.bad_request(str(error)) from None
        for term in terms:
            path, equal, value = term.field, term.equal, term.value
            self._check_supported(path)
            if equal and path == "metadata.name":
                if self.name and self.name != value:
                    self._fields.append((path, True, self.name))  # two names: nothing can match
                self.name = value
            if equal and path == "metadata.namespace" and resource.namespaced:
                self.namespace = value
            self._fields.append((path, equal, value))

    def _check_supported(self, path: str) -> None:
        resource = self._resource
        known = resource.strategy.selectable_fields
        if path == "metadata.name" or path in known:
            return
        if path == "metadata.namespace" and (resource.namespaced or not (known or resource.is_custom)):
            return
        if resource.kind == "Job" and known:  # two kinds word it differently
            raise status.bad_request(f"field label {gostyle.quote(path)} not supported for Job")
        if resource.kind == "ResourceSlice" and known:
            raise status.bad_request(f"field label not supported for {resource.gvk_text}: {path}")
        if resource.is_custom or known:
            raise status.bad_request(f"field label not supported: {path}")
        raise status.bad_request(
            f'{gostyle.quote(path)} is not a known field selector: only "metadata.name", "metadata.namespace"'
        )

    @property
    def is_empty(self) -> bool:
        return not self._labels and not self._fields

    def matches(self, entry: Entry) -> bool:
        if self._labels:
            labels = entry.labels
            for requirement in self._labels:
                if not requirement.matches(labels):
                    return False
        return all((self._field(entry, path) == value) is equal for path, equal, value in self._fields)

    def _field(self, entry: Entry, path: str) -> str:
        if path == "metadata.name":
            return entry.name
        if path == "metadata.namespace":
            return entry.namespace
        fields = entry.fields
        if fields is None or path not in fields:
            # an object that is served in two groups has the fields of both
            fields = {**(fields or {}), **(self._resource.selectable(self._resource.read(entry)) or {})}
            entry.remember_fields(fields)
        return fields.get(path, "")
