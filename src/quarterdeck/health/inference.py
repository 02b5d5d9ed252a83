"""What can be wrong with inference services: PodCliqueSets, their roles and scaling groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .examined import Examined
from .field import Json, condition, items, of, plural
from .problem import Finding

_START: Final = 60.0
_UPDATE: Final = 1800.0
"""Seconds after which an update is looked at."""


def examine_clique_set(obj: Json) -> Iterator[Finding]:
    """A service with too few replicas, an update that does not end, errors."""
    service = Examined("PodCliqueSet", obj)
    has, wanted = int(service.status.get("availableReplicas") or 0), int(service.spec.get("replicas") or 0)
    if has < wanted:
        situation = "service-degraded" if has else "service-unavailable"
        text = f"{has} of {plural(wanted, 'replica')} {'is' if wanted == 1 else 'are'} available"
        yield service.found(situation, text, after=_START, is_dated=False)
    yield from _update(service)
    yield from _errors(service)
    topology = condition(obj, "TopologyLevelsUnavailable")
    if topology.get("status") == "True":
        text = str(topology.get("message") or "levels of its topology are not there")
        yield service.found("topology-unavailable", text, since=_since(topology))


def examine_clique(obj: Json) -> Iterator[Finding]:
    """A role with too few pods."""
    yield from _part(Examined("PodClique", obj), obj)


def examine_scaling_group(obj: Json) -> Iterator[Finding]:
    """Roles that are replicated together, with too few of them."""
    yield from _part(Examined("PodCliqueScalingGroup", obj), obj)


def _part(part: Examined, obj: Json) -> Iterator[Finding]:
    breached = condition(obj, "MinAvailableBreached")
    if breached.get("status") == "True":
        needed = part.spec.get("minAvailable")
        text = (
            f"fewer than the {needed} that it needs are there" if needed else "fewer than it needs are there"
        )
        yield part.found("minimum-breached", text, since=_since(breached))
    ending = condition(obj, "GangTerminationInProgress")
    if ending.get("status") == "True":
        text = str(ending.get("message") or "it is started anew")
        yield part.found("gang-termination", text, since=_since(ending))
    yield from _errors(part)


def _update(service: Examined) -> Iterator[Finding]:
    update = of(service.status, "updateProgress")
    if update.get("updateStartedAt") and not update.get("updateEndedAt"):
        text = "its update has gone on for more than half an hour"
        yield service.found("update-stalled", text, since=str(update["updateStartedAt"]), after=_UPDATE)


def _errors(found: Examined) -> Iterator[Finding]:
    for each in items(found.status, "lastErrors"):
        text = str(each.get("description") or each.get("code") or "an error that says nothing")
        yield found.found("reconcile-failed", text, since=str(each.get("observedAt") or ""))


def _since(found: Json) -> str:
    return str(found.get("lastTransitionTime") or "")
