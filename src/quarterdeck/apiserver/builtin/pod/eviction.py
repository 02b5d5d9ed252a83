"""Eviction: deleting a pod with its disruption budget's consent.

The caller reads the pod and the budgets of its namespace, asks `check_budgets`, stores the budget
it returns, marks the pod with `mark_evicted`, stores it and deletes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.kind import section
from quarterdeck.apiserver.metadata import selector_matches
from quarterdeck.apiserver.status import StatusError, bad_request, forbidden, plain_error

from .podstatus import condition, set_condition

_REFUSED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL: Final = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
)
_MOST_DISRUPTED: Final = 2000


def validate_eviction(name: str, eviction: Mapping[str, Any]) -> None:
    """Raises when the Eviction is not for this pod."""
    if ((eviction.get("metadata") or {}).get("name") or "") != name:
        raise bad_request("name in URL does not match name in Eviction object")


def mark_evicted(pod: Json, now: str) -> bool:
    """Adds the DisruptionTarget condition; False when nothing changed."""
    text = "Eviction API: evicting"
    wanted = condition("DisruptionTarget", "True", now, reason="EvictionByEvictionAPI", message=text)
    return set_condition(section(pod, "status"), wanted)


def check_budgets(pod: Mapping[str, Any], budgets: Sequence[Json], now: str) -> Json | None:
    """The budget to store with one disruption less, or None when no budget is concerned.

    Raises TooManyRequests when the budget allows no disruption.
    """
    phase = (pod.get("status") or {}).get("phase")
    if phase in ("Succeeded", "Failed", "Pending") or pod["metadata"].get("deletionTimestamp"):
        return None
    labels = pod["metadata"].get("labels") or {}
    matching = [
        item for item in budgets if selector_matches((item.get("spec") or {}).get("selector"), labels)
    ]
    if not matching:
        return None
    if len(matching) > 1:
        raise plain_error(_SEVERAL)
    budget = matching[0]
    status: Mapping[str, Any] = budget.get("status") or {}
    if not _is_ready(pod):
        if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
            return None
        desired = status.get("desiredHealthy") or 0
        if desired > 0 and (status.get("currentHealthy") or 0) >= desired:
            return None
    _take_disruption(budget, pod["metadata"].get("name") or "", now)
    return budget


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)


def _take_disruption(budget: Json, pod_name: str, now: str) -> None:
    status = section(budget, "status")
    name = budget["metadata"].get("name") or ""
    if (status.get("observedGeneration") or 0) < (budget["metadata"].get("generation") or 0):
        text = f"The disruption budget {name} is still being processed by the server."
        raise _too_many(text, retry_after=10)
    allowed = status.get("disruptionsAllowed") or 0
    if allowed < 0:
        raise forbidden("poddisruptionbudget", "policy", name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or ()) > _MOST_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden("poddisruptionbudget", "policy", name, why)
    if allowed == 0:
        raise _too_many(_why_refused(name, status))
    status["disruptionsAllowed"] = allowed - 1
    if allowed == 1:
        _forbid_disruptions(budget, now)
    section(status, "disruptedPods")[pod_name] = now


def _why_refused(name: str, status: Mapping[str, Any]) -> str:
    found: Mapping[str, Any] = next(
        (item for item in status.get("conditions") or () if item.get("type") == "DisruptionAllowed"), {}
    )
    reason, message = found.get("reason") or "", found.get("message") or ""
    refused = found.get("status") == "False" and bool(message)
    needed, healthy = status.get("desiredHealthy") or 0, status.get("currentHealthy") or 0
    if refused and reason == "SyncFailed":
        return (
            f"The disruption budget {name} does not allow evicting pods currently "
            f"because it failed sync: {message}"
        )
    if healthy <= needed:
        return f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently"
    if refused:
        return f"The disruption budget {name} does not allow evicting pods currently ({reason}): {message}"
    return f"The disruption budget {name} does not allow evicting pods currently"


def _forbid_disruptions(budget: Json, now: str) -> None:
    """What the disruption controller's condition says once the last disruption is taken."""
    conditions = budget["status"].setdefault("conditions", [])
    wanted = {
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": budget["status"].get("observedGeneration") or 0,
        "lastTransitionTime": now,
        "reason": "InsufficientPods",
        "message": "",
    }
    for index, present in enumerate(conditions):
        if present.get("type") == "DisruptionAllowed":
            if present.get("status") == "False":
                wanted["lastTransitionTime"] = present.get("lastTransitionTime")
            conditions[index] = wanted
            return
    conditions.append(wanted)


def _too_many(text: str, *, retry_after: int = 0) -> StatusError:
    return StatusError(
        429,
        _REFUSED,
        reason="TooManyRequests",
        details={"causes": [{"reason": "DisruptionBudget", "message": text}]},
        retry_after=retry_after,
        headers=[("Retry-After", str(retry_after))] if retry_after else (),
    )
