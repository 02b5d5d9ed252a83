"""What pods count for: compute resources while they live, and the scopes that choose pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from quarterdeck.api.instant import Time
from quarterdeck.api.quantity import Quantity, max_quantities, sum_quantities
from quarterdeck.api.quota.amount import Amounts, amounts_of
from quarterdeck.api.quota.evaluator import ONE, Document, Evaluator, Operation, is_selected

_HUGE_PAGES: Final = "hugepages-"
_DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"
_REQUESTS: Final = "requests."
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_NAMES: Final = frozenset(
    ("pods", *(f"{prefix}{name}" for prefix in ("", _REQUESTS, "limits.") for name in _COMPUTE))
)
_MANDATORY: Final = frozenset(
    f"{prefix}{name}" for prefix in ("", _REQUESTS, "limits.") for name in ("cpu", "memory")
)
"""A quota on one of these makes every container name it."""


def _is_extended(name: str) -> bool:
    if name.startswith(_DEVICE_CLASS):
        return True
    return "/" in name and "kubernetes.io/" not in name and not name.startswith(_REQUESTS)


def _is_pod_level(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith(_HUGE_PAGES)


class PodEvaluator(Evaluator):
    """Charges pods."""

    def __init__(self) -> None:
        super().__init__("", "pods")

    def handles(self, operation: Operation, subresource: str, obj: Document, old: Document | None) -> bool:
        if subresource:
            return subresource == "resize" and operation == "UPDATE"
        if operation == "UPDATE" and old is not None:
            return _is_terminating(obj) != _is_terminating(old)
        return operation == "CREATE"

    def is_tracked(self, name: str) -> bool:
        if name in _NAMES or name.startswith((_HUGE_PAGES, _REQUESTS + _HUGE_PAGES)):
            return True
        if super().is_tracked(name):
            return True
        is_foreign = "/" in name and "kubernetes.io/" not in name
        return name.startswith(_REQUESTS) and (is_foreign or name.startswith(_REQUESTS + _DEVICE_CLASS))

    def is_in_scope(self, selector: Document, obj: Document) -> bool:
        spec = obj.get("spec") or {}
        scopes: Mapping[str, Callable[[], bool]] = {
            "Terminating": lambda: _is_terminating(obj),
            "NotTerminating": lambda: not _is_terminating(obj),
            "BestEffort": lambda: _is_best_effort(obj),
            "NotBestEffort": lambda: not _is_best_effort(obj),
            "PriorityClass": lambda: is_selected(selector, spec.get("priorityClassName") or ""),
            "CrossNamespacePodAffinity": lambda: _looks_abroad(spec.get("affinity") or {}),
        }
        test = scopes.get(selector.get("scopeName", ""))
        return test is not None and test()

    def problem(self, names: Iterable[str], obj: Document) -> str:
        spec = obj.get("spec") or {}
        if _has_pod_level(spec, "requests") or _has_pod_level(spec, "limits"):
            return ""
        required = _MANDATORY.intersection(names)
        missing: dict[str, set[str]] = {}
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
            resources = container.get("resources") or {}
            given = _compute_usage(amounts_of(resources.get("requests")), amounts_of(resources.get("limits")))
            for name in required - given.keys():
                missing.setdefault(name, set()).add(container.get("name", ""))
        if not missing:
            return ""
        parts = (f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))
        return f"must specify {'; '.join(parts)}"

    def usage(self, obj: Document, now: float) -> Amounts:
        count = super().usage(obj, now)
        if not _is_alive(obj, now):
            return count
        return {**count, **_compute_usage(pod_requests(obj), pod_limits(obj))}

    def frees(self, old: Document, new: Document, now: float) -> bool:
        if _is_terminating(old) != _is_terminating(new) or _has_resized(old, new):
            return True
        return _is_alive(old, now) and not _is_alive(new, now)


def _is_terminating(pod: Document) -> bool:
    """Whether the pod is to end by itself."""
    deadline = (pod.get("spec") or {}).get("activeDeadlineSeconds")
    return deadline is not None and deadline >= 0


def _is_best_effort(pod: Document) -> bool:
    known = (pod.get("status") or {}).get("qosClass")
    if known:
        return bool(known == "BestEffort")
    spec = pod.get("spec") or {}
    asked = (spec.get("resources"), *(each.get("resources") for each in _containers(spec)))
    return not any(
        Quantity(value)
        for resources in asked
        for kind in ("requests", "limits")
        for name, value in ((resources or {}).get(kind) or {}).items()
        if name in ("cpu", "memory")
    )


def _containers(spec: Document) -> list[Document]:
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]


def _looks_abroad(affinity: Document) -> bool:
    """Whether a term of pod affinity names other namespaces."""
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        preferred = rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms = [each.get("podAffinityTerm") or {} for each in preferred]
        terms += rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        if any(each.get("namespaces") or each.get("namespaceSelector") is not None for each in terms):
            return True
    return False


def _is_alive(pod: Document, now: float) -> bool:
    """Whether the pod uses anything: it has not ended and is not overdue to be gone."""
    if (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
        return False
    metadata = pod.get("metadata") or {}
    since, grace = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
    return since is None or grace is None or now <= Time(since).timestamp() + float(grace)


def _compute_usage(requests: Amounts, limits: Amounts) -> dict[str, Quantity]:
    used = {"pods": ONE}
    for name in _COMPUTE:
        if name in requests:
            used[name] = used[_REQUESTS + name] = requests[name]
        if name in limits:
            used[f"limits.{name}"] = limits[name]
    for name, amount in requests.items():
        if name.startswith(_HUGE_PAGES):
            used[name] = used[_REQUESTS + name] = amount
        elif _is_extended(name):
            used[_REQUESTS + name] = amount
    return used


def _has_pod_level(spec: Document, kind: str) -> bool:
    return any(_is_pod_level(name) for name in (spec.get("resources") or {}).get(kind) or ())


def pod_requests(pod: Document) -> Amounts:
    """What a pod requests: all that runs at once, or what it says as a whole, and its overhead."""
    overhead = amounts_of((pod.get("spec") or {}).get("overhead"))
    return sum_quantities((_total(pod, "requests"), overhead))


def pod_limits(pod: Document) -> Amounts:
    """The same for limits; what is not limited stays so."""
    overhead = amounts_of((pod.get("spec") or {}).get("overhead"))
    return {
        name: amount + overhead[name] if amount and name in overhead else amount
        for name, amount in _total(pod, "limits").items()
    }


def _total(pod: Document, kind: str) -> Amounts:
    whole = amounts_of(((pod.get("spec") or {}).get("resources") or {}).get(kind))
    said = {name: amount for name, amount in whole.items() if _is_pod_level(name)}
    return {**_aggregate(pod, kind), **said}


def _aggregate(pod: Document, kind: str) -> Amounts:
    """The most that the containers need at any time: init containers run one after the other, beside
    those that were started before them and go on."""
    spec = pod.get("spec") or {}
    statuses = _statuses(pod)
    total: Amounts = sum_quantities(
        _effective(pod, container, statuses, kind) for container in spec.get("containers") or ()
    )
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            needed = _effective(pod, container, statuses, kind)
            total = sum_quantities((total, needed))
            sidecars = sum_quantities((sidecars, needed))
            peak = max_quantities(peak, sidecars)
        else:
            needed = amounts_of((container.get("resources") or {}).get(kind))
            peak = max_quantities(peak, sum_quantities((needed, sidecars)))
    return max_quantities(total, peak)


def _statuses(pod: Document) -> dict[str, Document]:
    status = pod.get("status") or {}
    found = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    return {each.get("name", ""): each for each in found}


def _effective(pod: Document, container: Document, statuses: Mapping[str, Document], kind: str) -> Amounts:
    """What a container is charged for: while it is resized, the larger of what it wants and what it has."""
    asked = amounts_of((container.get("resources") or {}).get(kind))
    status = statuses.get(container.get("name", ""))
    if status is None or status.get("resources") is None:
        return asked
    has: Amounts = amounts_of(status["resources"].get(kind))
    if kind == "requests":
        has = max_quantities(has, amounts_of(status.get("allocatedResources")))
    return has if _is_resize_infeasible(pod) else max_quantities(asked, has)


def _is_resize_infeasible(pod: Document) -> bool:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodResizePending":
            return bool(condition.get("reason") == "Infeasible")
    return False


def _has_resized(old: Document, new: Document) -> bool:
    before, after = _statuses(old), _statuses(new)
    return any(
        before[name].get("resources") != after[name].get("resources") for name in before.keys() & after.keys()
    )
