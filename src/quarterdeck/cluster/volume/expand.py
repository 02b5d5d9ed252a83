"""Claims that grow: nothing but drivers can do it, so the claim is told that it waits for one."""

from __future__ import annotations

from typing import Any, Final

from quarterdeck.api import Quantity
from quarterdeck.api.k8s import PersistentVolume, PersistentVolumeClaim
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.cluster.volume import names
from quarterdeck.cluster.volume.match import requested
from quarterdeck.errors import NotFound
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Result

NAME: Final = "persistentvolume-expander-controller"


def wants_more(claim: PersistentVolumeClaim) -> bool:
    """Whether a claim asks for more than it has."""
    return requested(claim) > claim.status.capacity.get(names.STORAGE, Quantity("0"))


async def _expand(ctx: Context[PersistentVolumeClaim]) -> Result | None:
    claim = ctx.obj
    if claim.status.phase != "Bound" or not wants_more(claim):
        return None
    try:
        volume = await ctx.get(PersistentVolume, claim.spec.volume_name)
    except NotFound:
        return None
    if volume.spec.claim_ref and volume.spec.claim_ref.uid == claim.metadata.uid:
        text = "waiting for an external controller to expand this PVC"
        ctx.event("Normal", "ExternalExpanding", text)
    return None


def _asks_for_more(event: ObjectEvent[Any]) -> bool:
    assert event.old is not None
    assert event.new is not None
    if event.old.generation == event.new.generation and event.old.raw == event.new.raw:
        return False
    old, new = (PersistentVolumeClaim.from_bytes(each.raw) for each in (event.old, event.new))
    return requested(new) > requested(old)


_GROWS: Final = Predicate(
    "grows", create=lambda event: event.is_initial, update=_asks_for_more, delete=lambda _: False
)


def volume_expand_controller() -> Controller[PersistentVolumeClaim]:
    """The controller, for ``manager.add``."""
    return (
        Builder(name=NAME)
        .for_(PersistentVolumeClaim, predicates=[_GROWS])
        .watches(PersistentVolume, predicates=[_NEVER])
        .options(field_manager=FIELD_MANAGER)
        .build(_expand)
    )


_NEVER: Final = Predicate("never", create=lambda _: False, update=lambda _: False, delete=lambda _: False)
"""For a kind that is only read."""
