"""Namespace termination: a deleted namespace is emptied, then let go.

Pods go first, with their grace; only when none is left everything else is deleted. What remains is told in
the conditions of the namespace. When nothing remains, the finalizer `kubernetes` is removed through the
finalize subresource and the server removes the object.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from quarterdeck.api import GroupVersionKind, Time
from quarterdeck.api.k8s import Namespace
from quarterdeck.api.k8s.core import NamespaceCondition
from quarterdeck.client import Client, metadata_of
from quarterdeck.client.discovery import ResourceMapping
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.errors import ApiError, NotFound, ignore_not_found
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Requeue, Result

NAME: Final = "namespace-controller"
_WORKERS: Final = 10
_POD: Final = GroupVersionKind("", "v1", "Pod")
_FINALIZER: Final = "kubernetes"
#: how soon, and how late at most, a namespace that is not empty is looked at again
_RETRY: Final = 0.2
_SLOWEST_RETRY: Final = 5.0


class Remaining(msgspec.Struct):
    """What keeps a namespace from going away."""

    #: `configmaps.`, `widgets.example.com` -> number of objects
    resources: dict[str, int] = {}
    #: finalizer -> number of objects that carry it
    finalizers: dict[str, int] = {}
    #: resources that could not be listed or deleted
    failures: list[str] = []

    @property
    def is_empty(self) -> bool:
        return not self.resources and not self.failures


def conditions_of(remaining: Remaining) -> list[tuple[str, str, str, str]]:
    """(type, status, reason, message) of the conditions that describe a namespace in deletion."""
    conditions = [
        (
            "NamespaceDeletionDiscoveryFailure",
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
    ]
    if remaining.failures:
        text = "Failed to delete all resource types, {} remaining: {}".format(
            len(remaining.failures), ", ".join(remaining.failures)
        )
        conditions.append(("NamespaceDeletionContentFailure", "True", "ContentDeletionFailed", text))
    else:
        text = "All content successfully deleted, may be waiting on finalization"
        conditions.append(("NamespaceDeletionContentFailure", "False", "ContentDeleted", text))
    if remaining.resources:
        listed = ", ".join(
            f"{name} has {count} resource instances" for name, count in sorted(remaining.resources.items())
        )
        conditions.append(
            (
                "NamespaceContentRemaining",
                "True",
                "SomeResourcesRemain",
                f"Some resources are remaining: {listed}",
            )
        )
    else:
        text = "All content successfully removed"
        conditions.append(("NamespaceContentRemaining", "False", "ContentRemoved", text))
    if remaining.finalizers:
        listed = ", ".join(
            f"{name} in {count} resource instances" for name, count in sorted(remaining.finalizers.items())
        )
        text = f"Some content in the namespace has finalizers remaining: {listed}"
        conditions.append(("NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain", text))
    else:
        text = "All content-preserving finalizers finished"
        conditions.append(("NamespaceFinalizersRemaining", "False", "ContentHasNoFinalizers", text))
    return conditions


class NamespaceReconciler(Reconciler[Namespace]):
    """Empties one namespace after the other; ``namespace_controller`` makes the controller."""

    async def reconcile(self, ctx: Context[Namespace]) -> Result | None:
        """Delete what is there; finish the namespace when nothing is left."""
        try:
            namespace = await ctx.get(Namespace, ctx.key.name, live=True)
        except NotFound:
            return None
        if not namespace.metadata.is_deleting or _FINALIZER not in namespace.spec.finalizers:
            return None
        remaining = await _delete_content(ctx.client, namespace.metadata.name)
        if remaining.is_empty:
            await _finalize(ctx.client, namespace)
            return None
        ctx.replace(namespace)
        _report(ctx, remaining)
        return Requeue(after=_patience(namespace, ctx.now()), reason="content-remains")


async def _delete_content(client: Client, namespace: str) -> Remaining:
    await client.mapper.refresh()
    mappings = _one_each(await client.mapper.all())
    remaining = Remaining({}, {}, [])
    for mapping in mappings:
        if mapping.gvk == _POD:
            await _delete_all(client, mapping, namespace, remaining)
    if not remaining.is_empty:  # other objects may still serve the pods that are winding down
        return remaining
    for mapping in mappings:
        if mapping.gvk != _POD:
            await _delete_all(client, mapping, namespace, remaining)
    return remaining


async def _delete_all(client: Client, mapping: ResourceMapping, namespace: str, remaining: Remaining) -> None:
    kind = metadata_of(mapping.gvk)
    try:
        found = await client.list(kind, namespace=namespace)
        if not found.items:
            return
        if "deletecollection" in mapping.verbs:
            await client.delete_all_of(kind, namespace=namespace, labels="", propagation="Background")
        else:
            for item in found.items:
                if not item.metadata.is_deleting:
                    with ignore_not_found():
                        await client.delete(kind, item.metadata.name, namespace, propagation="Background")
        found = await client.list(kind, namespace=namespace)
    except ApiError as error:
        if error.code in (404, 405):  # the kind went away meanwhile
            return
        remaining.failures.append(f"{mapping.gvr.resource}.{mapping.gvk.group}: {error}")
        return
    if found.items:
        remaining.resources[f"{mapping.gvr.resource}.{mapping.gvk.group}"] = len(found.items)
        for item in found.items:
            for finalizer in item.metadata.finalizers:
                remaining.finalizers[finalizer] = remaining.finalizers.get(finalizer, 0) + 1


def _report(ctx: Context[Namespace], remaining: Remaining) -> None:
    """Say in the conditions what is left; written at the end of the run if it is news."""
    known = {condition.type: condition for condition in ctx.obj.status.conditions}
    conditions = []
    for kind, value, reason, message in conditions_of(remaining):
        before = known.get(kind)
        since = before.last_transition_time if before is not None and before.status == value else ctx.now()
        conditions.append(
            NamespaceCondition(
                type=kind, status=value, last_transition_time=since, reason=reason, message=message
            )
        )
    ctx.status.conditions = conditions


def _patience(namespace: Namespace, now: Time) -> float:
    """Soon at first, then less often: a tenth of the time the deletion has been going on."""
    begun = namespace.metadata.deletion_timestamp
    waited = now.timestamp() - begun.timestamp() if isinstance(begun, Time) else 0.0
    return min(max(waited / 10, _RETRY), _SLOWEST_RETRY)


async def _finalize(client: Client, namespace: Namespace) -> None:
    rest = tuple(each for each in namespace.spec.finalizers if each != _FINALIZER)
    finished = namespace.evolve(spec=namespace.spec.evolve(finalizers=rest))
    with ignore_not_found():
        await client.subresource("finalize").update(finished)


def namespace_controller() -> Controller[Namespace]:
    """The controller, for ``manager.add``."""
    return (
        Builder(Namespace, name=NAME)
        .predicates(_IN_DELETION)
        .rbac(
            Rule(groups=("",), resources=("namespaces/finalize",), verbs=("update",)),
            Rule(groups=("*",), resources=("*",), verbs=("delete", "deletecollection", "list")),
        )
        .options(max_concurrent_reconciles=_WORKERS, field_manager=FIELD_MANAGER)
        .build(NamespaceReconciler())
    )


_IN_DELETION: Final = Predicate(
    "in_deletion",
    create=lambda event: event.entry.is_deleting,
    update=lambda event: event.entry.is_deleting,
    delete=lambda _: False,
)


def _one_each(mappings: Sequence[ResourceMapping]) -> list[ResourceMapping]:
    """One version of each namespaced resource that can be listed and deleted."""
    chosen: dict[tuple[str, str], ResourceMapping] = {}
    for mapping in mappings:
        if mapping.is_namespaced and {"list", "delete"} <= mapping.verbs:
            chosen.setdefault((mapping.gvk.group, mapping.gvr.resource), mapping)
    return list(chosen.values())
