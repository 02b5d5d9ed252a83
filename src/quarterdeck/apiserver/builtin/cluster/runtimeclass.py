"""RuntimeClass."""

from __future__ import annotations

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.kind import BuiltinStrategy, immutable
from quarterdeck.apiserver.builtin.pod.placement import validate_tolerations
from quarterdeck.apiserver.builtin.pod.resources import validate_requirements
from quarterdeck.apiserver.document.quantity import round_list
from quarterdeck.apiserver.metadata import label_errors, validate_labels
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, invalid


class RuntimeClassStrategy(BuiltinStrategy):
    allows_create_on_update = True
    allows_unconditional_update = False

    def default(self, obj: Json) -> None:
        fixed = (obj.get("overhead") or {}).get("podFixed")
        if fixed:
            round_list(fixed)

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        handler = obj.get("handler") or ""
        errors = [invalid("handler", handler, text) for text in label_errors(handler)]
        fixed = (obj.get("overhead") or {}).get("podFixed")
        errors += validate_requirements({"limits": fixed}, "overhead")
        scheduling = obj.get("scheduling") or {}
        errors += validate_labels(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
        tolerations = scheduling.get("tolerations") or ()
        return errors + validate_tolerations(tolerations, "scheduling.tolerations")

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return immutable(obj.get("handler"), old.get("handler"), "handler")
