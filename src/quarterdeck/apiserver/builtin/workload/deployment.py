"""Deployment and ReplicaSet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.formats import non_negative
from quarterdeck.apiserver.builtin.kind import SpecStrategy, not_supported_json, same, section
from quarterdeck.apiserver.builtin.pod.defaults import default_template
from quarterdeck.apiserver.document.internalform import internal_form
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, forbidden, invalid

from .template import (
    collision_count_decremented,
    int_or_percent,
    selector_changed,
    validate_at_most_100_percent,
    validate_counts,
    validate_int_or_percent,
    validate_pod_template,
    validate_selector,
    workload_warnings,
)

_DEPLOYMENT_COUNTS: Final = (
    "observedGeneration",
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "terminatingReplicas",
    "collisionCount",
)
_REPLICA_COUNTS: Final = (
    "replicas",
    "fullyLabeledReplicas",
    "readyReplicas",
    "availableReplicas",
    "observedGeneration",
    "terminatingReplicas",
)


class DeploymentStrategy(SpecStrategy):
    status_metadata = frozenset(("annotations", "finalizers", "ownerReferences"))

    def default(self, obj: Json) -> None:
        spec = section(obj, "spec")
        if spec.get("replicas") is None:
            spec["replicas"] = 1
        strategy = section(spec, "strategy")
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = section(strategy, "rollingUpdate")
            for key in ("maxUnavailable", "maxSurge"):
                if rolling.get(key) is None:
                    rolling[key] = "25%"
        if spec.get("revisionHistoryLimit") is None:
            spec["revisionHistoryLimit"] = 10
        if spec.get("progressDeadlineSeconds") is None:
            spec["progressDeadlineSeconds"] = 600
        default_template(section(spec, "template"))
        section(obj, "status")

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        obj["status"] = {}

    def generation_changed(self, obj: Json, old: Json) -> bool:
        annotations = obj["metadata"].get("annotations"), old["metadata"].get("annotations")
        return not same(obj.get("spec"), old.get("spec")) or not same(*annotations)

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors = non_negative(spec.get("replicas"), "spec.replicas")
        errors += validate_selector(spec.get("selector"), "spec.selector", "deployment")
        errors += validate_pod_template(spec, "spec.template", "ReplicaSet")
        errors += _validate_strategy(spec.get("strategy") or {})
        errors += non_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
        errors += non_negative(spec.get("revisionHistoryLimit"), "spec.revisionHistoryLimit")
        deadline = spec.get("progressDeadlineSeconds")
        if deadline is not None:
            path = "spec.progressDeadlineSeconds"
            errors += non_negative(deadline, path)
            if deadline <= (spec.get("minReadySeconds") or 0):
                errors.append(invalid(path, deadline, "must be greater than minReadySeconds"))
        return errors

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        errors = self.validate_create(obj, ctx)
        return errors + selector_changed(obj.get("spec") or {}, old.get("spec") or {}, "spec.selector")

    def validate_status_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        status = obj.get("status") or {}
        within = ("updatedReplicas", "readyReplicas", "availableReplicas")
        errors = validate_counts(status, _DEPLOYMENT_COUNTS, within=within)
        return errors + collision_count_decremented(status, old.get("status") or {})

    def warnings(self, obj: Json, old: Json | None) -> Iterable[str]:
        return workload_warnings(obj, old, named=True)


def _validate_strategy(strategy: Json) -> list[FieldError]:
    kind = strategy.get("type")
    rolling = strategy.get("rollingUpdate")
    path = "spec.strategy.rollingUpdate"
    if kind == "Recreate":
        if rolling is not None:
            return [forbidden(path, "may not be specified when strategy `type` is 'Recreate'")]
        return []
    if kind != "RollingUpdate":
        shown = internal_form("DeploymentStrategy", strategy)
        return [not_supported_json("spec.strategy", shown, ("Recreate", "RollingUpdate"))]
    unavailable, surge = (rolling or {}).get("maxUnavailable"), (rolling or {}).get("maxSurge")
    errors = validate_int_or_percent(unavailable, f"{path}.maxUnavailable")
    errors += validate_int_or_percent(surge, f"{path}.maxSurge")
    if int_or_percent(unavailable) == 0 and int_or_percent(surge) == 0:
        text = "may not be 0 when `maxSurge` is 0"
        errors.append(invalid(f"{path}.maxUnavailable", unavailable, text))
    return errors + validate_at_most_100_percent(unavailable, f"{path}.maxUnavailable")


class ReplicaSetStrategy(SpecStrategy):
    def default(self, obj: Json) -> None:
        spec = section(obj, "spec")
        if spec.get("replicas") is None:
            spec["replicas"] = 1
        default_template(section(spec, "template"))
        section(obj, "status").setdefault("replicas", 0)

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        obj["status"] = {"replicas": 0}

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors = non_negative(spec.get("replicas"), "spec.replicas")
        errors += non_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
        errors += validate_selector(spec.get("selector"), "spec.selector", "deployment")
        return errors + validate_pod_template(spec, "spec.template", "ReplicaSet")

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        errors = self.validate_create(obj, ctx)
        return errors + selector_changed(obj.get("spec") or {}, old.get("spec") or {}, "spec.selector")

    def validate_status_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        within = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
        return validate_counts(obj.get("status") or {}, _REPLICA_COUNTS, within=within)

    def warnings(self, obj: Json, old: Json | None) -> Iterable[str]:
        return workload_warnings(obj, old, named=True)
