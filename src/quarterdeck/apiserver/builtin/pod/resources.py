"""Compute resources of containers and pods: names, requests and limits, quality of service.

Sums follow the scheduler's rules: init containers run one after the other, restartable ones
(sidecars) stay and add up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quarterdeck.api.quantity import canonical_text
from quarterdeck.apiserver.builtin.formats import NOT_NEGATIVE
from quarterdeck.apiserver.document.quantity import NANO, ZERO, Quantity, parse
from quarterdeck.apiserver.metadata import qualified_name_errors
from quarterdeck.wire.fielderror import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
)

from .claim import ClaimNames, validate_claim_references

_HUGE_PAGES: Final = "hugepages-"
_CONTAINER_RESOURCES: Final = frozenset(("cpu", "memory", "ephemeral-storage"))
_INTEGER_RESOURCES: Final = frozenset(
    (
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    )
)
STANDARD_RESOURCES: Final = (
    _CONTAINER_RESOURCES
    | _INTEGER_RESOURCES
    | {
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "storage",
        "requests.storage",
    }
)


def is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """`vendor.com/gpu`: counted in whole units, never overcommitted."""
    return not is_native(name) and not name.startswith("requests.")


def is_overcommit_allowed(name: str) -> bool:
    return is_native(name) and not name.startswith(_HUGE_PAGES)


def is_pod_level_resource(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith(_HUGE_PAGES)


def is_integer_resource(name: str) -> bool:
    return name in _INTEGER_RESOURCES or is_extended(name)


def validate_resource_name(name: str, field: str) -> list[FieldError]:
    errors = [invalid(field, name, text) for text in qualified_name_errors(name)]
    if errors or "/" in name or name in STANDARD_RESOURCES:
        return errors
    if name.startswith((_HUGE_PAGES, "requests.hugepages-")):
        return errors
    return [invalid(field, name, "must be a standard resource type or fully qualified")]


def validate_container_resource(name: str, field: str) -> list[FieldError]:
    if name in _CONTAINER_RESOURCES:
        return []
    errors = validate_resource_name(name, field)
    if "/" not in name:
        if not name.startswith(_HUGE_PAGES):
            errors.append(invalid(field, name, "must be a standard resource for containers"))
    elif not is_native(name) and (name.startswith("requests.") or qualified_name_errors(f"requests.{name}")):
        errors.append(invalid(field, name, "doesn't follow extended resource name standard"))
    return errors


def _validate_pod_resource(name: str, field: str) -> list[FieldError]:
    if is_pod_level_resource(name):
        return []
    errors = validate_resource_name(name, field)
    return errors or [not_supported(field, name, ("cpu", "hugepages-", "memory"))]


def quantity_or_zero(source: Any) -> Quantity:
    try:
        return parse(source)
    except ValueError:
        return ZERO


def validate_quantity(name: str, quantity: Quantity, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if quantity.nanos < 0:
        errors.append(invalid(field, quantity.text, NOT_NEGATIVE))
    if quantity.nanos % NANO and quantity.milli % 1000 and is_integer_resource(name):
        errors.append(invalid(field, quantity.text, "must be an integer"))
    return errors


def _huge_page_problem(name: str, quantity: Quantity) -> str:
    try:
        page = parse(name.removeprefix(_HUGE_PAGES))
    except ValueError:
        page = ZERO
    if page.nanos > 0 and page.nanos % NANO == 0 and quantity.value % page.value == 0:
        return ""
    return f"{quantity.text} is not positive integer multiple of {name}"


def validate_requirements(
    requirements: Mapping[str, Any] | None,
    field: str,
    *,
    claim_names: ClaimNames | None = None,
    pod_level: bool = False,
) -> list[FieldError]:
    """`resources` of a container or, with `pod_level`, of a pod."""
    if not requirements:
        return []
    errors: list[FieldError] = []
    limits: Mapping[str, Any] = requirements.get("limits") or {}
    requests: Mapping[str, Any] = requirements.get("requests") or {}
    check_name = _validate_pod_resource if pod_level else validate_container_resource
    huge = False
    for name, source in limits.items():
        quantity = quantity_or_zero(source)
        if name in ("cpu", "memory") and quantity.nanos >= 0:
            continue
        path = f"{field}.limits[{name}]"
        errors += check_name(name, path)
        errors += validate_quantity(name, quantity, path)
        if name.startswith(_HUGE_PAGES):
            huge = True
            if problem := _huge_page_problem(name, quantity):
                errors.append(invalid(path, quantity.text, problem))
    for name, source in requests.items():
        quantity = quantity_or_zero(source)
        if not (name in ("cpu", "memory") and quantity.nanos >= 0):
            path = f"{field}.requests[{name}]"
            errors += check_name(name, path)
            errors += validate_quantity(name, quantity, path)
        if name in limits:
            limit = quantity_or_zero(limits[name])
            if quantity.nanos != limit.nanos and not is_overcommit_allowed(name):
                text = f"must be equal to {name} limit of {limit.text}"
                errors.append(invalid(f"{field}.requests", quantity.text, text))
            elif quantity.nanos > limit.nanos:
                text = f"must be less than or equal to {name} limit of {limit.text}"
                errors.append(invalid(f"{field}.requests", quantity.text, text))
        elif not is_overcommit_allowed(name):
            errors.append(required(f"{field}.limits", "Limit must be set for non overcommitable resources"))
        if name.startswith(_HUGE_PAGES):
            huge = True
            if problem := _huge_page_problem(name, quantity):
                errors.append(invalid(f"{field}.requests[{name}]", quantity.text, problem))
    if huge and not any(name in limits or name in requests for name in ("cpu", "memory")):
        errors.append(forbidden(field, "HugePages require cpu or memory"))
    if claims := requirements.get("claims"):
        errors += validate_claim_references(claims, claim_names or ClaimNames(), f"{field}.claims")
    return errors


Totals = dict[str, Quantity]


def _add(totals: Totals, resources: Mapping[str, Any]) -> None:
    for name, source in resources.items():
        quantity = quantity_or_zero(source)
        seen = totals.get(name)
        if seen is None:
            totals[name] = quantity
        else:
            form = seen.format if seen.nanos else quantity.format
            nanos = seen.nanos + quantity.nanos
            totals[name] = Quantity(nanos, form, canonical_text(nanos, form))


def _raise_to(totals: Totals, other: Totals) -> None:
    for name, quantity in other.items():
        seen = totals.get(name)
        if seen is None or quantity.nanos > seen.nanos:
            totals[name] = quantity


def _aggregate(spec: Mapping[str, Any], key: str) -> Totals:
    totals: Totals = {}
    for container in spec.get("containers") or ():
        _add(totals, (container.get("resources") or {}).get(key) or {})
    sidecars: Totals = {}
    peak: Totals = {}
    for container in spec.get("initContainers") or ():
        resources = (container.get("resources") or {}).get(key) or {}
        # only what this container names can be higher than it was before
        if container.get("restartPolicy") == "Always":
            _add(totals, resources)
            _add(sidecars, resources)
            _raise_to(peak, {name: sidecars[name] for name in resources})
        else:
            running = {name: sidecars[name] for name in resources if name in sidecars}
            _add(running, resources)
            _raise_to(peak, running)
    _raise_to(totals, peak)
    return totals


def aggregate_requests(spec: Mapping[str, Any]) -> Totals:
    """What all containers of a pod request together."""
    return _aggregate(spec, "requests")


def aggregate_limits(spec: Mapping[str, Any]) -> Totals:
    return _aggregate(spec, "limits")


def pod_requests(spec: Mapping[str, Any]) -> Totals:
    """What a pod requests: the containers' sum, replaced by pod-level requests, plus overhead."""
    totals = aggregate_requests(spec)
    for name, source in ((spec.get("resources") or {}).get("requests") or {}).items():
        if is_pod_level_resource(name):
            totals[name] = quantity_or_zero(source)
    _add(totals, spec.get("overhead") or {})
    return totals


