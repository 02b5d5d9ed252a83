"""Conditions of CertificateSigningRequests: who may set which, and when they were set.

Approved and Denied are set through `approval`, the certificate and all other conditions through `status`.
None of Approved, Denied and Failed is ever taken back.
"""

from __future__ import annotations

from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.resource.strategy import Strategy, WriteContext
from quarterdeck.wire.fielderror import FieldError, duplicate, forbidden, invalid, not_supported, required

_FIELD: Final = "status.conditions"
_DECISIONS: Final = ("Approved", "Denied")
_ALWAYS_TRUE: Final = (*_DECISIONS, "Failed")


def conditions_of(obj: Json) -> list[Json]:
    found: list[Json] = (obj.get("status") or {}).get("conditions") or []
    return found


def _typed(obj: Json, kind: str) -> list[Json]:
    return [each for each in conditions_of(obj) if each.get("type") == kind]


def stamp_conditions(obj: Json, old: Json, now: str) -> None:
    """Fill in the times that are missing; a condition that was there with the same status keeps its own."""
    for condition in conditions_of(obj):
        if not condition.get("lastUpdateTime"):
            condition["lastUpdateTime"] = now
        if condition.get("lastTransitionTime"):
            continue
        known = [
            each["lastTransitionTime"]
            for each in _typed(old, condition.get("type", ""))
            if each.get("status") == condition.get("status") and each.get("lastTransitionTime")
        ]
        condition["lastTransitionTime"] = known[0] if known else now


def keep_decisions(obj: Json, old: Json) -> None:
    """A write of the status leaves decisions as they are, unless it adds or removes one."""
    for kind in _DECISIONS:
        before, after = _typed(old, kind), _typed(obj, kind)
        if len(before) == len(after):
            for stored, given in zip(before, after, strict=True):
                given.clear()
                given.update(stored)


def condition_errors(obj: Json, old: Json, *, may_decide: bool) -> list[FieldError]:
    """What is wrong with the conditions of a changed request."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, condition in enumerate(conditions_of(obj)):
        kind, value = condition.get("type") or "", condition.get("status") or ""
        path = f"{_FIELD}[{index}]"
        allowed = ("True",) if kind in _ALWAYS_TRUE else ("False", "True", "Unknown")
        if not kind:
            errors.append(required(f"{path}.type"))
        if not value:
            errors.append(required(f"{path}.status"))
        elif value not in allowed:
            errors.append(not_supported(f"{path}.status", value, allowed))
        if kind in _DECISIONS and seen & ({*_DECISIONS} - {kind}):
            errors.append(invalid(_FIELD, kind, "Approved and Denied conditions are mutually exclusive"))
        if kind in seen:
            errors.append(duplicate(f"{path}.type", kind))
        seen.add(kind)
    for kind in _ALWAYS_TRUE:
        if len(_typed(obj, kind)) < len(_typed(old, kind)):
            errors.append(forbidden(_FIELD, f'updates may not remove a condition of type "{kind}"'))
    if not may_decide:
        errors += [
            forbidden(_FIELD, f'updates may not add a condition of type "{kind}"')
            for kind in _DECISIONS
            if len(_typed(obj, kind)) > len(_typed(old, kind))
        ]
    return errors


class ApprovalRules(Strategy):
    """certificatesigningrequests/<name>/approval: conditions and metadata change, nothing else."""

    has_generation = False

    def prepare_update(self, obj: Json, old: Json, ctx: WriteContext) -> None:
        conditions = conditions_of(obj)
        obj["spec"] = old.get("spec") or {}
        obj["status"] = {**(old.get("status") or {}), "conditions": conditions}
        if not conditions:
            del obj["status"]["conditions"]
        stamp_conditions(obj, old, ctx.now)

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return condition_errors(obj, old, may_decide=True)
