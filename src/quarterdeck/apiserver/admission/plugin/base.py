"""What an admission plugin is.

A plugin says which writes it looks at (`mutates`, `validates`), changes `attributes.object` in place and
raises StatusError to refuse. Objects are defaulted. Nothing here reads storage by itself: what a plugin
needs of the cluster it asks `attributes.context.cluster`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import ClassVar, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.admission.attributes import Attributes

#: group, resource, subresource, operation
Key = tuple[str, str, str, str]

CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"
DELETE: Final = "DELETE"


def keys(group: str, resources: Iterable[str], operations: Iterable[str]) -> frozenset[Key]:
    """The writes of these operations to these resources (`pods`, `pods/resize`) of one group."""
    return frozenset(
        (group, *_split(resource), operation) for resource, operation in product(resources, operations)
    )


def _split(resource: str) -> tuple[str, str]:
    plural, _, subresource = resource.partition("/")
    return plural, subresource


class Plugin:
    """An admission plugin under upstream's name; without overrides it lets everything pass."""

    name: ClassVar[str]
    mutates: ClassVar[frozenset[Key]] = frozenset()
    validates: ClassVar[frozenset[Key]] = frozenset()
    #: it looks at the writes of nodes (system:node:NAME in system:nodes) alone
    only_nodes: ClassVar[bool] = False

    async def prepare(self, attributes: Attributes) -> None:
        """Before `mutate`: wait for what a controller is about to create."""

    def mutate(self, attributes: Attributes) -> None:
        """Change the object; raises StatusError."""

    def validate(self, attributes: Attributes) -> None:
        """Look at what is about to be stored; raises StatusError."""


def spec_of(obj: Json | None) -> Json:
    """The spec of an object, {} where it has none."""
    return (obj or {}).get("spec") or {}


def annotations_of(obj: Json | None) -> dict[str, str]:
    return ((obj or {}).get("metadata") or {}).get("annotations") or {}
