"""Namespace: the name label, finalizers of the spec, phase."""

from __future__ import annotations

from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.kind import BuiltinStrategy, section, text_at
from quarterdeck.apiserver.metadata import label_errors, qualified_name_errors
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, invalid

NAME_LABEL: Final = "kubernetes.io/metadata.name"
_STANDARD_FINALIZERS: Final = frozenset(("kubernetes", "orphan", "foregroundDeletion"))


class NamespaceStrategy(BuiltinStrategy):
    has_status = True
    delete_records_grace = False
    metadata_checks = 4
    selectable_fields = {  # noqa: RUF012 # never changed
        "status.phase": text_at("status", "phase"),
    }

    def name_errors(self, name: str, *, prefix: bool = False) -> list[str]:
        return label_errors(name, prefix=prefix)

    def default(self, obj: Json) -> None:
        meta = obj.get("metadata")
        if meta and (name := meta.get("name")):
            section(meta, "labels")[NAME_LABEL] = name
        section(obj, "spec")
        status = section(obj, "status")
        if not status.get("phase"):
            status["phase"] = "Active"

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        obj["status"] = {"phase": "Active"}
        spec = section(obj, "spec")
        finalizers = spec.get("finalizers") or []
        if "kubernetes" not in finalizers:
            spec["finalizers"] = [*finalizers, "kubernetes"]
        meta = obj["metadata"]
        if name := meta.get("name"):  # a generated name is known only now
            section(meta, "labels")[NAME_LABEL] = name

    def prepare_update(self, obj: Json, old: Json, ctx: WriteContext) -> None:
        spec = section(obj, "spec")
        finalizers = (old.get("spec") or {}).get("finalizers")
        if finalizers:
            spec["finalizers"] = finalizers
        else:
            spec.pop("finalizers", None)
        section(obj["metadata"], "labels")[NAME_LABEL] = obj["metadata"].get("name")

    def is_held(self, obj: Json) -> bool:
        # the first delete always leaves it, for its content to go first
        is_new = "deletionTimestamp" not in (obj.get("metadata") or {})
        return is_new or bool((obj.get("spec") or {}).get("finalizers"))

    def mark_deleted(self, obj: Json, ctx: WriteContext) -> None:
        section(obj, "status")["phase"] = "Terminating"

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        errors: list[FieldError] = []
        for finalizer in (obj.get("spec") or {}).get("finalizers") or ():
            errors += _validate_finalizer(finalizer, "spec.finalizers")
        return errors

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return self.validate_create(obj, ctx)

    def validate_status_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        phase = (obj.get("status") or {}).get("phase") or ""
        if not obj["metadata"].get("deletionTimestamp"):
            if phase != "Active":
                text = "may only be 'Active' if `deletionTimestamp` is empty"
                return [invalid("status.Phase", phase, text)]
        elif phase != "Terminating":
            text = "may only be 'Terminating' if `deletionTimestamp` is not empty"
            return [invalid("status.Phase", phase, text)]
        return []


class NamespaceFinalizeStrategy(NamespaceStrategy):
    """namespaces/<name>/finalize: only spec.finalizers change."""

    def prepare_update(self, obj: Json, old: Json, ctx: WriteContext) -> None:
        finalizers = (obj.get("spec") or {}).get("finalizers") or []
        spec = {key: value for key, value in (old.get("spec") or {}).items() if key != "finalizers"}
        obj.clear()
        obj.update(old)
        obj["metadata"] = dict(old["metadata"])
        obj["spec"] = {**spec, "finalizers": list(finalizers)} if finalizers else spec

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return [
            error
            for index, finalizer in enumerate(obj["spec"].get("finalizers") or ())
            for error in _validate_finalizer(finalizer, f"spec.finalizers[{index}]")
        ]


def _validate_finalizer(finalizer: str, field: str) -> list[FieldError]:
    errors = [invalid(field, finalizer, text) for text in qualified_name_errors(finalizer)]
    if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
        text = "name is neither a standard finalizer name nor is it fully qualified"
        errors.append(invalid(field, finalizer, text))
    return errors
