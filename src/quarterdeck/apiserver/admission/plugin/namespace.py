"""NamespaceLifecycle: some namespaces stay for ever.

Its other half, that nothing is created in a namespace that is missing or goes away, is part of every
create (`registry.create`): it looks at the namespace in the same breath as the write is committed.
"""

from __future__ import annotations

from typing import Final

from quarterdeck.apiserver.admission.attributes import Attributes
from quarterdeck.apiserver.status import StatusError, forbidden

from .base import DELETE, Plugin, keys

_IMMORTAL: Final = frozenset(("default", "kube-system", "kube-public"))


class NamespaceLifecycle(Plugin):
    """Keeps namespaces that every cluster has."""

    name = "NamespaceLifecycle"
    validates = keys("", ("namespaces",), (DELETE,))

    def validate(self, attributes: Attributes) -> None:
        name = attributes.object_name()
        if name in _IMMORTAL:
            raise forbidden("namespaces", "", name, "this namespace may not be deleted")


def terminating_namespace(group: str, resource: str, name: str, namespace: str) -> StatusError:
    """What a create in a namespace that is going away is answered."""
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    return forbidden(resource, group, name, why, causes=[cause])
