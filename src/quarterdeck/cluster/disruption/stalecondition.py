"""Takes back the announcement of a disruption that did not come: two minutes after it was made."""

from __future__ import annotations

from typing import Any, Final

from quarterdeck.api import Time
from quarterdeck.api.k8s import Pod
from quarterdeck.client import StrategicMergePatch
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.errors import ignore_not_found
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Requeue, Result

NAME: Final = "stale-pod-disruption-controller"
_TIMEOUT: Final = 120.0
_CONDITION: Final = "DisruptionTarget"
_MARK: Final = b'"DisruptionTarget"'


async def _take_back(ctx: Context[Pod]) -> Result | None:
    pod = ctx.obj
    announced = next((each for each in pod.status.conditions if each.type == _CONDITION), None)
    if announced is None or announced.status != "True" or announced.reason == "TerminationByKubelet":
        return None
    if pod.metadata.is_deleting or pod.status.phase in ("Succeeded", "Failed"):
        return None
    since = announced.last_transition_time
    now = LoopClock().time()
    left = (since.timestamp() if isinstance(since, Time) else 0.0) + _TIMEOUT - now
    if left > 0:
        return Requeue(after=left)
    condition = {
        "type": _CONDITION,
        "status": "False",
        "lastTransitionTime": str(Time.of_timestamp(now)),
        "observedGeneration": pod.metadata.generation,
        "reason": None,
        "message": None,
    }
    patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
    with ignore_not_found():
        await ctx.client.status.patch(pod, StrategicMergePatch(patch))
    return None


def _is_announced(event: ObjectEvent[Any]) -> bool:
    return _MARK in event.entry.raw and not event.entry.is_deleting


_ANNOUNCED: Final = Predicate("announced", create=_is_announced, update=_is_announced, delete=lambda _: False)


def stale_disruption_controller() -> Controller[Pod]:
    """The controller, for ``manager.add``."""
    return (
        Builder(name=NAME)
        .for_(Pod, predicates=[_ANNOUNCED])
        .rbac(Rule(groups=("",), resources=("pods/status",), verbs=("patch",)))
        .options(field_manager=FIELD_MANAGER)
        .build(_take_back)
    )
