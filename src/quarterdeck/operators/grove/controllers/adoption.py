"""Sets that another implementation has hashed: the hashes are written anew, nothing is updated."""

from __future__ import annotations

from collections.abc import Mapping

from quarterdeck.api import Writable, is_controlled_by
from quarterdeck.api.k8s import Pod
from quarterdeck.client import MergePatch
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.index import CLIQUES_OF_SET, PODS_OF_CLIQUE
from quarterdeck.operators.grove.logic.membership import clique_name_of
from quarterdeck.operators.grove.types import PodClique, PodCliqueScalingGroup, PodCliqueSet
from quarterdeck.runtime.cache import controlled_by
from quarterdeck.runtime.reconcile.context import Context

from .outcome import slow_start, write_status
from .shared import Hashes


async def adopt(ctx: Context[PodCliqueSet], hashes: Hashes) -> None:
    """Replace all hashes of a set, its children and its pods by ours.

    Only where the templates have not changed meanwhile can that be right; who changes them while one
    implementation replaces the other gets the change with the next one.
    """
    pcs = ctx.obj
    cliques = list(ctx.index(PodClique, CLIQUES_OF_SET(pcs.metadata.name, pcs.metadata.namespace)))

    async def restamp(pclq: PodClique) -> None:
        hash = hashes.cliques.get(clique_name_of(pclq))
        if hash is None:
            return
        for pod in ctx.index(Pod, PODS_OF_CLIQUE(pclq.metadata.name, pclq.metadata.namespace)):
            if is_controlled_by(pclq, pod.metadata):
                await ctx.patch(pod, _stamp(pod, hash))
        await ctx.patch(pclq, _stamp(pclq, hash))
        status = {"currentPodTemplateHash": hash, "currentPodCliqueSetGenerationHash": hashes.generation}
        await ctx.client.status.patch(pclq, _status(pclq, status))

    await slow_start(cliques, restamp)
    for pcsg in ctx.index(PodCliqueScalingGroup, controlled_by(pcs)):
        status = {"currentPodCliqueSetGenerationHash": hashes.generation}
        await ctx.client.status.patch(pcsg, _status(pcsg, status))
    await write_status(ctx, pcs.status.evolve(current_generation_hash=hashes.generation))


def _stamp(obj: Writable, hash: str) -> MergePatch:
    """The hash on exactly this object: one that took its name meanwhile has its own."""
    return MergePatch({"metadata": {"uid": obj.metadata.uid, "labels": {names.TEMPLATE_HASH: hash}}})


def _status(obj: Writable, status: Mapping[str, str]) -> MergePatch:
    return MergePatch({"metadata": {"uid": obj.metadata.uid}, "status": status})
