"""PodDisruptionBudget."""

from __future__ import annotations

from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.formats import non_negative
from quarterdeck.apiserver.builtin.kind import SpecStrategy, section
from quarterdeck.apiserver.metadata import invalid_json, path_segment_errors, validate_label_selector
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, not_supported

from .template import shown_selector, validate_at_most_100_percent, validate_int_or_percent

_COUNTS: Final = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
_POLICIES: Final = ("AlwaysAllow", "IfHealthyBudget")


class PodDisruptionBudgetStrategy(SpecStrategy):
    metadata_checks = 2
    allows_unconditional_update = False

    def name_errors(self, name: str, *, prefix: bool = False) -> list[str]:
        return path_segment_errors(name, prefix=prefix)

    def default(self, obj: Json) -> None:
        section(obj, "spec")
        status = section(obj, "status")
        for key in _COUNTS:
            status.setdefault(key, 0)

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        obj["status"] = dict.fromkeys(_COUNTS, 0)

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors: list[FieldError] = []
        selector = spec.get("selector")
        if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
            shown = {
                "MinAvailable": spec["minAvailable"],
                "Selector": shown_selector(selector),
                "MaxUnavailable": spec["maxUnavailable"],
                "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
            }
            text = "minAvailable and maxUnavailable cannot be both set"
            errors.append(invalid_json("spec", shown, text))
        for key in ("minAvailable", "maxUnavailable"):
            if (value := spec.get(key)) is not None:
                errors += validate_int_or_percent(value, f"spec.{key}")
                errors += validate_at_most_100_percent(value, f"spec.{key}")
        errors += validate_label_selector(selector, "spec.selector")
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy is not None and policy not in _POLICIES:
            errors.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, _POLICIES))
        return errors

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return self.validate_create(obj, ctx)

    def validate_status_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        status = obj.get("status") or {}
        errors: list[FieldError] = []
        for key in _COUNTS:
            errors += non_negative(status.get(key), f"status.{key}")
        return errors
