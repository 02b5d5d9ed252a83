"""Job: defaults, the generated selector, validation of the spec; the status is in `jobstatus`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from quarterdeck.apiserver.builtin.formats import MAX_INT32, non_negative
from quarterdeck.apiserver.builtin.internalform import internal_form
from quarterdeck.apiserver.builtin.kind import SpecStrategy, immutable, same, section
from quarterdeck.apiserver.builtin.pod.defaults import default_template
from quarterdeck.apiserver.builtin.pod.spec import validate_template
from quarterdeck.apiserver.builtin.pod.warning import template_warnings
from quarterdeck.apiserver.metadata import (
    byte_length,
    invalid_json,
    label_errors,
    qualified_name_errors,
    regex_error,
    subdomain_errors,
    validate_label_selector,
)
from quarterdeck.apiserver.resource.strategy import Json, WriteContext
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

from .jobstatus import parse_indexes, validate_status
from .template import is_new_generation, selector_changed, shown_selector, validate_selected

CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
JOB_NAME: Final = "batch.kubernetes.io/job-name"
_LEGACY_UID: Final = "controller-uid"
_LEGACY_NAME: Final = "job-name"
_HTTP_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_is_http_path = re.compile(_HTTP_PATH).fullmatch
_INDEXED: Final = "requires indexed completion mode"
_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")


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
        errors += _validate_completions(spec, before)
        errors += selector_changed(spec, before, "spec.selector")
        errors += _validate_template_change(spec, before, old.get("status") or {})
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
        name = (obj.get("metadata") or {}).get("name") or ""
        if old is None and (texts := label_errors(name)):
            yield (
                "metadata.name: this is used in Pod names and hostnames, which can result in surprising "
                f"behavior; a DNS label is recommended: [{' '.join(texts)}]"
            )
        if is_new_generation(obj, old):
            yield from job_spec_warnings(obj.get("spec") or {}, "spec")


def job_spec_warnings(spec: Mapping[str, Any], field: str) -> Iterator[str]:
    many = (spec.get("completions") or 0) > 100000 and (spec.get("parallelism") or 0) > 10000
    if many and spec.get("completionMode") == "Indexed":
        yield (
            f"{field}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism "
            "higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of "
            "indexes fail"
        )
    yield from template_warnings(spec.get("template") or {}, f"{field}.template")


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
        errors += _validate_failure_policy(policy, spec, f"{field}.podFailurePolicy")
    if (policy := get("successPolicy")) is not None:
        if mode != "Indexed":
            shown = internal_form("SuccessPolicy", policy)
            errors.append(invalid_json(f"{field}.successPolicy", shown, _INDEXED))
        else:
            errors += _validate_success_policy(policy, spec, f"{field}.successPolicy")
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


def _valid_values(values: Sequence[str]) -> str:
    quoted = " ".join(f'"{value}"' for value in values)
    return f"valid values: [{quoted}]"


def _validate_failure_policy(policy: Mapping[str, Any], spec: Json, field: str) -> list[FieldError]:
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


def _validate_success_policy(policy: Mapping[str, Any], spec: Json, field: str) -> list[FieldError]:
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


def _validate_completions(spec: Json, old: Json) -> list[FieldError]:
    new, before = spec.get("completions"), old.get("completions")
    if spec.get("completionMode") != "Indexed":
        return immutable(new, before, "spec.completions")
    if new == before or new is None or new == spec.get("parallelism"):
        return []
    return [invalid("spec.completions", new, "can only be modified in tandem with spec.parallelism")]


def _validate_template_change(spec: Json, old: Json, status: Mapping[str, Any]) -> list[FieldError]:
    template: Json = spec.get("template") or {}
    before: Json = old.get("template") or {}
    if same(template, before):
        return []
    suspended = bool(old.get("suspend"))
    flexible = (
        suspended
        and not status.get("active")
        and (not status.get("startTime") or _is_true(status, "Suspended"))
    )
    if not flexible:
        return immutable(template, before, "spec.template", struct="PodTemplateSpec")
    new_pod: Json = template.get("spec") or {}
    old_pod = dict(before.get("spec") or {})
    for key in ("nodeSelector", "tolerations", "schedulingGates"):
        old_pod[key] = new_pod.get(key)
    wanted = (new_pod.get("affinity") or {}).get("nodeAffinity")
    affinity = {key: value for key, value in (old_pod.get("affinity") or {}).items() if key != "nodeAffinity"}
    old_pod["affinity"] = {**affinity, "nodeAffinity": wanted} if wanted else affinity
    for key in ("containers", "initContainers"):
        new, were = new_pod.get(key) or [], old_pod.get(key) or []
        if len(new) == len(were):
            old_pod[key] = [
                {**was, "resources": container.get("resources")}
                if container.get("name") == was.get("name")
                else was
                for container, was in zip(new, were, strict=True)
            ]
    return immutable(new_pod, old_pod, "spec.template.spec", struct="PodSpec")


def _is_true(status: Mapping[str, Any], kind: str) -> bool:
    conditions = status.get("conditions") or ()
    return any(item.get("type") == kind and item.get("status") == "True" for item in conditions)
