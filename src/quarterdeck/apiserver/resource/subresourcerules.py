"""What subresources of built-in kinds take over from a write, and how kinds show their scale."""

from __future__ import annotations

from typing import Any

from quarterdeck.apiserver import status
from quarterdeck.apiserver.builtin.access.certificateapproval import ApprovalRules
from quarterdeck.apiserver.builtin.catalog import strategy_for
from quarterdeck.apiserver.builtin.cluster import namespace
from quarterdeck.apiserver.builtin.cluster.namespace import NamespaceStrategy
from quarterdeck.apiserver.registry.scale import ScaleView, scale_document
from quarterdeck.wire.fielderror import FieldError

from .strategy import Strategy, WriteContext

Json = dict[str, Any]


class FinalizeRules(NamespaceStrategy):
    """namespaces/<name>/finalize: only spec.finalizers change."""

    def prepare_update(self, obj: Json, old: Json, ctx: WriteContext) -> None:
        wanted = dict(obj)
        obj.clear()
        obj.update(old)
        obj["spec"] = dict(old.get("spec") or {})
        obj["metadata"] = dict(old["metadata"])
        errors = namespace.finalize(wanted, obj)
        if errors:
            raise status.invalid("Namespace", "", old["metadata"]["name"], errors)

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return []


_FINALIZE = FinalizeRules()
_APPROVAL = ApprovalRules()
_WITH_RULES = {("", "pods", "resize"), ("", "pods", "ephemeralcontainers")}


def subresource_rules(group: str, plural: str, subresource: str) -> Strategy | None:
    """The strategy that stands in for the kind's own; None where the kind's own is right (status)."""
    if (group, plural, subresource) in _WITH_RULES:
        return strategy_for(group, f"{plural}/{subresource}")
    if subresource == "finalize":
        return _FINALIZE
    if subresource == "approval":
        return _APPROVAL
    return None


class ReplicaScale:
    """Deployment, ReplicaSet, StatefulSet, ReplicationController: spec.replicas and status.replicas."""

    def __init__(self, *, plain_selector: bool = False) -> None:
        self._plain_selector = plain_selector

    def read(self, obj: Json) -> Json:
        spec = obj.get("spec") or {}
        selector = spec.get("selector") or {}
        if self._plain_selector:
            text = ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
        else:
            text = selector_text(selector)
        current = (obj.get("status") or {}).get("replicas", 0)
        return scale_document(obj, spec.get("replicas", 0), current, text)

    shown = read

    def write(self, obj: Json, replicas: int) -> None:
        obj["spec"]["replicas"] = replicas


def selector_text(selector: Json) -> str:
    """A LabelSelector as the text of a query: requirements sorted by key."""
    parts = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        key, values = expression["key"], ",".join(sorted(expression.get("values") or ()))
        forms = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        parts.append((key, forms[expression["operator"]]))
    return ",".join(text for _, text in sorted(parts))


def scale_for(group: str, plural: str) -> ScaleView:
    return ReplicaScale(plain_selector=plural == "replicationcontrollers")
