"""Gangs before their pods, beside gangs after them as before there were backends; part of `grove`.

Before: pods are created first, and the PodGang when all of them are there, complete. Since then: the PodGang
is created empty and `Initialized` is false, so that a backend can act; then come the pods, then the gang
lists them, then `Initialized` is true. That is three more writes for each gang. Both orders are run by this
operator; for the one before, the places that make the difference are replaced here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import Pod
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.controllers import cliquepods, setgangs
from quarterdeck.operators.grove.index import CLIQUES_OF_SET
from quarterdeck.operators.grove.logic.gangplan import GangPlan
from quarterdeck.operators.grove.types import PodClique, PodGang
from quarterdeck.runtime.cache import controlled_by
from quarterdeck.runtime.reconcile.context import Context

find_gang = cliquepods._find_gang
all_pods = setgangs._all_pods


@contextmanager
def pods_first() -> Iterator[None]:
    """Operators that start meanwhile create pods, and their gang afterwards."""
    with ExitStack() as replaced:
        replaced.enter_context(patch.object(setgangs.SetGangs, "make", _make_nothing))
        replaced.enter_context(patch.object(setgangs.SetGangs, "fill", _make_complete))
        replaced.enter_context(patch.object(cliquepods, "_find_gang", _find_or_assume))
        replaced.enter_context(patch.object(cliquepods, "openable_pods", _listed_pods))
        yield


async def _make_nothing(self: setgangs.SetGangs, ctx: Context[Any], whole: Any, plans: Any) -> None:
    """No gang before its pods."""


async def _make_complete(
    self: setgangs.SetGangs, ctx: Context[Any], whole: Any, plans: Sequence[GangPlan], sweep: Any
) -> None:
    """Gangs whose pods are all there."""
    present = {gang.metadata.name for gang in ctx.index(PodGang, controlled_by(ctx.obj))}
    found = ctx.index(PodClique, CLIQUES_OF_SET(ctx.obj.metadata.name, ctx.key.namespace))
    cliques = {pclq.metadata.name: pclq for pclq in found}
    for plan in plans:
        if plan.name in present:
            continue
        pods = all_pods(ctx, plan, cliques)
        if pods is None:
            sweep.come_back(names.RETRY, "pods are missing")
            continue
        await self._write(ctx, plan, None, pods, names.DEFAULT_SCHEDULER)


async def _find_or_assume(ctx: Context[PodClique], name: str) -> PodGang | None:
    """The gang, or what its pods need to know of one that is still to come."""
    labels = {names.SCHEDULER_NAME: names.DEFAULT_SCHEDULER}
    return await find_gang(ctx, name) or PodGang(metadata=ObjectMeta(name=name, labels=labels))


def _listed_pods(pods: Iterable[Pod], pclq: PodClique, gang: PodGang | None) -> list[Pod]:
    """The pods that their gang lists: there was no condition."""
    groups = gang.spec.podgroups if gang is not None else ()
    listed = {each.name for group in groups for each in group.pod_references}
    return [pod for pod in pods if pod.metadata.name in listed]
