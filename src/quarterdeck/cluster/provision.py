"""What controllers share that put an object of their own into every namespace."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quarterdeck.api import Key, PartialObjectMetadata, Resource
from quarterdeck.api.k8s import Namespace
from quarterdeck.errors import AlreadyExists, Forbidden, NotFound
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.reconcile.context import Context

IN_USE: Final = Predicate("in_use", update=lambda event: not event.entry.is_deleting, delete=lambda _: False)
"""Namespaces that may need something; those in deletion only lose things."""


def named(name: str) -> Predicate:
    """Objects with this name that changed or went."""
    return Predicate(
        f"named({name})",
        create=lambda _: False,
        update=lambda event: event.entry.name == name,
        delete=lambda event: event.entry.name == name,
    )


def namespace_of(_: MapContext, obj: PartialObjectMetadata) -> Iterable[Key]:
    """The key of an object's namespace."""
    return (Key("", obj.metadata.namespace),)


def is_active(namespace: Namespace) -> bool:
    """Whether objects can be created there."""
    return namespace.status.phase == "Active" and not namespace.metadata.is_deleting


async def create_in_namespace(ctx: Context[Namespace], obj: Resource) -> None:
    """Create an object, unless it is there by now or its namespace is going away."""
    try:
        await ctx.create(obj)
    except (AlreadyExists, NotFound):
        return
    except Forbidden as error:
        if not any(cause.reason == "NamespaceTerminating" for cause in error.details.causes):
            raise
