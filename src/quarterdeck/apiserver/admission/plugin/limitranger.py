"""LimitRanger: default requests and limits of a namespace's pods, and the bounds of pods and claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.admission.attributes import Attributes
from quarterdeck.apiserver.builtin.pod.resources import (
    aggregate_limits,
    aggregate_requests,
    quantity_or_zero,
)
from quarterdeck.apiserver.document.quantity import MILLI, Quantity

from .base import CREATE, UPDATE, Plugin, keys, spec_of

_ANNOTATION: Final = "kubernetes.io/limit-ranger"
_MAX_MILLI: Final = (1 << 63) // 1000
_POD_LEVEL: Final = ("cpu", "memory")

Amounts = Mapping[str, Quantity]
Check = Callable[[str, str, Quantity, Amounts, Amounts], str]


class LimitRanger(Plugin):
    """Applies the LimitRanges of a namespace."""

    name = "LimitRanger"
    mutates = keys("", ("pods",), (CREATE,)) | keys("", ("pods/resize",), (UPDATE,))
    validates = mutates | keys("", ("persistentvolumeclaims",), (CREATE, UPDATE))

    def mutate(self, attributes: Attributes) -> None:
        for limit_range in _limit_ranges(attributes):
            if attributes.object is not None:
                _set_defaults(attributes.object, limit_range)

    def validate(self, attributes: Attributes) -> None:
        check = _claim_problems if attributes.resource == "persistentvolumeclaims" else _pod_problems
        for limit_range in _limit_ranges(attributes):
            problems = list(dict.fromkeys(check(attributes.object or {}, limit_range)))
            if problems:
                why = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
                raise attributes.forbidden(why)


def _limit_ranges(attributes: Attributes) -> Iterator[Json]:
    """Those that count; what is being deleted is left alone."""
    old = attributes.old_object
    if old is None or not old["metadata"].get("deletionTimestamp"):
        yield from attributes.context.cluster.list("", "limitranges", attributes.namespace)


def _items(limit_range: Json, kind: str) -> Iterator[Json]:
    return (item for item in spec_of(limit_range).get("limits") or () if item.get("type") == kind)


def _set_defaults(pod: Json, limit_range: Json) -> None:
    defaults: dict[str, dict[str, str]] = {"requests": {}, "limits": {}}
    for item in _items(limit_range, "Container"):
        defaults["requests"] |= item.get("defaultRequest") or {}
        defaults["limits"] |= item.get("default") or {}
    notes = []
    for key, title in (("containers", "container"), ("initContainers", "init container")):
        for container in pod["spec"].get(key) or ():
            resources = container.get("resources") or {}
            for part in ("requests", "limits"):
                present = resources.get(part) or {}
                if added := sorted(defaults[part].keys() - present.keys()):
                    resources[part] = present | {name: defaults[part][name] for name in added}
                    notes.append(f"{', '.join(added)} {part[:-1]} for {title} {container['name']}")
            if resources:
                container["resources"] = resources
    if notes:
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[_ANNOTATION] = f"LimitRanger plugin set: {'; '.join(notes)}"


def _claim_problems(claim: Json, limit_range: Json) -> Iterator[str]:
    requests = _amounts((spec_of(claim).get("resources") or {}).get("requests"))
    for item in _items(limit_range, "PersistentVolumeClaim"):
        for name, bound in _amounts(item.get("min")).items():
            yield from _one(_too_small(item["type"], name, bound, requests, {}))
        for name, bound in _amounts(item.get("max")).items():
            yield from _one(_request_too_large(item["type"], name, bound, requests))


def _pod_problems(pod: Json, limit_range: Json) -> Iterator[str]:
    spec = spec_of(pod)
    for item in spec_of(limit_range).get("limits") or ():
        if item.get("type") == "Container":
            for key in ("containers", "initContainers"):
                for container in spec.get(key) or ():
                    resources = container.get("resources") or {}
                    requests, limits = _amounts(resources.get("requests")), _amounts(resources.get("limits"))
                    yield from _bound_problems(item, requests, limits)
        elif item.get("type") == "Pod":
            level = spec.get("resources") or {}
            requests = aggregate_requests(spec) | _pod_level(level.get("requests"))
            limits = aggregate_limits(spec) | _pod_level(level.get("limits"))
            yield from _bound_problems(item, requests, limits)


def _pod_level(source: Mapping[str, Any] | None) -> dict[str, Quantity]:
    return {name: amount for name, amount in _amounts(source).items() if name in _POD_LEVEL}


def _bound_problems(item: Json, requests: Amounts, limits: Amounts) -> Iterator[str]:
    checks: tuple[tuple[str, Check], ...] = (
        ("min", _too_small),
        ("max", _too_large),
        ("maxLimitRequestRatio", _ratio_too_large),
    )
    for key, check in checks:
        for name, bound in _amounts(item.get(key)).items():
            yield from _one(check(item["type"], name, bound, requests, limits))


def _one(problem: str) -> Iterator[str]:
    if problem:
        yield problem


def _too_small(kind: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> str:
    text = f"minimum {name} usage per {kind} is {bound.text}"
    request, limit = requests.get(name), limits.get(name)
    if request is None:
        return f"{text}.  No request is specified"
    if _less(request, bound):
        return f"{text}, but request is {request.text}"
    if limit is not None and _less(limit, bound):
        return f"{text}, but limit is {limit.text}"
    return ""


def _request_too_large(kind: str, name: str, bound: Quantity, requests: Amounts) -> str:
    text = f"maximum {name} usage per {kind} is {bound.text}"
    request = requests.get(name)
    if request is None:
        return f"{text}.  No request is specified"
    return f"{text}, but request is {request.text}" if _less(bound, request) else ""


def _too_large(kind: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> str:
    text = f"maximum {name} usage per {kind} is {bound.text}"
    request, limit = requests.get(name), limits.get(name)
    if limit is None:
        return f"{text}.  No limit is specified"
    if _less(bound, limit):
        return f"{text}, but limit is {limit.text}"
    if request is not None and _less(bound, request):
        return f"{text}, but request is {request.text}"
    return ""


def _ratio_too_large(kind: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> str:
    text = f"{name} max limit to request ratio per {kind} is {bound.text}"
    request, limit = requests.get(name), limits.get(name)
    if request is None or not request.nanos:
        return f"{text}, but no request is specified or request is 0"
    if limit is None or not limit.nanos:
        return f"{text}, but no limit is specified or limit is 0"
    ratio = limit.milli / request.milli if _is_precise(request, limit) else limit.value / request.value
    if ratio * 1000 > bound.nanos / MILLI:
        return f"{text}, but provided ratio is {ratio:f}"
    return ""


def _is_precise(*amounts: Quantity) -> bool:
    return all(amount.value <= _MAX_MILLI for amount in amounts)


def _less(one: Quantity, other: Quantity) -> bool:
    """Compared in thousandths, or in whole units where those do not fit into 64 bits."""
    return one.milli < other.milli if _is_precise(one, other) else one.value < other.value


def _amounts(source: Mapping[str, Any] | None) -> dict[str, Quantity]:
    return {name: quantity_or_zero(value) for name, value in (source or {}).items()}
