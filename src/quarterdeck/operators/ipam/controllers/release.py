"""When a pool may go: not before everything that was cut from it.

Every pool has a finalizer, and nothing is allocated from one that has not got it yet. It keeps the range of
the pool occupied: as long as its blocks are in use nobody else gives them away. What a deleted pool waits
for is in its condition ``DeletionBlocked``. Whoever takes the finalizer off by hand forces the deletion: the
Subnets fail, and their addresses stay taken until they are gone or the pool is back, see
``logic.neighbour``.
"""

from __future__ import annotations

from typing import Final

from quarterdeck.api.finalizer import add_finalizer, remove_finalizer
from quarterdeck.errors import NotFound
from quarterdeck.operators.ipam import names
from quarterdeck.operators.ipam.types import SubnetPool
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.predicate import generation_changed, update_if
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.finalizer import change_finalizers
from quarterdeck.runtime.reconcile.result import Result

from .shared import LOADING_TIMEOUT, SharedState

_UNHELD: Final = update_if(lambda old, new: names.FINALIZER not in new.finalizers, "unheld")
"""Somebody took the finalizer off a pool that is there to stay, or never put it on."""


class PoolReleaser(Reconciler[SubnetPool]):
    """Puts the finalizer on pools, and takes it off when nothing depends on them."""

    def __init__(self, shared: SharedState) -> None:
        self._shared: Final = shared

    async def reconcile(self, ctx: Context[SubnetPool]) -> Result | None:
        """Look at one pool."""
        pool = ctx.obj
        self._shared.take_pool(pool)
        if not pool.metadata.is_deleting:
            wanted = add_finalizer(pool.metadata, names.FINALIZER)
        elif not self._is_used(ctx):
            wanted = remove_finalizer(pool.metadata, names.FINALIZER)
        else:
            return None
        try:
            await change_finalizers(ctx.client, pool, wanted)
        except NotFound:
            return None
        return None

    def _is_used(self, ctx: Context[SubnetPool]) -> bool:
        state = self._shared.table.state(ctx.key)
        return state is not None and state.is_used


def release_controller(shared: SharedState) -> Controller[SubnetPool]:
    """The controller, for ``manager.add``."""
    return (
        Builder(name=names.POOL_RELEASE_CONTROLLER)
        .for_(SubnetPool, predicates=[generation_changed | _UNHELD])
        .source(shared.releases)
        .rbac(
            Rule(groups=(names.GROUP,), resources=("subnetpools",), verbs=("patch",)),
            Rule(groups=(names.GROUP,), resources=("subnetpools/finalizers",), verbs=("update",)),
        )
        .options(cache_sync_timeout=LOADING_TIMEOUT, field_manager=names.FIELD_MANAGER)
        .build(PoolReleaser(shared))
    )
