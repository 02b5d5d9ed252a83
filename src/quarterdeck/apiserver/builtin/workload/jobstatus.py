"""The rules of a Job's status: what a controller may report, and what it may take back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.formats import non_negative
from quarterdeck.apiserver.builtin.kind import same
from quarterdeck.apiserver.metadata import invalid_json
from quarterdeck.wire.fielderror import FieldError, duplicate, invalid, invalid_without_value, required
from quarterdeck.wire.gonumber import parse_uint

Status = Mapping[str, Any]


def parse_indexes(text: str, completions: int) -> int:
    """How many indexes a list like `1,3-5` holds; raises ValueError with upstream's text."""
    total = 0
    last: int | None = None
    for interval in text.split(",") if text else ():
        first, end = _parse_interval(interval, completions)
        if last is not None and last >= first:
            raise ValueError(f"non-increasing order, previous: {last}, current: {first}")
        total += end - first + 1
        last = end
    return total


def _parse_interval(interval: str, completions: int) -> tuple[int, int]:
    parts = interval.split("-")
    if len(parts) > 2:
        rule = "an index interval can have at most two parts separated by '-'"
        raise ValueError(f'the fragment "{interval}" violates the requirement that {rule}')
    first = _parse_index(parts[0])
    if first >= completions:
        raise ValueError(f'too large index: "{parts[0]}"')
    if len(parts) == 1:
        return first, first
    end = _parse_index(parts[1])
    if end >= completions:
        raise ValueError(f'too large index: "{parts[1]}"')
    if first >= end:
        raise ValueError(f"non-increasing order, previous: {first}, current: {end}")
    return first, end


def _parse_index(text: str) -> int:
    if (index := parse_uint(text, 2**63 - 1)) is None:
        raise ValueError(f'cannot convert string to integer for index: "{text}"')
    return index


def _intervals(text: str, completions: int) -> list[tuple[int, int]]:
    found = []
    for interval in text.split(",") if text else ():
        try:
            found.append(_parse_interval(interval, completions))
        except ValueError:
            continue
    return found


def _is(status: Status, kind: str, value: str = "True") -> bool:
    conditions = status.get("conditions") or ()
    return any(item.get("type") == kind and item.get("status") == value for item in conditions)


class _Facts:
    """The conditions of one status that the rules ask about."""

    __slots__ = ("complete", "failed", "failure_target", "finished", "success")

    def __init__(self, status: Status) -> None:
        self.complete = _is(status, "Complete")
        self.failed = _is(status, "Failed")
        self.failure_target = _is(status, "FailureTarget")
        self.success = _is(status, "SuccessCriteriaMet")
        self.finished = self.complete or self.failed


def validate_status(job: Json, old: Json) -> list[FieldError]:
    """A status update; rules about a value apply when that value changes."""
    status: Status = job.get("status") or {}
    before: Status = old.get("status") or {}
    now, was = _Facts(status), _Facts(before)
    errors = _validate_counts(status)
    errors += _validate_finish(job.get("spec") or {}, status, before, now, was)
    errors += _validate_indexes(job.get("spec") or {}, status, before)
    errors += _validate_pods(status, before, now, was)
    errors += _validate_success(job.get("spec") or {}, now)
    return errors + _validate_history(job.get("spec") or {}, status, before, now, was)


def _refuse(text: str) -> FieldError:
    return invalid_without_value("status.conditions", text)


def _validate_counts(status: Status) -> list[FieldError]:
    errors: list[FieldError] = []
    for key in ("active", "succeeded", "failed", "ready", "terminating"):
        errors += non_negative(status.get(key), f"status.{key}")
    uncounted = status.get("uncountedTerminatedPods") or {}
    seen: set[str] = set()
    for key in ("succeeded", "failed"):
        for index, uid in enumerate(uncounted.get(key) or ()):
            path = f"status.uncountedTerminatedPods.{key}[{index}]"
            if not uid:
                errors.append(invalid(path, uid, "must not be empty"))
            elif uid in seen:
                errors.append(duplicate(path, uid))
            seen.add(uid)
    return errors


def _validate_finish(
    spec: Status, status: Status, before: Status, now: _Facts, was: _Facts
) -> list[FieldError]:
    errors: list[FieldError] = []
    complete_changed = now.complete != was.complete
    failed_changed = now.failed != was.failed
    started, ended = status.get("startTime"), status.get("completionTime")
    ended_changed = ended != before.get("completionTime")
    started_changed = started != before.get("startTime")
    failed_indexes_changed = status.get("failedIndexes") != before.get("failedIndexes")
    if (complete_changed or failed_changed) and now.complete and now.failed:
        errors.append(_refuse("cannot set Complete=True and Failed=true conditions"))
    target_changed = now.failure_target != was.failure_target
    if (complete_changed or target_changed) and now.complete and now.failure_target:
        errors.append(_refuse("cannot set Complete=True and FailureTarget=true conditions"))
    path = "status.completionTime"
    if complete_changed or ended_changed:
        if ended and not now.complete:
            text = "cannot set completionTime when there is no Complete=True condition"
            errors.append(invalid(path, ended, text))
        if not ended and now.complete:
            errors.append(required(path, "completionTime is required for Complete jobs"))
    if (started_changed or ended_changed) and started and ended and ended < started:
        errors.append(invalid(path, ended, "must be equal to or after `startTime`"))
    if (failed_changed or failed_indexes_changed) and now.failed and not now.failure_target:
        errors.append(_refuse("cannot set Failed=True condition without the FailureTarget=true condition"))
    if (complete_changed or now.success != was.success) and now.complete and not now.success:
        text = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
        errors.append(_refuse(text))
    active = status.get("active") or 0
    finish_changed = now.finished != was.finished
    if (finish_changed or active != (before.get("active") or 0)) and active > 0 and now.finished:
        errors.append(invalid("status.active", active, "active>0 is invalid for finished job"))
    idle = spec.get("suspend") is True and spec.get("completions") == 0
    if (finish_changed or started_changed) and not idle and not started and now.finished:
        errors.append(required("status.startTime", "startTime is required for finished job"))
    return errors


