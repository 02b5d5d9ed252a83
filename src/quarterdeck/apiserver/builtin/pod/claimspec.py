"""What a claim of a volume may say, on its own and in the templates that pods and sets have of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quarterdeck.apiserver.builtin.pod.resources import quantity_or_zero
from quarterdeck.apiserver.metadata import (
    subdomain_errors,
    validate_annotations,
    validate_label_selector,
    validate_labels,
)
from quarterdeck.wire.fielderror import FieldError, forbidden, invalid, not_supported, required

_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES: Final = ("Block", "Filesystem")


def validate_access_modes(modes: Any, field: str) -> list[FieldError]:
    """The ``accessModes`` of a claim or a volume."""
    errors = [not_supported(field, mode, _ACCESS_MODES) for mode in modes or () if mode not in _ACCESS_MODES]
    known = {mode for mode in modes or () if mode in _ACCESS_MODES}
    if "ReadWriteOncePod" in known and len(known) > 1:
        errors.append(forbidden(field, "may not use ReadWriteOncePod with other access modes"))
    return errors


def validate_claim_spec(spec: Mapping[str, Any], field: str) -> list[FieldError]:
    """The spec of a claim."""
    get = spec.get
    errors: list[FieldError] = []
    if not get("accessModes"):
        errors.append(required(f"{field}.accessModes", "at least 1 access mode is required"))
    errors += validate_label_selector(get("selector"), f"{field}.selector")
    errors += validate_access_modes(get("accessModes"), f"{field}.accessModes")
    requests = (get("resources") or {}).get("requests") or {}
    path = f"{field}.resources[storage]"
    if "storage" not in requests:
        errors.append(required(path))
    elif (size := quantity_or_zero(requests["storage"])).nanos <= 0:
        errors.append(invalid(path, size.text, "must be greater than zero"))
    if name := get("storageClassName"):
        errors += [invalid(f"{field}.storageClassName", name, text) for text in subdomain_errors(name)]
    mode = get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        errors.append(not_supported(f"{field}.volumeMode", mode, VOLUME_MODES))
    for key in ("dataSource", "dataSourceRef"):
        if (source := get(key)) is not None:
            errors += _validate_data_source(source, f"{field}.{key}")
    return errors


def _validate_data_source(source: Mapping[str, Any], field: str) -> list[FieldError]:
    errors = [required(f"{field}.{key}") for key in ("name", "kind") if not source.get(key)]
    group, kind = source.get("apiGroup") or "", source.get("kind") or ""
    if not group and kind != "PersistentVolumeClaim":
        text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        errors.append(invalid(field, kind, text))
    if group:
        errors += [invalid(f"{field}.apiGroup", group, text) for text in subdomain_errors(group)]
    return errors


def validate_claim_template(template: Mapping[str, Any], field: str) -> list[FieldError]:
    """A claim template inside an ephemeral volume."""
    meta: Mapping[str, Any] = template.get("metadata") or {}
    errors = validate_annotations(meta.get("annotations"), f"{field}.metadata.annotations")
    errors += validate_labels(meta.get("labels"), f"{field}.metadata.labels")
    errors += [
        forbidden(f"{field}.metadata.{key}", "cannot be set")
        for key, value in meta.items()
        if value and key not in ("annotations", "labels")
    ]
    return errors + validate_claim_spec(template.get("spec") or {}, f"{field}.spec")
