"""CronJob: defaults, the schedule's syntax, the template's rules; nothing is started here."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.formats import non_negative
from quarterdeck.apiserver.builtin.kind import SpecStrategy, section
from quarterdeck.apiserver.builtin.pod.defaults import default_template
from quarterdeck.apiserver.metadata import byte_length, invalid_json
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, invalid, not_supported, required
from quarterdeck.wire.gonumber import parse_uint

from .jobspec import default_failure_policy, job_spec_warnings, validate_job_spec
from .template import hostname_warnings, is_new_generation, shown_selector

_MAX_INT: Final = 2**63 - 1
_POLICIES: Final = ("Allow", "Forbid", "Replace")
_MONTHS: Final = {
    name: index
    for index, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)  # noqa: SIM905
}
_DAYS: Final = {name: index for index, name in enumerate("sun mon tue wed thu fri sat".split())}  # noqa: SIM905
_FIELDS: Final[Sequence[tuple[int, int, Mapping[str, int]]]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_DESCRIPTORS: Final = frozenset(
    ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
)
_is_zone_part = re.compile(r"[A-Za-z\.\-_0-9+]+").fullmatch
_is_duration = re.compile(
    r"[-+]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))*"
).fullmatch


class CronJobStrategy(SpecStrategy):
    def default(self, obj: Json) -> None:
        spec = section(obj, "spec")
        if not spec.get("concurrencyPolicy"):
            spec["concurrencyPolicy"] = "Allow"
        if spec.get("suspend") is None:
            spec["suspend"] = False
        if spec.get("successfulJobsHistoryLimit") is None:
            spec["successfulJobsHistoryLimit"] = 3
        if spec.get("failedJobsHistoryLimit") is None:
            spec["failedJobsHistoryLimit"] = 1
        template = section(spec, "jobTemplate")
        section(template, "metadata").pop("creationTimestamp", None)
        job = section(template, "spec")
        default_failure_policy(job)
        default_template(section(job, "template"))
        section(obj, "status")

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        obj["status"] = {}

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        errors = _validate_spec(obj.get("spec") or {}, None)
        name = (obj.get("metadata") or {}).get("name") or ""
        if byte_length(name) > 52:
            errors.append(invalid("metadata.name", name, "must be no more than 52 characters"))
        return errors

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return _validate_spec(obj.get("spec") or {}, old.get("spec") or {})

    def warnings(self, obj: Json, old: Json | None) -> Iterator[str]:
        if old is None:
            yield from hostname_warnings(obj)
        if is_new_generation(obj, old):
            job = ((obj.get("spec") or {}).get("jobTemplate") or {}).get("spec") or {}
            yield from job_spec_warnings(job, "spec.jobTemplate.spec")


def _validate_spec(spec: Json, old: Json | None) -> list[FieldError]:
    errors: list[FieldError] = []
    schedule = spec.get("schedule") or ""
    path = "spec.schedule"
    if not schedule:
        errors.append(required(path))
    else:
        if problem := schedule_problem(schedule):
            errors.append(invalid(path, schedule, problem))
        zone_was_allowed = "TZ" in ((old or {}).get("schedule") or "")
        if "TZ" in schedule:
            if not zone_was_allowed:
                text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
                errors.append(invalid(path, schedule, text))
            elif spec.get("timeZone") is not None:
                text = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
                errors.append(invalid(path, schedule, text))
    errors += non_negative(spec.get("startingDeadlineSeconds"), "spec.startingDeadlineSeconds")
    zone = spec.get("timeZone")
    if zone is not None and (old is None or old.get("timeZone") != zone):
        errors += _validate_zone(zone)
    policy = spec.get("concurrencyPolicy") or ""
    path = "spec.concurrencyPolicy"
    if policy not in _POLICIES:
        errors.append(not_supported(path, policy, _POLICIES) if policy else required(path))
    job: Json = (spec.get("jobTemplate") or {}).get("spec") or {}
    path = "spec.jobTemplate.spec"
    errors += validate_job_spec(job, path)
    if (selector := job.get("selector")) is not None:
        text = "`selector` will be auto-generated"
        errors.append(invalid_json(f"{path}.selector", shown_selector(selector), text))
    if job.get("manualSelector"):
        errors.append(not_supported(f"{path}.manualSelector", True, ("nil", "false")))
    for key in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        errors += non_negative(spec.get(key), f"spec.{key}")
    return errors


def _validate_zone(zone: str) -> list[FieldError]:
    path = "spec.timeZone"
    if not zone:
        return [invalid(path, zone, "timeZone must be nil or non-empty string")]
    unknown = invalid(path, zone, f"unknown time zone {zone}")
    for part in zone.split("/"):
        if part in (".", "..") or part.startswith("-") or not _is_zone_part(part):
            return [unknown]
    errors: list[FieldError] = []
    if zone.lower() == "local":
        text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        errors.append(invalid(path, zone, text))
    if zone not in ("UTC", "Local") and zone not in zoneinfo.available_timezones():
        errors.append(unknown)
    return errors


def schedule_problem(schedule: str) -> str:
    """What is wrong with a cron expression, in the words of the library Kubernetes uses, or ""."""
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        zone, _, schedule = schedule.partition(" ")
        if not schedule:
            return f'unexpected error parsing schedule "{zone}"'
        schedule = schedule.strip()
    if schedule.startswith("@"):
        if schedule in _DESCRIPTORS:
            return ""
        if schedule.startswith("@every "):
            duration = schedule.removeprefix("@every ")
            if _is_duration(duration):
                return ""
            return f'failed to parse duration {schedule}: time: invalid duration "{duration}"'
        return f"unrecognized descriptor: {schedule}"
    fields = schedule.split()
    if len(fields) != 5:
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
    for text, (low, high, names) in zip(fields, _FIELDS, strict=True):
        for part in text.split(","):
            if problem := _range_problem(part, low, high, names):
                return problem
    return ""


def _range_problem(text: str, low: int, high: int, names: Mapping[str, int]) -> str:
    span, *step = text.split("/")
    bounds = span.split("-")
    if bounds[0] in ("*", "?"):
        start, end = low, high
        if len(bounds) > 1:
            return f"too many hyphens: {text}"
    else:
        if len(bounds) > 2:
            return f"too many hyphens: {text}"
        numbers: list[int] = []
        for bound in bounds:
            if bound.lower() in names:
                numbers.append(names[bound.lower()])
            elif (number := parse_uint(bound, _MAX_INT)) is not None:
                numbers.append(number)
            elif bound.startswith("-"):
                return f"negative number ({bound}) not allowed: {bound}"
            else:
                return _no_number(bound)
        start, end = numbers[0], numbers[-1]
    if len(step) > 1:
        return f"too many slashes: {text}"
    if step:
        if parse_uint(step[0], _MAX_INT) is None:
            return _no_number(step[0])
        if len(bounds) == 1 and bounds[0] not in ("*", "?"):
            end = high
    if start < low:
        return f"beginning of range ({start}) below minimum ({low}): {text}"
    if end > high:
        return f"end of range ({end}) above maximum ({high}): {text}"
    if start > end:
        return f"beginning of range ({start}) beyond end of range ({end}): {text}"
    if step and parse_uint(step[0], 0) == 0:
        return f"step of range should be a positive number: {text}"
    return ""


def _no_number(text: str) -> str:
    why = "value out of range" if text.isdecimal() and text.isascii() else "invalid syntax"
    return f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": {why}'
