"""Lease: durations and transitions."""

from __future__ import annotations

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.kind import BuiltinStrategy, section
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, invalid


class LeaseStrategy(BuiltinStrategy):
    allows_create_on_update = True
    allows_unconditional_update = False

    def default(self, obj: Json) -> None:
        section(obj, "spec")

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        spec = section(obj, "spec")
        spec.pop("strategy", None)  # coordinated leader election is off
        spec.pop("preferredHolder", None)

    def prepare_update(self, obj: Json, old: Json, ctx: WriteContext) -> None:
        self.prepare_create(obj, ctx)

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors: list[FieldError] = []
        duration = spec.get("leaseDurationSeconds")
        if duration is not None and duration <= 0:
            errors.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        transitions = spec.get("leaseTransitions")
        if transitions is not None and transitions < 0:
            text = "must be greater than or equal to 0"
            errors.append(invalid("spec.leaseTransitions", transitions, text))
        return errors

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return self.validate_create(obj, ctx)
