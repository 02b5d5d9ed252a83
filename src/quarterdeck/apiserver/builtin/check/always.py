"""The admission checks that are always on.

    covers(group, resource, subresource, operation)
    mutate(group, resource, subresource, operation, obj, old, ctx)
    validate(group, resource, subresource, operation, obj, old, ctx)

`mutate` changes `obj` in place; both raise StatusError to refuse. Objects are defaulted.
"""

from __future__ import annotations

from typing import Final

from quarterdeck.apiserver.resource.strategy import Json, WriteContext
from quarterdeck.apiserver.status import StatusError, forbidden

from . import priority, tolerations, topologylabel
from . import resize as resizecheck
from . import runtimeclass as runtimeclasscheck

_MUTATED: Final = frozenset(
    (
        ("", "pods", "", "CREATE"),
        ("", "pods", "", "UPDATE"),
        ("", "pods", "binding", "CREATE"),
        ("", "nodes", "", "CREATE"),
        ("", "persistentvolumeclaims", "", "CREATE"),
        ("", "persistentvolumes", "", "CREATE"),
    )
)
_IN_USE_FINALIZERS: Final = {
    "persistentvolumeclaims": "kubernetes.io/pvc-protection",
    "persistentvolumes": "kubernetes.io/pv-protection",
}
_VALIDATED: Final = frozenset(
    (
        ("", "pods", "", "CREATE"),
        ("", "pods", "resize", "UPDATE"),
        ("", "namespaces", "", "DELETE"),
        ("scheduling.k8s.io", "priorityclasses", "", "CREATE"),
        ("scheduling.k8s.io", "priorityclasses", "", "UPDATE"),
    )
)
_IMMORTAL: Final = frozenset(("default", "kube-system", "kube-public"))


def covers(group: str, resource: str, subresource: str, operation: str) -> bool:
    """Whether any check looks at such a request."""
    key = (group, resource, subresource, operation)
    return key in _MUTATED or key in _VALIDATED


def _name(obj: Json | None) -> str:
    meta = (obj or {}).get("metadata") or {}
    return meta.get("name") or meta.get("generateName") or ""


def mutate(
    group: str,
    resource: str,
    subresource: str,
    operation: str,
    obj: Json | None,
    old: Json | None,
    ctx: WriteContext,
) -> None:
    if obj is None or (group, resource, subresource, operation) not in _MUTATED:
        return
    if resource == "nodes":
        tolerations.add_not_ready_taint(obj)
        return
    if resource in _IN_USE_FINALIZERS:
        _add_finalizer(obj, _IN_USE_FINALIZERS[resource])
        return
    if subresource == "binding":
        target = obj.get("target") or {}
        if target.get("kind") == "Node" and target.get("name"):
            topologylabel.copy_labels(obj, target["name"], ctx.cluster)
        return
    spec = obj.get("spec")
    if spec is None:
        spec = obj["spec"] = {}
    if operation == "UPDATE":
        priority.admit_changed_pod(obj, old or {})
        tolerations.add_default_tolerations(obj)
        return
    priority.admit_new_pod(obj, _name(obj), ctx.cluster)
    tolerations.add_default_tolerations(obj)
    if spec.get("runtimeClassName"):
        runtimeclasscheck.apply_class(obj, _name(obj), ctx.cluster)
    if spec.get("nodeName"):
        topologylabel.copy_labels(obj, spec["nodeName"], ctx.cluster)


def _add_finalizer(obj: Json, name: str) -> None:
    """StorageObjectInUseProtection: a controller takes it away when nobody uses the object any more."""
    finalizers = obj["metadata"].get("finalizers") or []
    if name not in finalizers:
        obj["metadata"]["finalizers"] = [*finalizers, name]


def validate(
    group: str,
    resource: str,
    subresource: str,
    operation: str,
    obj: Json | None,
    old: Json | None,
    ctx: WriteContext,
) -> None:
    key = (group, resource, subresource, operation)
    if key not in _VALIDATED:
        return
    if resource == "priorityclasses":
        if obj is not None:
            priority.check_class(obj, _name(obj), ctx.cluster, new=operation == "CREATE")
    elif resource == "namespaces":
        check_namespace_deletion(_name(old or obj))
    elif subresource == "resize":
        if obj is not None:
            resizecheck.check_resize(obj, old or {}, _name(obj), ctx.cluster)
    elif obj is not None:
        runtimeclasscheck.check_class(obj, _name(obj), ctx.cluster)


def check_namespace_deletion(name: str) -> None:
    """NamespaceLifecycle: some namespaces stay for ever."""
    if name in _IMMORTAL:
        raise forbidden("namespaces", "", name, "this namespace may not be deleted")


def terminating_namespace(group: str, resource: str, name: str, namespace: str) -> StatusError:
    """NamespaceLifecycle: what a create in a namespace that is going away is answered."""
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    return forbidden(resource, group, name, why, causes=[cause])
