"""The pods of a PodClique: as many as there should be, of the right template, let through by their gang."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quarterdeck.api import Key, UnsetType
from quarterdeck.api.k8s import Pod, PriorityClass
from quarterdeck.client import JsonPatch, MergePatch
from quarterdeck.errors import Invalid, NotFound, QuarterdeckError, ignore_not_found
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.index import CLIQUES_OF_GANG
from quarterdeck.operators.grove.logic import naming
from quarterdeck.operators.grove.logic.claimplan import clique_claims, used_claims, with_claims
from quarterdeck.operators.grove.logic.cliqueupdate import is_updating, next_step
from quarterdeck.operators.grove.logic.gate import gates_left, is_gang_scheduled, openable_pods
from quarterdeck.operators.grove.logic.label import set_index_of
from quarterdeck.operators.grove.logic.membership import clique_name_of, group_index_of, min_available_of
from quarterdeck.operators.grove.logic.podchoice import PodIndexError, choose_doomed, free_indices
from quarterdeck.operators.grove.logic.podplan import (
    PodSurroundings,
    finished_pod,
    gated_pod,
    membership_labels,
)
from quarterdeck.operators.grove.logic.podstate import has_our_gate, is_active
from quarterdeck.operators.grove.logic.startorder import parents_of
from quarterdeck.operators.grove.types import PodClique, PodCliqueSet, PodGang
from quarterdeck.runtime.cache import controlled_by
from quarterdeck.runtime.reconcile.context import Context

from .claims import sync_claims
from .expectation import PodExpectations
from .outcome import NotYet, StepError, Sweep, slow_start, step, write_status
from .shared import SharedState

_NO_IMAGE = f"environment variable {names.INIT_IMAGE_ENV} specifying the init-container image is missing"


class CliquePods:
    """Makes and deletes pods."""

    def __init__(self, shared: SharedState) -> None:
        self._shared: Final = shared
        self._expected: Final = PodExpectations(shared.clock.monotonic)
        self.awaited: Final[set[Key]] = set()
        """PodCliques of base gangs, whose nodes the pods of scaled gangs wait for."""

    def forget(self, pclq: PodClique) -> None:
        """A PodClique is gone."""
        self._expected.forget(pclq.metadata.uid)
        self.awaited.discard(pclq.key)

    async def sync(
        self, ctx: Context[PodClique], pcs: PodCliqueSet, expected_hash: str, sweep: Sweep
    ) -> None:
        """Create and delete pods, take the next step of an update, let pods through."""
        pods = list(ctx.index(Pod, controlled_by(ctx.obj)))
        await _put_back_labels(ctx, pods)
        await self._resize(ctx, pcs, pods, expected_hash, sweep)
        await self._update(ctx, pods)
        await self._open_gates(ctx, pods, sweep)

    async def _resize(
        self,
        ctx: Context[PodClique],
        pcs: PodCliqueSet,
        pods: list[Pod],
        expected_hash: str,
        sweep: Sweep,
    ) -> None:
        pclq = ctx.obj
        coming, going = self._expected.settle(pclq.metadata.uid, pods)
        ended = [
            pod
            for pod in pods
            if not is_active(pod) and not pod.metadata.is_deleting and pod.metadata.uid not in going
        ]
        with step("ERR_DELETE_POD", "failed to delete pods that have ended", "Delete"):
            await slow_start(ended, lambda pod: self._delete(ctx, pod))
        alive = [pod for pod in pods if is_active(pod) and pod.metadata.uid not in going]
        excess = len(alive) + coming - pclq.spec.replicas
        if excess < 0:
            await self._create(ctx, pcs, pods, -excess)
            sweep.is_followed = True
            return
        await sync_claims(ctx, pcs, pclq, clique_claims(pcs, pclq, _indices(pclq, alive)))
        if excess > 0:
            doomed = choose_doomed(alive, excess, expected_hash=expected_hash, doomed=going)
            with step("ERR_DELETE_POD", "failed to delete excess pods", "Delete"):
                await slow_start(doomed, lambda pod: self._delete(ctx, pod))

    async def _create(self, ctx: Context[PodClique], pcs: PodCliqueSet, pods: list[Pod], count: int) -> None:
        pclq = ctx.obj
        try:
            indices = free_indices(pclq.metadata.name, pods, count)
        except PodIndexError as error:
            raise StepError("ERR_POD_INDEX", "Create", "failed to find indices for pods", error) from error
        around = await self._surroundings(ctx, pcs)
        gang = await _find_gang(ctx, pclq.metadata.labels.get(names.PODGANG, ""))
        if gang is None or not gang.metadata.labels.get(names.SCHEDULER_NAME):
            raise NotYet("the PodGang of the pods does not exist yet, or has no backend")
        taken = [*_indices(pclq, [pod for pod in pods if is_active(pod)]), *indices]
        await sync_claims(ctx, pcs, pclq, clique_claims(pcs, pclq, taken))

        async def create(index: int) -> None:
            pod = self._build(pclq, around, index, gang)
            pod = with_claims(pod, used_claims(pcs, pclq, index))
            try:
                created = await ctx.create(pod)
            except QuarterdeckError as error:
                ctx.event("Warning", "PodCreateFailed", f"Error creating pod: {error}")
                raise
            self._expected.created(pclq.metadata.uid, created.metadata.uid)
            ctx.event("Normal", "PodCreateSuccessful", f"Created Pod: {created.metadata.name}")

        with step("ERR_CREATE_POD", "failed to create pods", "Create"):
            await slow_start(indices, create)

    def _build(self, pclq: PodClique, around: PodSurroundings, index: int, gang: PodGang) -> Pod:
        if around.parents and not around.init_image:
            error = QuarterdeckError(_NO_IMAGE)
            raise StepError("ERR_BUILD_POD_RESOURCE", "Create", "failed to build pod", error)
        pod = gated_pod(pclq, around, index)
        try:
            pod = self._shared.backends.prepare_pod(pod, gang)
        except Exception as error:
            text = "failed to prepare pod spec with scheduler backend"
            raise StepError("ERR_BUILD_POD_RESOURCE", "Create", text, error) from error
        return finished_pod(pod, pclq, around, index)

    async def _surroundings(self, ctx: Context[PodClique], pcs: PodCliqueSet) -> PodSurroundings:
        pclq, priority = ctx.obj, pcs.spec.template.priority_class_name
        if priority:
            try:
                await ctx.get(PriorityClass, priority, live=True)
            except NotFound:
                priority = ""  # a pod that names a class that is not there would be refused
        parents = parents_of(
            pcs,
            clique_name_of(pclq),
            replica=set_index_of(pclq.metadata.labels),
            group_index=group_index_of(pclq),
        )
        return PodSurroundings(
            set_name=pcs.metadata.name,
            priority_class=priority,
            parents=tuple(parents),
            init_image=self._shared.init_image,
        )

    async def _delete(self, ctx: Context[PodClique], pod: Pod) -> None:
        name = pod.metadata.name
        try:
            with ignore_not_found():
                await ctx.delete(pod)
        except QuarterdeckError as error:
            ctx.event("Warning", "PodDeleteFailed", f"Error deleting pod {name}: {error}")
            raise
        self._expected.deleted(ctx.obj.metadata.uid, pod.metadata.uid)
        ctx.event("Normal", "PodDeleteSuccessful", f"Deleted Pod: {name}")

    async def _update(self, ctx: Context[PodClique], pods: list[Pod]) -> None:
        pclq = ctx.obj
        progress = pclq.status.update_progress
        if isinstance(progress, UnsetType) or not is_updating(progress):
            return
        if progress.pod_template_hash != pclq.metadata.labels.get(names.TEMPLATE_HASH):
            return  # of a template that changed meanwhile: the update begins anew when it is our turn
        _, going = self._expected.settle(pclq.metadata.uid, pods)
        if going:
            return  # what was deleted last is not seen yet
        least = min_available_of(pclq.spec.replicas, pclq.spec.min_available)
        taken = next_step(progress, pods, replicas=pclq.spec.replicas, least=least, now=ctx.now())
        with step("ERR_ROLLING_UPDATE", "failed to update pods", "Delete"):
            if taken.progress is not progress:
                # Written first: whoever continues after a crash must know which pod is being replaced.
                await write_status(ctx, pclq.status.evolve(update_progress=taken.progress))
            await slow_start(taken.doomed, lambda pod: self._delete(ctx, pod))

    async def _open_gates(self, ctx: Context[PodClique], pods: list[Pod], sweep: Sweep) -> None:
        gated = [pod for pod in pods if has_our_gate(pod) and not pod.metadata.is_deleting]
        if not gated:
            return
        with step("ERR_REMOVE_SCHEDULING_GATE", "failed to remove scheduling gates", "Update"):
            opened = await self._openable(ctx, gated)
            await slow_start(opened, lambda pod: _open_gate(ctx, pod))
            sweep.is_followed = sweep.is_followed or bool(opened)
        if len(opened) < len(gated):
            sweep.come_back(names.RETRY, "pods are gated")

    async def _openable(self, ctx: Context[PodClique], gated: list[Pod]) -> list[Pod]:
        labels = ctx.obj.metadata.labels
        gang = await _find_gang(ctx, labels.get(names.PODGANG, ""))
        opened = openable_pods(gated, ctx.obj, gang)
        if not opened or gang is None or not self._shared.is_synced(gang):
            return []
        base_name = labels.get(names.BASE_PODGANG)
        if not base_name:
            return opened
        base = await _find_gang(ctx, base_name)
        if base is None:
            raise QuarterdeckError(f"base PodGang {base_name} does not exist")
        cliques = ctx.index(PodClique, CLIQUES_OF_GANG(base_name, ctx.key.namespace))
        try:
            is_scheduled = is_gang_scheduled(base, {pclq.metadata.name: pclq for pclq in cliques})
        except LookupError as error:
            raise QuarterdeckError(str(error)) from error
        if is_scheduled:
            return opened
        self.awaited.update(pclq.key for pclq in cliques)
        return []


async def _put_back_labels(ctx: Context[PodClique], pods: Iterable[Pod]) -> None:
    """Labels by which pods are found, should somebody have changed them."""
    wanted = membership_labels(ctx.obj)
    for pod in pods:
        labels = pod.metadata.labels
        lost = {key: value for key, value in wanted.items() if labels.get(key) != value}
        if lost and not pod.metadata.is_deleting:
            if await _find_gang(ctx, wanted.get(names.PODGANG, "")) is None:
                return  # our own labels may be what somebody has changed
            with step("ERR_LABEL_POD", f"failed to put labels back on pod {pod.metadata.name}", "Update"):
                patch = {"metadata": {"uid": pod.metadata.uid, "labels": lost}}
                with ignore_not_found():
                    await ctx.patch(pod, MergePatch(patch))


def _indices(pclq: PodClique, pods: Iterable[Pod]) -> list[int]:
    found = (naming.pod_index(pclq.metadata.name, pod.spec.hostname) for pod in pods)
    return sorted(index for index in found if index is not None)


async def _find_gang(ctx: Context[PodClique], name: str) -> PodGang | None:
    try:
        return await ctx.get(PodGang, name, ctx.key.namespace) if name else None
    except NotFound:
        return None


async def _open_gate(ctx: Context[PodClique], pod: Pod) -> None:
    """Remove our gate and no other; the list must be what was seen."""
    before = [{"name": gate.name} for gate in pod.spec.scheduling_gates]
    after = [{"name": gate.name} for gate in gates_left(pod)]
    patch: list[dict[str, object]] = [
        {"op": "test", "path": "/metadata/uid", "value": pod.metadata.uid},
        {"op": "test", "path": "/spec/schedulingGates", "value": before},
        {"op": "replace", "path": "/spec/schedulingGates", "value": after},
    ]
    try:
        await ctx.patch(pod, JsonPatch(patch))
    except NotFound:
        return
    except Invalid as error:
        raise QuarterdeckError(f"gates of pod {pod.metadata.name} changed meanwhile: {error}") from error
