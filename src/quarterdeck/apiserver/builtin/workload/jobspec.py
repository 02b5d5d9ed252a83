"""The spec of a Job, which Jobs and the templates of CronJobs have in common."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.formats import MAX_INT32, non_negative
from quarterdeck.apiserver.builtin.kind import section
from quarterdeck.apiserver.builtin.pod.defaults import default_template
from quarterdeck.apiserver.builtin.pod.spec import validate_template
from quarterdeck.apiserver.builtin.pod.warning import template_warnings
from quarterdeck.apiserver.document.internalform import internal_form
from quarterdeck.apiserver.metadata import (
    byte_length,
    invalid_json,
    regex_error,
    subdomain_errors,
)
from quarterdeck.wire.fielderror import (
    FieldError,
    invalid,
    not_supported,
    required,
    too_long,
)

from .jobpolicy import validate_failure_policy, validate_success_policy

_HTTP_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_is_http_path = re.compile(_HTTP_PATH).fullmatch
_INDEXED: Final = "requires indexed completion mode"


def default_job_spec(spec: Json) -> None:
    """A Job's spec."""
    if spec.get("parallelism") is None:
        spec["parallelism"] = 1
        if spec.get("completions") is None:
            spec["completions"] = 1
    if spec.get("backoffLimit") is None:
        spec["backoffLimit"] = 6 if spec.get("backoffLimitPerIndex") is None else MAX_INT32
    if spec.get("completionMode") is None:
        spec["completionMode"] = "NonIndexed"
    if spec.get("suspend") is None:
        spec["suspend"] = False
    if spec.get("podReplacementPolicy") is None:
        policy = "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed"
        spec["podReplacementPolicy"] = policy
    if spec.get("manualSelector") is None:
        spec["manualSelector"] = False
    default_failure_policy(spec)
    default_template(section(spec, "template"))


def default_failure_policy(spec: Mapping[str, Any]) -> None:
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            if not pattern.get("status"):
                pattern["status"] = "True"


def validate_job_spec(spec: Json, field: str) -> list[FieldError]:
    """What Jobs and the templates of CronJobs have in common."""
    get = spec.get
    errors: list[FieldError] = []
    for key in (
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ):
        errors += non_negative(get(key), f"{field}.{key}")
    if get("maxFailedIndexes") is not None and get("backoffLimitPerIndex") is None:
        text = "when maxFailedIndexes is specified"
        errors.append(required(f"{field}.backoffLimitPerIndex", text))
    if (manager := get("managedBy")) is not None:
        errors += _validate_manager(manager, f"{field}.managedBy")
    mode = get("completionMode")
    if mode is not None and mode not in ("NonIndexed", "Indexed"):
        errors.append(not_supported(f"{field}.completionMode", mode, ("NonIndexed", "Indexed")))
    if mode == "Indexed":
        errors += _validate_indexed(spec, field)
    elif mode in (None, "NonIndexed"):
        errors += [
            invalid(f"{field}.{key}", get(key), _INDEXED)
            for key in ("backoffLimitPerIndex", "maxFailedIndexes")
            if get(key) is not None
        ]
    if (policy := get("podFailurePolicy")) is not None:
        errors += validate_failure_policy(policy, spec, f"{field}.podFailurePolicy")
    if (policy := get("successPolicy")) is not None:
        if mode != "Indexed":
            shown = internal_form("SuccessPolicy", policy)
            errors.append(invalid_json(f"{field}.successPolicy", shown, _INDEXED))
        else:
            errors += validate_success_policy(policy, spec, f"{field}.successPolicy")
    replacement = get("podReplacementPolicy")
    if replacement is not None:
        with_policy = get("podFailurePolicy") is not None
        allowed: tuple[str, ...] = ("Failed",) if with_policy else ("Failed", "TerminatingOrFailed")
        if replacement not in allowed:
            errors.append(not_supported(f"{field}.podReplacementPolicy", replacement, allowed))
    template: Json = get("template") or {}
    errors += validate_template(template, f"{field}.template")
    restart = (template.get("spec") or {}).get("restartPolicy") or ""
    path = f"{field}.template.spec.restartPolicy"
    if restart in ("Always", ""):
        errors.append(required(path, 'valid values: "OnFailure", "Never"'))
    elif restart not in ("OnFailure", "Never"):
        errors.append(not_supported(path, restart, ("OnFailure", "Never")))
    elif get("podFailurePolicy") is not None and restart != "Never":
        text = 'only "Never" is supported when podFailurePolicy is specified'
        errors.append(invalid(path, restart, text))
    return errors


def _validate_manager(manager: str, field: str) -> list[FieldError]:
    if not manager:
        return [required(field)]
    errors: list[FieldError] = []
    host, slash, path = manager.partition("/")
    if not slash or not host or not path:
        errors.append(invalid(field, manager, 'must be a domain-prefixed path (such as "acme.io/foo")'))
    else:
        errors += [invalid(field, host, text) for text in subdomain_errors(host)]
        if not _is_http_path(path):
            errors.append(invalid(field, path, regex_error("Invalid path", _HTTP_PATH)))
    if byte_length(manager) > 63:
        errors.append(too_long(field, 63))
    return errors


def _validate_indexed(spec: Json, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    completions, parallelism = spec.get("completions"), spec.get("parallelism") or 0
    most_failed = spec.get("maxFailedIndexes")
    if completions is None:
        errors.append(required(f"{field}.completions", "when completion mode is Indexed"))
    if parallelism > 100000:
        text = "must be less than or equal to 100000 when completion mode is Indexed"
        errors.append(invalid(f"{field}.parallelism", parallelism, text))
    path = f"{field}.maxFailedIndexes"
    if most_failed is not None:
        if completions is not None and most_failed > completions:
            errors.append(invalid(path, most_failed, "must be less than or equal to completions"))
        if most_failed > 100000:
            errors.append(invalid(path, most_failed, "must be less than or equal to 100000"))
    if (completions or 0) > 100000 and spec.get("backoffLimitPerIndex") is not None:
        text = (
            "must be less than or equal to 10000 when completions are above 100000 "
            "and used with backoff limit per index"
        )
        if most_failed is None:
            errors.append(required(path, "must be specified when completions is above 100000"))
        if parallelism > 10000:
            errors.append(invalid(f"{field}.parallelism", parallelism, text))
        if (most_failed or 0) > 10000:
            errors.append(invalid(path, most_failed, text))
    return errors


def job_spec_warnings(spec: Mapping[str, Any], field: str) -> Iterator[str]:
    many = (spec.get("completions") or 0) > 100000 and (spec.get("parallelism") or 0) > 10000
    if many and spec.get("completionMode") == "Indexed":
        yield (
            f"{field}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism "
            "higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of "
            "indexes fail"
        )
    yield from template_warnings(spec.get("template") or {}, f"{field}.template")
