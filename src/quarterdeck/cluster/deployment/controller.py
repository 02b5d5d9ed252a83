"""The Deployment controller.

One reconcile takes at most one step of a rollout: make the newest ReplicaSet larger, or old ones smaller, and
write the status. The change that follows from it causes the next step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from quarterdeck.api import Key, LabelSelector, Selector, controller_of, value_or
from quarterdeck.api.k8s import Deployment, Pod, ReplicaSet
from quarterdeck.cluster.deployment import names
from quarterdeck.cluster.deployment.revision import (
    has_template,
    last_revision,
    revision_of,
    rollback_target,
    rolled_back,
)
from quarterdeck.cluster.deployment.rollout import Rollout
from quarterdeck.cluster.deployment.size import (
    active_sets,
    desired_replicas,
    is_rolling,
    is_scaled_elsewhere,
)
from quarterdeck.cluster.deployment.status import (
    find_condition,
    has_deadline,
    is_complete,
    make_condition,
    with_condition,
)
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.cluster.podset.claim import claim, controlled, uncontrolled
from quarterdeck.cluster.podset.podview import PodView
from quarterdeck.cluster.podset.podwriter import is_terminating
from quarterdeck.cluster.podset.source import ClaimantsOf
from quarterdeck.errors import ApiError, NotFound, ignore_not_found
from quarterdeck.runtime.cache import controller_uid
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Result

NAME: Final = "deployment-controller"
_WORKERS: Final = 5
_CACHE_PATIENCE: Final = 60.0


def _selector_of(deployment: Deployment) -> Selector | None:
    """Which ReplicaSets a Deployment may have; none with a selector that selects everything."""
    selector = deployment.spec.selector
    if not selector or selector == LabelSelector():
        return None
    return Selector.of(selector)


class DeploymentReconciler(Reconciler[Deployment]):
    """Takes one Deployment after the other one step further."""

    def __init__(self) -> None:
        self._clock: Final = LoopClock()

    async def reconcile(self, ctx: Context[Deployment]) -> Result | None:
        """Take the next step."""
        selector = _selector_of(ctx.obj)
        if selector is None:
            await _refuse(ctx)
            return None
        try:
            return await self._step(ctx, selector)
        except NotFound:
            live = await _is_there(ctx)
            if live:
                raise
            ctx.note_gone()
            return None
        except ApiError as error:
            if is_terminating(error):
                return None
            raise

    async def _step(self, ctx: Context[Deployment], selector: Selector) -> Result | None:
        entries = await claim(ctx, ReplicaSet, selector)
        decode = ctx.cache.informer(ReplicaSet).decoder(ReplicaSet)
        sets = [decode(entry) for entry in entries]
        now = self._clock.time()
        if ctx.obj.metadata.is_deleting:
            rollout = Rollout(ctx, sets, now)
            await rollout.sync_newest(creates=False)
            return await rollout.report_scale()
        await _note_pause(ctx, now)
        rollout = Rollout(ctx, sets, now)
        if ctx.obj.spec.paused is True:
            return await _scale(ctx, rollout)
        if rollback_target(ctx.obj) is not None:
            await _roll_back(ctx, rollout)
            return None
        await rollout.sync_newest(creates=False)
        if is_scaled_elsewhere(ctx.obj, rollout.sets):
            return await _scale(ctx, rollout)
        if is_rolling(ctx.obj):
            return await _roll(ctx, rollout)
        return await _recreate(ctx, rollout)


async def _is_there(ctx: Context[Deployment]) -> bool:
    with ignore_not_found():
        live = await ctx.get(Deployment, ctx.key.name, ctx.key.namespace, live=True)
        return live.metadata.uid == ctx.obj.metadata.uid
    return False


async def _refuse(ctx: Context[Deployment]) -> None:
    """A selector that selects everything is a mistake."""
    deployment = ctx.obj
    text = "This deployment is selecting all pods. A non-empty selector is required."
    ctx.event("Warning", "SelectingAll", text)
    if value_or(deployment.status.observed_generation, 0) < (deployment.metadata.generation or 0):
        status = deployment.status.evolve(observed_generation=deployment.metadata.generation)
        await ctx.client.status.update(deployment.evolve(status=status))


async def _note_pause(ctx: Context[Deployment], now: float) -> None:
    """A pause does not count as lack of progress, so it begins and ends with a condition of its own."""
    deployment = ctx.obj
    known = find_condition(deployment.status.conditions, names.PROGRESSING)
    if not has_deadline(deployment) or (known is not None and known.reason == names.TIMED_OUT):
        return
    was_paused = known is not None and known.reason == names.PAUSED
    is_paused = deployment.spec.paused is True
    if was_paused == is_paused:
        return
    reason, word = (names.PAUSED, "paused") if is_paused else (names.RESUMED, "resumed")
    condition = make_condition(names.PROGRESSING, "Unknown", reason, f"Deployment is {word}", now)
    conditions = with_condition(deployment.status.conditions, condition)
    status = deployment.status.evolve(conditions=conditions)
    ctx.replace(await ctx.client.status.update(deployment.evolve(status=status)))


async def _scale(ctx: Context[Deployment], rollout: Rollout) -> Result | None:
    await rollout.sync_newest(creates=False)
    await rollout.scale()
    if ctx.obj.spec.paused is True and rollback_target(ctx.obj) is None:
        await rollout.clean_up()
    return await rollout.report_scale()


async def _roll(ctx: Context[Deployment], rollout: Rollout) -> Result | None:
    await rollout.sync_newest(creates=True)
    is_moving = await rollout.grow_newest() or await rollout.shrink_old()
    if not is_moving and is_complete(ctx.obj, ctx.obj.status):
        await rollout.clean_up()
    return await rollout.report_rollout()


async def _recreate(ctx: Context[Deployment], rollout: Rollout) -> Result | None:
    """No new pod before all old ones have ended."""
    has_changed = False
    for each in active_sets(rollout.old):
        has_changed |= await rollout.resize(each, 0)
    if has_changed or _has_old_pods(ctx, rollout.old):
        return await rollout.report_rollout()
    await rollout.sync_newest(creates=True)
    assert rollout.newest is not None
    await rollout.resize(rollout.newest, desired_replicas(ctx.obj))
    if is_complete(ctx.obj, ctx.obj.status):
        await rollout.clean_up()
    return await rollout.report_rollout()


def _has_old_pods(ctx: Context[Deployment], old: Sequence[ReplicaSet]) -> bool:
    if any(value_or(each.status.replicas, 0) for each in old):
        return True
    pods = (PodView(entry) for each in old for entry in controlled(ctx.cache, Pod, each))
    return any(pod.phase not in ("Failed", "Succeeded") for pod in pods)


async def _roll_back(ctx: Context[Deployment], rollout: Rollout) -> None:
    """Go back as the annotation of the old API asks; ``kubectl rollout undo`` patches the template itself."""
    await rollout.sync_newest(creates=True)
    wanted = rollback_target(ctx.obj) or last_revision(rollout.sets)
    target = next((each for each in rollout.sets if revision_of(each) == wanted), None) if wanted else None
    deployment, event = ctx.obj, ("Warning", "DeploymentRollbackRevisionNotFound", "")
    if not wanted:
        event = (*event[:2], "Unable to find last revision.")
    elif target is None:
        event = (*event[:2], "Unable to find the revision to rollback to.")
    elif has_template(target, deployment.spec.template):
        name = deployment.metadata.name
        text = f'The rollback revision contains the same template as current deployment "{name}"'
        event = ("Warning", "DeploymentRollbackTemplateUnchanged", text)
    else:
        text = f'Rolled back deployment "{deployment.metadata.name}" to revision {wanted}'
        event = ("Normal", "DeploymentRollback", text)
        deployment = rolled_back(deployment, target)
    kept = {k: v for k, v in deployment.metadata.annotations.items() if k != names.ROLLBACK_TO}
    await ctx.update(deployment.evolve(metadata=deployment.metadata.evolve(annotations=kept)))
    ctx.event("Normal" if event[0] == "Normal" else "Warning", event[1], event[2])


def _recreated_by(ctx: MapContext, pod: Pod) -> Iterable[Key]:
    """The Deployment that waits for the end of its last old pod."""
    owner = controller_of(pod.metadata.owner_references)
    if owner is None or owner.kind != "ReplicaSet":
        return ()
    namespace = pod.metadata.namespace
    sets = ctx.cache.informer(ReplicaSet)
    entry = sets.get(namespace, owner.name)
    above = controller_of(entry.owner_references) if entry is not None and entry.uid == owner.uid else None
    if above is None or above.kind != "Deployment":
        return ()
    deployments = ctx.cache.informer(Deployment)
    found = deployments.get(namespace, above.name)
    if found is None or found.uid != above.uid:
        return ()
    deployment = deployments.decoder(Deployment)(found)
    return (deployment.key,) if deployment.spec.strategy.type == "Recreate" else ()


_GONE: Final = Predicate("gone", create=lambda _: False, update=lambda _: False)


def deployment_controller() -> Controller[Deployment]:
    """The controller, for ``manager.add``."""
    return (
        Builder(Deployment, name=NAME)
        .watches(ReplicaSet, to=ClaimantsOf(Deployment, _selector_of))
        .watches(Pod, to=_recreated_by, predicates=[_GONE])
        .indexes(ReplicaSet, controller_uid, uncontrolled)
        .indexes(Pod, controller_uid)
        .rbac(
            Rule(
                groups=("apps",),
                resources=("replicasets",),
                verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
            ),
            Rule(groups=("apps",), resources=("deployments",), verbs=("update",)),
            Rule(
                groups=("apps",),
                resources=("deployments/status", "deployments/finalizers"),
                verbs=("update",),
            ),
        )
        .options(
            max_concurrent_reconciles=_WORKERS,
            backoff_cap=1000.0,
            consistency_timeout=_CACHE_PATIENCE,
            field_manager=FIELD_MANAGER,
        )
        .build(DeploymentReconciler())
    )
