"""PriorityClass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.kind import BuiltinStrategy, immutable
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, forbidden, not_supported, required

HIGHEST_USER_PRIORITY: Final = 1_000_000_000
#: exist from the start
SYSTEM_CLASSES: Final[tuple[Mapping[str, Any], ...]] = (
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "system-node-critical"},
        "value": 2000001000,
        "description": ("Used for system critical pods that must not be moved from their current node."),
        "preemptionPolicy": "PreemptLowerPriority",
    },
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "system-cluster-critical"},
        "value": 2000000000,
        "description": (
            "Used for system critical pods that must run in the cluster, but can be moved to another node "
            "if necessary."
        ),
        "preemptionPolicy": "PreemptLowerPriority",
    },
)
_SYSTEM: Final = {item["metadata"]["name"]: item for item in SYSTEM_CLASSES}
_POLICIES: Final = ("PreemptLowerPriority", "Never")


class PriorityClassStrategy(BuiltinStrategy):
    has_generation = True

    def default(self, obj: Json) -> None:
        obj.setdefault("value", 0)
        if obj.get("preemptionPolicy") is None:
            obj["preemptionPolicy"] = "PreemptLowerPriority"

    def generation_changed(self, obj: Json, old: Json) -> bool:
        return False

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        errors: list[FieldError] = []
        name = (obj.get("metadata") or {}).get("name") or ""
        value = obj.get("value") or 0
        if name.startswith("system-"):
            if problem := _system_problem(name, obj):
                text = "priority class names with 'system-' prefix are reserved for system use only. error: "
                errors.append(forbidden("metadata.name", text + problem))
        elif value > HIGHEST_USER_PRIORITY:
            text = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
            errors.append(forbidden("value", text))
        policy = obj.get("preemptionPolicy")
        if policy is not None and policy not in _POLICIES:
            path = "preemptionPolicy"
            errors.append(not_supported(path, policy, _POLICIES) if policy else required(path))
        return errors

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        errors: list[FieldError] = []
        if (obj.get("value") or 0) != (old.get("value") or 0):
            errors.append(forbidden("value", "may not be changed in an update."))
        policies = obj.get("preemptionPolicy"), old.get("preemptionPolicy")
        return errors + immutable(*policies, "preemptionPolicy")


def _system_problem(name: str, obj: Json) -> str:
    known = _SYSTEM.get(name)
    if known is None:
        return f"{name} is not a known system priority class"
    if obj.get("value") != known["value"]:
        return f"value of {name} PriorityClass must be {known['value']}"
    if obj.get("globalDefault"):
        return f"globalDefault of {name} PriorityClass must be false"
    return ""
