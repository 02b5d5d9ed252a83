"""The rules of CustomResourceDefinition objects themselves."""

from __future__ import annotations

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.kind import SpecStrategy
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError

from .default import default_crd
from .lifecycle import FINALIZER, set_condition
from .validation import crd_warnings, validate_crd_create, validate_crd_status_update, validate_crd_update


class DefinitionStrategy(SpecStrategy):
    """Validation of definitions, their initial status and the first step of their deletion."""

    allows_unconditional_update = False
    allows_bare_finalizers = True  # its own is one: else nothing could be changed while it is being deleted
    delete_records_grace = False

    def default(self, obj: Json) -> None:
        default_crd(obj)

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        storage = [version["name"] for version in obj["spec"].get("versions") or () if version.get("storage")]
        obj["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": storage[:1],
        }

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        return validate_crd_create(obj)

    def prepare_update(self, obj: Json, old: Json, ctx: WriteContext) -> None:
        for version in obj["spec"].get("versions") or ():
            stored = obj.get("status", {}).get("storedVersions") or []
            if version.get("storage") and version["name"] not in stored:
                obj["status"] = {**obj.get("status", {}), "storedVersions": [*stored, version["name"]]}

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return validate_crd_update(obj, old)

    def validate_status_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return validate_crd_status_update(obj, old)

    def warnings(self, obj: Json, old: Json | None) -> list[str]:
        return crd_warnings(obj, old)

    def is_held(self, obj: Json) -> bool:
        # the first delete always leaves the definition, for its objects to go first
        return "deletionTimestamp" not in obj["metadata"]

    def mark_deleted(self, obj: Json, ctx: WriteContext) -> None:
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)
        set_condition(
            obj.setdefault("status", {}),
            "Terminating",
            "True",
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
            ctx.now,
        )
