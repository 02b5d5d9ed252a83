"""The replicas of a set: terminated when they lack pods for too long, updated one after the other."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from quarterdeck.api import UnsetType, controller_of
from quarterdeck.errors import ignore_not_found
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.index import CLIQUES_OF_SET
from quarterdeck.operators.grove.logic import naming
from quarterdeck.operators.grove.logic.breach import breached_since
from quarterdeck.operators.grove.logic.defaulting import TERMINATION_DELAY
from quarterdeck.operators.grove.logic.label import set_index_of
from quarterdeck.operators.grove.logic.membership import clique_name_of, is_on_delete, standalone_cliques
from quarterdeck.operators.grove.logic.setupdate import (
    ReplicaState,
    is_clique_updated,
    is_group_updated,
    is_updating,
    next_progress,
)
from quarterdeck.operators.grove.logic.termination import ReplicaTermination, judge_replica
from quarterdeck.operators.grove.logic.verdict import Verdict
from quarterdeck.operators.grove.types import PodClique, PodCliqueScalingGroup, PodCliqueSet
from quarterdeck.runtime.cache import controlled_by
from quarterdeck.runtime.reconcile.context import Context

from .outcome import Sweep, set_condition, step, telling_failure, write_status
from .shared import Hashes, SharedState

C = TypeVar("C", PodClique, PodCliqueScalingGroup)


def termination_delay(pcs: PodCliqueSet) -> float:
    """Seconds for which a minimum may be missed."""
    delay = pcs.spec.template.termination_delay
    return (TERMINATION_DELAY if isinstance(delay, UnsetType) else delay).seconds


def _by_replica(children: Iterable[C]) -> defaultdict[int, list[C]]:
    """The children of a set by the replica that they belong to."""
    found: defaultdict[int, list[C]] = defaultdict(list)
    for child in children:
        found[set_index_of(child.metadata.labels)].append(child)
    return found


class SetReplicas:
    """Looks after whole replicas."""

    def __init__(self, shared: SharedState) -> None:
        self._shared: Final = shared

    async def sync(self, ctx: Context[PodCliqueSet], hashes: Hashes, sweep: Sweep) -> None:
        """Terminate what is due, then take the next step of an update."""
        pcs = ctx.obj
        groups = list(ctx.index(PodCliqueScalingGroup, controlled_by(pcs)))
        # labels may be anybody's
        owners = {each.metadata.uid for each in (pcs, *groups)}
        cliques = [
            pclq
            for pclq in ctx.index(PodClique, CLIQUES_OF_SET(pcs.metadata.name, pcs.metadata.namespace))
            if (owner := controller_of(pclq.metadata.owner_references)) is not None and owner.uid in owners
        ]
        groups_of, cliques_of = _by_replica(groups), _by_replica(cliques)
        verdicts: dict[int, ReplicaTermination] = {}
        for replica in range(pcs.spec.replicas):
            own_groups, own = groups_of[replica], cliques_of[replica]
            verdicts[replica] = verdict = self._judge(pcs, replica, own_groups, own)
            if verdict.is_due:
                with step("ERR_GANG_TERMINATION", f"failed to terminate replica {replica}", "Delete"):
                    await self._terminate(ctx, replica, own_groups, own)
            elif verdict.wait is not None:
                sweep.come_back(min(names.RETRY, verdict.wait), "a minimum is missed")
        await self._update(ctx, hashes, verdicts, cliques_of, groups_of)

    def _judge(
        self,
        pcs: PodCliqueSet,
        replica: int,
        groups: list[PodCliqueScalingGroup],
        cliques: list[PodClique],
    ) -> ReplicaTermination:
        expected = [
            naming.standalone_clique(pcs.metadata.name, replica, clique.name)
            for clique in standalone_cliques(pcs.spec.template)
        ]
        standalone = {
            pclq.metadata.name: pclq
            for pclq in cliques
            if names.SCALING_GROUP not in pclq.metadata.labels and not pclq.metadata.is_deleting
        }
        return judge_replica(
            groups, standalone, expected, delay=termination_delay(pcs), now=self._shared.clock.time()
        )

    async def _terminate(
        self,
        ctx: Context[PodCliqueSet],
        replica: int,
        groups: list[PodCliqueScalingGroup],
        cliques: list[PodClique],
    ) -> None:
        async def delete(pclq: PodClique) -> None:
            with ignore_not_found():
                await ctx.delete(pclq)

        failure = f"Error deleting PodCliqueSet replica {replica}"
        with telling_failure(ctx, "PodCliqueSetReplicaDeleteFailed", failure):
            await asyncio.gather(*(delete(pclq) for pclq in cliques if not pclq.metadata.is_deleting))
        ctx.event("Normal", "PodCliqueSetReplicaDeleteSuccessful", f"PodCliqueSet replica {replica} deleted")
        verdict = Verdict(
            names.GANG_TERMINATION,
            "True",
            "GangTerminationActive",
            f"Gang termination fired at PCS-replica scope for PCS replica {replica}; "
            "this PCSG's PodCliques were deleted as part of the recycle",
        )
        for pcsg in groups:
            with ignore_not_found():
                await set_condition(ctx, pcsg, verdict)

    async def _update(
        self,
        ctx: Context[PodCliqueSet],
        hashes: Hashes,
        verdicts: Mapping[int, ReplicaTermination],
        cliques: defaultdict[int, list[PodClique]],
        groups: defaultdict[int, list[PodCliqueScalingGroup]],
    ) -> None:
        pcs = ctx.obj
        progress = pcs.status.update_progress
        if isinstance(progress, UnsetType) or not is_updating(progress):
            return
        if is_on_delete(pcs.spec.update_strategy):
            if not all(_has_new_template(pclq, hashes) for own in cliques.values() for pclq in own):
                return  # a pod that is deleted now would come back as it was
            # The pods are up to the user, also those that another strategy has begun to replace.
            after = progress.evolve(update_ended_at=ctx.now(), currently_updating=())
        else:
            states = [
                _replica_state(pcs, replica, hashes, verdicts[replica], cliques[replica], groups[replica])
                for replica in range(pcs.spec.replicas)
            ]
            after = next_progress(progress, states, ctx.now())
        if after is not progress:
            with step("ERR_UPDATE_PROGRESS", "failed to write the progress of the update"):
                await write_status(ctx, pcs.status.evolve(update_progress=after))


def _has_new_template(pclq: PodClique, hashes: Hashes) -> bool:
    """Whether pods of a PodClique would be made from the present template; one that goes makes none."""
    expected = hashes.cliques.get(clique_name_of(pclq))
    return pclq.metadata.is_deleting or pclq.metadata.labels.get(names.TEMPLATE_HASH) == expected


def _replica_state(
    pcs: PodCliqueSet,
    replica: int,
    hashes: Hashes,
    verdict: ReplicaTermination,
    cliques: list[PodClique],
    groups: list[PodCliqueScalingGroup],
) -> ReplicaState:
    by_name = {pclq.metadata.name: pclq for pclq in cliques if not pclq.metadata.is_deleting}
    groups_by_name = {pcsg.metadata.name: pcsg for pcsg in groups}
    name, template = pcs.metadata.name, pcs.spec.template
    are_cliques_done = all(
        (pclq := by_name.get(naming.standalone_clique(name, replica, clique.name))) is not None
        and is_clique_updated(
            pclq, template_hash=hashes.cliques[clique.name], generation_hash=hashes.generation
        )
        for clique in standalone_cliques(template)
    )
    are_groups_done = all(
        (pcsg := groups_by_name.get(naming.scaling_group(name, replica, group.name))) is not None
        and is_group_updated(pcsg, hashes.generation)
        for group in template.pod_clique_scaling_groups
    )
    return ReplicaState(
        index=replica,
        # what groups say of their hashes may be behind
        is_done=are_cliques_done
        and are_groups_done
        and all(_has_new_template(each, hashes) for each in cliques),
        scheduled_pods=sum(pclq.status.scheduled_replicas for pclq in cliques),
        is_breached=any(breached_since(pclq.status.conditions) is not None for pclq in cliques),
        is_doomed=verdict.is_due,
    )
