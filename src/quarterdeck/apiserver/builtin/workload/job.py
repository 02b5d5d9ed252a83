"""Job: defaults, the generated selector, validation of the spec; the status is in `jobstatus`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.kind import SpecStrategy, immutable, section
from quarterdeck.apiserver.metadata import (
    invalid_json,
    label_errors,
    validate_label_selector,
)
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import (
    FieldError,
    invalid,
    required,
)

from .jobchange import validate_completions, validate_template_change
from .jobspec import default_job_spec, job_spec_warnings, validate_job_spec
from .jobstatus import validate_status
from .template import (
    hostname_warnings,
    is_new_generation,
    selector_changed,
    shown_selector,
    validate_selected,
)

CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
JOB_NAME: Final = "batch.kubernetes.io/job-name"
_LEGACY_UID: Final = "controller-uid"
_LEGACY_NAME: Final = "job-name"


def _successful(job: Json) -> str:
    return str((job.get("status") or {}).get("succeeded") or 0)


class JobStrategy(SpecStrategy):
    metadata_checks = 4
    orphans_by_default = True
    selectable_fields = {"status.successful": _successful}  # noqa: RUF012 # never changed

    def default(self, obj: Json) -> None:
        spec = section(obj, "spec")
        default_job_spec(spec)
        _labels_from_template(obj)
        section(obj, "status")

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        obj["status"] = {}
        spec = obj["spec"]
        if not spec.get("manualSelector"):
            _generate_selector(obj)
        _labels_from_template(obj)

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        return _validate_job(obj)

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        errors = _validate_job(obj)
        errors += _validate_spec(spec)  # upstream looks at the spec twice, and its causes show it
        errors += validate_completions(spec, before)
        errors += selector_changed(spec, before, "spec.selector")
        errors += validate_template_change(spec, before, old.get("status") or {})
        for key, struct in (
            ("completionMode", ""),
            ("podFailurePolicy", "PodFailurePolicy"),
            ("backoffLimitPerIndex", ""),
            ("managedBy", ""),
            ("successPolicy", "SuccessPolicy"),
        ):
            errors += immutable(spec.get(key), before.get(key), f"spec.{key}", struct=struct)
        return errors

    def validate_status_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return validate_status(obj, old)

    def warnings(self, obj: Json, old: Json | None) -> Iterator[str]:
        if old is None:
            yield from hostname_warnings(obj)
        if is_new_generation(obj, old):
            yield from job_spec_warnings(obj.get("spec") or {}, "spec")


def _labels_from_template(job: Json) -> None:
    labels = (job["spec"]["template"].get("metadata") or {}).get("labels")
    meta = job["metadata"]
    if labels and not meta.get("labels"):
        # shared, as upstream does by accident: the labels that a new Job generates show in both places
        meta["labels"] = labels


def _generate_selector(job: Json) -> None:
    meta, spec = job["metadata"], job["spec"]
    uid, name = meta.get("uid") or "", meta.get("name") or ""
    labels = section(section(spec["template"], "metadata"), "labels")
    for key, value in (
        (_LEGACY_NAME, name),
        (JOB_NAME, name),
        (_LEGACY_UID, uid),
        (CONTROLLER_UID, uid),
    ):
        labels.setdefault(key, value)
    section(section(spec, "selector"), "matchLabels").setdefault(CONTROLLER_UID, uid)


def _validate_job(job: Json) -> list[FieldError]:
    meta: Mapping[str, Any] = job.get("metadata") or {}
    spec: Json = job.get("spec") or {}
    errors = _validate_generated(meta, spec)
    errors += _validate_spec(spec)
    completions = spec.get("completions") or 0
    if spec.get("completionMode") == "Indexed" and completions > 0:
        name = meta.get("name") or ""
        host = f"{name}-{completions - 1}"
        if label_errors(host):
            text = f"will not able to create pod with invalid DNS label: {host}"
            errors.append(invalid("metadata.name", name, text))
    return errors


def _validate_spec(spec: Json) -> list[FieldError]:
    errors = validate_job_spec(spec, "spec")
    selector = spec.get("selector")
    if selector is None:
        errors.append(required("spec.selector"))
    else:
        errors += validate_label_selector(selector, "spec.selector")
    return errors + validate_selected(selector, spec.get("template") or {}, "spec.template")


def _validate_generated(meta: Mapping[str, Any], spec: Json) -> list[FieldError]:
    selector = spec.get("selector")
    if spec.get("manualSelector") or selector is None:
        return []
    uid, name = meta.get("uid") or "", meta.get("name") or ""
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    errors: list[FieldError] = []
    expected = {_LEGACY_UID: uid, _LEGACY_NAME: name, CONTROLLER_UID: uid, JOB_NAME: name}
    for key, value in expected.items():
        path = f"spec.template.metadata.labels[{key}]"
        if key not in labels:
            errors.append(required(path, f"must be '{value}'"))
        elif labels[key] != value:
            errors.append(invalid_json(path, dict(sorted(labels.items())), f"must be '{value}'"))
    if validate_selected(selector, {"metadata": {"labels": expected}}, ""):
        text = "`selector` not auto-generated"
        errors.append(invalid_json("spec.selector", shown_selector(selector), text))
    return errors