def _validate_indexes(spec: Status, status: Status, before: Status) -> list[FieldError]:
    errors: list[FieldError] = []
    completions = spec.get("completions")
    done, failed = status.get("completedIndexes") or "", status.get("failedIndexes")
    done_changed = done != (before.get("completedIndexes") or "")
    failed_changed = failed != before.get("failedIndexes")
    per_index = spec.get("backoffLimitPerIndex") is not None
    for key, text, wanted in (
        ("completedIndexes", done, done_changed),
        ("failedIndexes", failed, failed_changed and per_index and failed is not None),
    ):
        if wanted and completions is not None:
            try:
                parse_indexes(text or "", completions)
            except ValueError as error:
                errors.append(invalid(f"status.{key}", text, f"error parsing {key}: {error}"))
    if done_changed and done and spec.get("completionMode") != "Indexed":
        text = "cannot set non-empty completedIndexes when non-indexed completion mode"
        errors.append(invalid("status.completedIndexes", done, text))
    if failed_changed and failed is not None and not per_index:
        text = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        errors.append(invalid("status.failedIndexes", failed, text))
    if (failed_changed or done_changed) and completions is not None and failed is not None:
        overlap = _overlap(done, failed, completions)
        if overlap is not None:
            text = f"failedIndexes and completedIndexes overlap at index: {overlap}"
            errors.append(invalid("status.failedIndexes", failed, text))
    return errors


def _overlap(done: str, failed: str, completions: int) -> int | None:
    for first, end in _intervals(done, completions):
        for other_first, other_end in _intervals(failed, completions):
            if first <= other_end and other_first <= end:
                return max(first, other_first)
    return None


def _validate_pods(status: Status, before: Status, now: _Facts, was: _Facts) -> list[FieldError]:
    errors: list[FieldError] = []
    finish_changed = now.finished != was.finished
    uncounted = status.get("uncountedTerminatedPods") or {}
    uncounted_changed = not same(uncounted, before.get("uncountedTerminatedPods"))
    left_over = bool(uncounted.get("failed") or uncounted.get("succeeded"))
    if (finish_changed or uncounted_changed) and now.finished and left_over:
        shown = {"Succeeded": uncounted.get("succeeded"), "Failed": uncounted.get("failed")}
        text = "must be empty for finished job"
        errors.append(invalid_json("status.uncountedTerminatedPods", shown, text))
    terminating = status.get("terminating") or 0
    terminating_changed = status.get("terminating") != before.get("terminating")
    if (finish_changed or terminating_changed) and terminating > 0 and now.finished:
        text = "terminating>0 is invalid for finished job"
        errors.append(invalid("status.terminating", terminating, text))
    ready, active = status.get("ready"), status.get("active") or 0
    changed = ready != before.get("ready") or active != (before.get("active") or 0)
    if changed and ready is not None and ready > active:
        errors.append(invalid("status.ready", ready, "cannot set more ready pods than active"))
    return errors


def _validate_success(spec: Status, now: _Facts) -> list[FieldError]:
    errors: list[FieldError] = []
    if now.success and now.failed:
        errors.append(_refuse("cannot set SuccessCriteriaMet=True and Failed=true conditions"))
    if now.success and now.failure_target:
        errors.append(_refuse("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"))
    if spec.get("successPolicy") is not None and not now.success and now.complete:
        text = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        errors.append(_refuse(text))
    return errors


def _validate_history(
    spec: Status, status: Status, before: Status, now: _Facts, was: _Facts
) -> list[FieldError]:
    errors = [
        _refuse(f"cannot disable the terminal {kind}=True condition")
        for kind in ("Failed", "Complete", "FailureTarget")
        if _is(before, kind) and not _is(status, kind)
    ]
    failed, succeeded = status.get("failed") or 0, status.get("succeeded") or 0
    if failed < (before.get("failed") or 0):
        errors.append(invalid("status.failed", failed, "cannot decrease the failed counter"))
    elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    if not elastic and succeeded < (before.get("succeeded") or 0):
        errors.append(invalid("status.succeeded", succeeded, "cannot decrease the succeeded counter"))
    ended = status.get("completionTime")
    if ended and before.get("completionTime") and ended != before["completionTime"]:
        errors.append(invalid("status.completionTime", ended, "field is immutable"))
    started = status.get("startTime")
    resuming = _is(before, "Suspended") and _is(status, "Suspended", "False")
    if (
        before.get("startTime")
        and started != before["startTime"]
        and not resuming
        and not spec.get("suspend")
    ):
        text = "field is immutable for unsuspended job once set"
        errors.append(invalid("status.startTime", started, text))
    if was.success and not now.success:
        errors.append(_refuse("cannot disable the SuccessCriteriaMet=True condition"))
    if was.complete and not was.success and now.success:
        text = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        errors.append(_refuse(text))
    return errors
