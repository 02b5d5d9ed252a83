"""ReplicationController and PodTemplate: the kinds of core/v1 that hold a pod template."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.formats import non_negative
from quarterdeck.apiserver.builtin.kind import BuiltinStrategy, SpecStrategy, section, text_at
from quarterdeck.apiserver.builtin.pod.defaults import default_template
from quarterdeck.apiserver.builtin.pod.spec import validate_template
from quarterdeck.apiserver.builtin.pod.warning import template_warnings
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, required

from .template import (
    is_new_generation,
    validate_counts,
    validate_long_running,
    validate_selected,
    workload_warnings,
)

_COUNTS: Final = (
    "replicas",
    "fullyLabeledReplicas",
    "readyReplicas",
    "availableReplicas",
    "observedGeneration",
)


class ReplicationControllerStrategy(SpecStrategy):
    orphans_by_default = True
    selectable_fields = {"status.replicas": text_at("status", "replicas")}  # noqa: RUF012 # never changed

    def default(self, obj: Json) -> None:
        spec = section(obj, "spec")
        if spec.get("replicas") is None:
            spec["replicas"] = 1
        if (template := spec.get("template")) is not None:
            if labels := (template.get("metadata") or {}).get("labels"):
                if not spec.get("selector"):
                    spec["selector"] = dict(labels)
                meta = obj["metadata"]
                if not meta.get("labels"):
                    meta["labels"] = dict(labels)
            default_template(template)
        section(obj, "status").setdefault("replicas", 0)

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        obj["status"] = {"replicas": 0}

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors = non_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
        selector = spec.get("selector")
        if not selector:
            errors.append(required("spec.selector"))
        errors += non_negative(spec.get("replicas"), "spec.replicas")
        template = spec.get("template")
        path = "spec.template"
        if template is None:
            return [*errors, required(path)]
        errors += validate_selected({"matchLabels": selector}, template, path)
        errors += validate_template(template, path)
        return errors + validate_long_running(template, path, "ReplicationController")

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return self.validate_create(obj, ctx)

    def validate_status_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        within = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
        return validate_counts(obj.get("status") or {}, _COUNTS, within=within)

    def warnings(self, obj: Json, old: Json | None) -> Iterable[str]:
        return workload_warnings(obj, old, named=True)


class PodTemplateStrategy(BuiltinStrategy):
    has_generation = True

    def default(self, obj: Json) -> None:
        default_template(section(obj, "template"))

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        return validate_template(obj.get("template") or {}, "template")

    def warnings(self, obj: Json, old: Json | None) -> Iterable[str]:
        if not is_new_generation(obj, old):
            return []
        return template_warnings(obj.get("template") or {}, "template")

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return self.validate_create(obj, ctx)
