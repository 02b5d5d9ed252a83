"""When a pool may go: a child pool not before everything that was cut from it.

Its finalizer keeps the range occupied in the parent: as long as the child exists, the parent allocates
nothing inside it. Pools without a parent have no finalizer and may be deleted at any time; their members
fail, and recover if the pool comes back.
"""

from __future__ import annotations

from typing import Final

from quarterdeck.api import add_finalizer, has_finalizer, remove_finalizer
from quarterdeck.errors import NotFound
from quarterdeck.operators.ipam import names
from quarterdeck.operators.ipam.types import SubnetPool
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.predicate import generation_changed, labels_changed
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.controller.result import Result
from quarterdeck.runtime.operator.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.finalizer import change_finalizers

from .shared import LOADING_TIMEOUT, SharedState


class PoolReleaser(Reconciler[SubnetPool]):
    """Puts the finalizer on child pools, and takes it off when nothing depends on them."""

    def __init__(self, shared: SharedState) -> None:
        self._shared: Final = shared

    async def reconcile(self, ctx: Context[SubnetPool]) -> Result | None:
        """Look at one pool."""
        pool = ctx.obj
        self._shared.take_pool(pool)
        metadata = pool.metadata
        if pool.parent and (not metadata.is_deleting or self._is_used(ctx)):
            wanted = metadata if metadata.is_deleting else add_finalizer(metadata, names.FINALIZER)
        elif has_finalizer(metadata, names.FINALIZER):
            wanted = remove_finalizer(metadata, names.FINALIZER)
        else:
            return None
        try:
            await change_finalizers(ctx.client, pool, wanted)
        except NotFound:
            return None
        return None

    def _is_used(self, ctx: Context[SubnetPool]) -> bool:
        state = self._shared.table.state(ctx.key)
        return state is not None and bool(state.members or state.children or state.reservations)


def release_controller(shared: SharedState) -> Controller[SubnetPool]:
    """The controller, for ``manager.add``."""
    return (
        Builder(name=names.POOL_RELEASE_CONTROLLER)
        .for_(SubnetPool, predicates=[generation_changed | labels_changed])
        .source(shared.releases)
        .rbac(
            Rule(groups=(names.GROUP,), resources=("subnetpools",), verbs=("patch",)),
            Rule(groups=(names.GROUP,), resources=("subnetpools/finalizers",), verbs=("update",)),
        )
        .options(cache_sync_timeout=LOADING_TIMEOUT, field_manager=names.FIELD_MANAGER)
        .build(PoolReleaser(shared))
    )
