"""A Job's policies: which failures of pods count, and when it has succeeded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.formats import non_negative
from quarterdeck.apiserver.metadata import (
    byte_length,
    invalid_json,
    qualified_name_errors,
)
from quarterdeck.wire.fielderror import (
    FieldError,
    duplicate,
    invalid,
    invalid_without_value,
    not_supported,
    required,
    too_long,
    too_many,
)

from .jobstatus import parse_indexes

_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")


def validate_failure_policy(policy: Mapping[str, Any], spec: Json, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    rules = policy.get("rules") or ()
    if len(rules) > 20:
        errors.append(too_many(f"{field}.rules", len(rules), 20))
    pod = (spec.get("template") or {}).get("spec") or {}
    names = {
        container.get("name") for key in ("containers", "initContainers") for container in pod.get(key) or ()
    }
    for index, rule in enumerate(rules):
        path = f"{field}.rules[{index}]"
        action = rule.get("action") or ""
        if not action:
            errors.append(required(f"{path}.action", _valid_values(_ACTIONS)))
        elif action == "FailIndex":
            if spec.get("backoffLimitPerIndex") is None:
                text = "requires the backoffLimitPerIndex to be set"
                errors.append(invalid(f"{path}.action", action, text))
        elif action not in _ACTIONS:
            errors.append(not_supported(f"{path}.action", action, _ACTIONS))
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
        if codes is not None:
            errors += _validate_exit_codes(codes, names, f"{path}.onExitCodes")
        if conditions:
            errors += _validate_pod_conditions(conditions, f"{path}.onPodConditions")
        if codes is not None and conditions:
            text = "specifying both OnExitCodes and OnPodConditions is not supported"
            errors.append(invalid_without_value(path, text))
        if codes is None and not conditions:
            text = "specifying one of OnExitCodes and OnPodConditions is required"
            errors.append(invalid_without_value(path, text))
    return errors


def _validate_pod_conditions(conditions: Sequence[Mapping[str, Any]], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    statuses = ("False", "True", "Unknown")
    if len(conditions) > 20:
        errors.append(too_many(field, len(conditions), 20))
    for index, pattern in enumerate(conditions):
        kind = pattern.get("type") or ""
        errors += [invalid(f"{field}[{index}].type", kind, text) for text in qualified_name_errors(kind)]
        status = pattern.get("status") or ""
        if not status:
            errors.append(required(f"{field}[{index}].status", _valid_values(statuses)))
        elif status not in statuses:
            errors.append(not_supported(f"{field}[{index}].status", status, statuses))
    return errors


def _validate_exit_codes(codes: Mapping[str, Any], names: set[Any], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operator = codes.get("operator") or ""
    if not operator:
        errors.append(required(f"{field}.operator", _valid_values(("In", "NotIn"))))
    elif operator not in ("In", "NotIn"):
        errors.append(not_supported(f"{field}.operator", operator, ("In", "NotIn")))
    name = codes.get("containerName")
    if name is not None and name not in names:
        text = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(f"{field}.containerName", name, text))
    values: list[int] = codes.get("values") or []
    path = f"{field}.values"
    if not values:
        errors.append(invalid_json(path, codes.get("values"), "at least one value is required"))
    elif len(values) > 255:
        errors.append(too_many(path, len(values), 255))
    seen: set[int] = set()
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            errors.append(invalid(f"{path}[{index}]", value, "must not be 0 for the In operator"))
        if value in seen:
            errors.append(duplicate(f"{path}[{index}]", value))
        seen.add(value)
    if values != sorted(values):
        errors.append(invalid_json(path, values, "must be ordered"))
    return errors


def validate_success_policy(policy: Mapping[str, Any], spec: Json, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    rules = policy.get("rules") or ()
    if not rules:
        text = "at least one rules must be specified when the successPolicy is specified"
        errors.append(required(f"{field}.rules", text))
    if len(rules) > 20:
        errors.append(too_many(f"{field}.rules", len(rules), 20))
    completions = spec.get("completions") or 0
    for index, rule in enumerate(rules):
        path = f"{field}.rules[{index}]"
        count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
        if count is None and indexes is None:
            text = "at least one of succeededCount or succeededIndexes must be specified"
            errors.append(required(path, text))
        total = 0
        if indexes is not None:
            at = f"{path}.succeededIndexes"
            if byte_length(indexes) > 64 * 1024:
                errors.append(too_long(at, 64 * 1024))
            try:
                total = parse_indexes(indexes, completions)
            except ValueError as error:
                errors.append(invalid(at, indexes, f"error parsing succeededIndexes: {error}"))
        if count is not None:
            at = f"{path}.succeededCount"
            errors += non_negative(count, at)
            if count > completions:
                text = f"must be less than or equal to {completions} (the number of specified completions)"
                errors.append(invalid(at, count, text))
            if indexes is not None and count > total:
                text = (
                    f"must be less than or equal to {total} "
                    "(the number of indexes in the specified succeededIndexes field)"
                )
                errors.append(invalid(at, count, text))
    return errors


def _valid_values(values: Sequence[str]) -> str:
    quoted = " ".join(f'"{value}"' for value in values)
    return f"valid values: [{quoted}]"
