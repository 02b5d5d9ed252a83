"""FlowSchema and PriorityLevelConfiguration: stored for clients that look; requests are not queued."""

from __future__ import annotations

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.kind import NO_METADATA, SpecStrategy, section
from quarterdeck.apiserver.metadata import subdomain_errors
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, invalid, not_supported, required


class FlowSchemaStrategy(SpecStrategy):
    status_metadata = NO_METADATA

    def default(self, obj: Json) -> None:
        spec = section(obj, "spec")
        if not spec.get("matchingPrecedence"):
            spec["matchingPrecedence"] = 1000
        section(obj, "status")

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        obj["status"] = {}

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors: list[FieldError] = []
        precedence = spec.get("matchingPrecedence") or 0
        if precedence <= 0:
            errors.append(invalid("spec.matchingPrecedence", precedence, "must be a positive value"))
        if precedence > 10000:
            text = "must not be greater than 10000"
            errors.append(invalid("spec.matchingPrecedence", precedence, text))
        name = (spec.get("priorityLevelConfiguration") or {}).get("name") or ""
        path = "spec.priorityLevelConfiguration.name"
        if not name:
            errors.append(required(path, "must reference a priority level"))
        else:
            errors += [invalid(path, name, text) for text in subdomain_errors(name)]
        return errors

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return self.validate_create(obj, ctx)


class PriorityLevelConfigurationStrategy(SpecStrategy):
    status_metadata = NO_METADATA

    def default(self, obj: Json) -> None:
        spec = section(obj, "spec")
        if (exempt := spec.get("exempt")) is not None:
            for key in ("nominalConcurrencyShares", "lendablePercent"):
                if exempt.get(key) is None:
                    exempt[key] = 0
        if (limited := spec.get("limited")) is not None:
            if limited.get("nominalConcurrencyShares") is None:
                limited["nominalConcurrencyShares"] = 30
            if limited.get("lendablePercent") is None:
                limited["lendablePercent"] = 0
            queuing = section(limited, "limitResponse").get("queuing")
            if queuing is not None:
                for key, value in (("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)):
                    if not queuing.get(key):
                        queuing[key] = value
        section(obj, "status")

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        obj["status"] = {}

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        spec = obj.get("spec") or {}
        kind = spec.get("type") or ""
        if kind not in ("Exempt", "Limited"):
            return [not_supported("spec.type", kind, ("Exempt", "Limited"))]
        if kind == "Limited" and spec.get("limited") is None:
            return [required("spec.limited", "must not be empty when type is Limited")]
        return []

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return self.validate_create(obj, ctx)