def qos_class(spec: Mapping[str, Any]) -> str:
    """Guaranteed, Burstable or BestEffort, from cpu and memory alone."""
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    guaranteed = True
    level = spec.get("resources")
    if level is not None and (level.get("requests") or level.get("limits")):
        _sum_compute(requests, level.get("requests"))
        if level.get("limits"):
            guaranteed = _sum_compute(limits, level["limits"]) == 2
    else:
        for key in ("containers", "initContainers"):
            for container in spec.get(key) or ():
                resources = container.get("resources")
                if not resources:
                    guaranteed = False
                    continue
                _sum_compute(requests, resources.get("requests"))
                if _sum_compute(limits, resources.get("limits")) != 2:
                    guaranteed = False
    if not requests and not limits:
        return "BestEffort"
    if guaranteed and requests == limits:
        return "Guaranteed"
    return "Burstable"


def _sum_compute(totals: dict[str, int], resources: Mapping[str, Any] | None) -> int:
    found = 0
    if resources:
        for name in ("cpu", "memory"):
            if name in resources:
                nanos = quantity_or_zero(resources[name]).nanos
                if nanos > 0:
                    found += 1
                    totals[name] = totals.get(name, 0) + nanos
    return found


def validate_pod_level(
    spec: Mapping[str, Any], field: str, *, claim_names: ClaimNames | None = None
) -> list[FieldError]:
    """`spec.resources` against itself and against the containers."""
    level = spec.get("resources")
    if level is None:
        return []
    path = f"{field}.resources"
    if (spec.get("os") or {}).get("name") == "windows":
        return [forbidden(path, "may not be set for a windows pod")]
    errors: list[FieldError] = []
    if level.get("claims"):
        errors.append(forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level"))
    errors += validate_requirements(level, path, claim_names=claim_names, pod_level=True)
    requests: Mapping[str, Any] = level.get("requests") or {}
    limits: Mapping[str, Any] = level.get("limits") or {}
    for name, total in aggregate_requests(spec).items():
        if name in requests and total.nanos > (own := quantity_or_zero(requests[name])).nanos:
            text = f"must be greater than or equal to aggregate container requests of {total.text}"
            errors.append(invalid(f"{path}.requests[{name}]", own.text, text))
    for name, total in aggregate_limits(spec).items():
        if not name.startswith(_HUGE_PAGES) or name not in limits:
            continue
        if total.nanos > (own := quantity_or_zero(limits[name])).nanos:
            text = f"must be greater than or equal to aggregate container limits of {total.text}"
            errors.append(invalid(f"{path}.limits[{name}]", own.text, text))
    for index, container in enumerate(spec.get("containers") or ()):
        for name, source in ((container.get("resources") or {}).get("limits") or {}).items():
            if name not in limits:
                continue
            quantity, own = quantity_or_zero(source), quantity_or_zero(limits[name])
            if quantity.nanos > own.nanos:
                text = f"must be less than or equal to pod limits of {own.text}"
                errors.append(invalid(f"{path}.containers[{index}][{name}].limits", quantity.text, text))
    return errors
