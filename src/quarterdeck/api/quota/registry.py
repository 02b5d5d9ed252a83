"""Which evaluator counts which resource."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from quarterdeck.api.quota.device import DeviceClaimEvaluator
from quarterdeck.api.quota.evaluator import Evaluator
from quarterdeck.api.quota.pod import PodEvaluator
from quarterdeck.api.quota.service import ServiceEvaluator
from quarterdeck.api.quota.volume import VolumeClaimEvaluator

_ALIASES: Final = ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")
_SPECIAL: Final[tuple[Evaluator, ...]] = (
    PodEvaluator(),
    ServiceEvaluator(),
    VolumeClaimEvaluator(),
    DeviceClaimEvaluator(),
    *(Evaluator("", name, alias=name) for name in _ALIASES),
)
_BY_RESOURCE: Final = {(each.group, each.resource): each for each in _SPECIAL}
_EVENTS: Final = frozenset((("", "events"), ("events.k8s.io", "events")))

SPECIAL_RESOURCES: Final = tuple(_BY_RESOURCE)
"""(group, resource) of those that quotas know by more names than ``count/…``."""


def is_ignored(group: str, resource: str) -> bool:
    """Whether quotas never count a resource: events, and what is answered but not stored."""
    return (
        (group, resource) in _EVENTS
        or group in ("authentication.k8s.io", "authorization.k8s.io")
        or (not group and resource in ("bindings", "componentstatuses"))
    )


@lru_cache(maxsize=1024)
def evaluator_of(group: str, resource: str) -> Evaluator:
    """The evaluator of a resource; those without one of their own are counted."""
    known = _BY_RESOURCE.get((group, resource))
    return known if known is not None else Evaluator(group, resource)
