"""Pods that do what Stages say: one step after the other, each when it is due.

As in KWOK, a stage is chosen when a pod comes into a state that it is about, and kept until it is due or does
not fit any more. As long as there is a Stage for pods, nothing else happens to them: whoever wants pods that
go when they are deleted has a Stage for that, too.
"""

from __future__ import annotations

import random
from typing import Any, Final, NamedTuple

import msgspec

from quarterdeck.api import Key
from quarterdeck.api.k8s import Pod
from quarterdeck.client import JsonPatch, MergePatch, StrategicMergePatch
from quarterdeck.cluster.stage.error import StageError
from quarterdeck.cluster.stage.function import Surroundings
from quarterdeck.cluster.stage.rule import (
    Event,
    Finalizers,
    Patch,
    Removal,
    StageRule,
    Step,
    choose,
    compiled,
    kind_of,
)
from quarterdeck.cluster.stage.types import Stage
from quarterdeck.errors import NotFound, ignore_not_found
from quarterdeck.runtime.cache import Cache, Entry
from quarterdeck.runtime.contract import Recorder
from quarterdeck.runtime.log import get_logger
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Requeue, Result

_log: Final = get_logger(__name__)
_PODS: Final = ("v1", "Pod")


class _Pending(NamedTuple):
    uid: str
    stage: str
    due: float


class StageFollower:
    """What is pending for each pod."""

    def __init__(self, dice: random.Random | None = None) -> None:
        self._dice: Final = dice or random.Random()  # noqa: S311  jitter, no secret
        self._pending: dict[Key, _Pending] = {}
        self._known: tuple[list[Entry], list[StageRule] | None] = ([], None)

    def rules(self, cache: Cache) -> list[StageRule] | None:
        """The stages of pods that can be carried out; none if there is no stage for pods at all."""
        entries = list(cache.informer(Stage).entries())
        if entries != self._known[0]:
            self._known = (entries, self._read(entries))
        return self._known[1]

    @staticmethod
    def _read(entries: list[Entry]) -> list[StageRule] | None:
        found: list[StageRule] | None = None
        for entry in entries:
            if kind_of(msgspec.json.decode(entry.raw)) != _PODS:
                continue
            found = found if found is not None else []
            try:
                rule = compiled(entry.raw)
            except StageError:
                continue  # the teller has said so
            if rule is not None:
                found.append(rule)
        return found

    def forget(self, pod: Key) -> None:
        """A pod is gone."""
        self._pending.pop(pod, None)

    async def follow(
        self,
        ctx: Context[Pod],
        rules: list[StageRule],
        around: Surroundings,
        *,
        now: float,
        recorder: Recorder | None,
    ) -> Result | None:
        """Take a pod as far as its stages go."""
        pod = ctx.obj
        document = pod.to_dict()
        fitting = [rule for rule in rules if rule.concerns(document)]
        if not fitting:
            self.forget(ctx.key)
            return None
        pending = self._pending.get(ctx.key)
        rule = next((each for each in fitting if pending is not None and each.name == pending.stage), None)
        if pending is None or rule is None or pending.uid != pod.metadata.uid:
            rule = choose(fitting, document, self._dice)
            due = now + rule.delay(document, now, self._dice)
            pending = self._pending[ctx.key] = _Pending(pod.metadata.uid, rule.name, due)
        if pending.due > now:
            return Requeue(after=pending.due - now)
        self.forget(ctx.key)
        for step in rule.steps:
            try:
                if not await _take(ctx, step, document, around, recorder):
                    break
            except StageError as error:
                text = f"stage {rule.name}: {error}"
                _log.warning("stage not carried out", error, pod=str(ctx.key), stage=rule.name)
                ctx.event("Warning", "StageFailed", text)
                break
        return None


async def _take(
    ctx: Context[Pod], step: Step, document: dict[str, Any], around: Surroundings, recorder: Recorder | None
) -> bool:
    """One step; returns whether the pod is still there."""
    pod = ctx.obj
    try:
        match step:
            case Event(kind, reason, message):
                if recorder is not None:
                    recorder.event(pod, kind, reason, "Stage", message, host=pod.spec.node_name)
            case Finalizers():
                wanted = step.change(pod.metadata.finalizers)
                if wanted != list(pod.metadata.finalizers):
                    ctx.replace(await ctx.client.patch(pod, MergePatch({"metadata": {"finalizers": wanted}})))
            case Removal():
                with ignore_not_found():
                    await ctx.delete(pod, grace_period=0)
                return False
            case Patch():
                await _patch(ctx, step, step.body(document, around))
    except NotFound:
        ctx.note_gone()
        return False
    return True


async def _patch(ctx: Context[Pod], step: Patch, body: Any) -> None:
    patch: JsonPatch | MergePatch | StrategicMergePatch
    match step.type:
        case "json":
            patch = JsonPatch(body)
        case "merge":
            patch = MergePatch(body)
        case _:
            patch = StrategicMergePatch(body)
    target = ctx.client.status if step.subresource else ctx.client
    ctx.replace(await target.patch(ctx.obj, patch))
