"""Tells a node of every change to the names and addresses of Services."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from quarterdeck.api import Key
from quarterdeck.api.k8s import EndpointSlice, Service
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Result

_NAMES_KEY: Final = Key("", "names")
FollowNames = Callable[[list[Service], list[EndpointSlice]], Coroutine[Any, Any, None]]


class _NamesReconciler(Reconciler[Service]):
    def __init__(self, follow: FollowNames) -> None:
        self._follow: Final = follow

    async def reconcile(self, ctx: Context[Service]) -> Result | None:
        services = [*(await ctx.cache.list(Service))]
        slices = [*(await ctx.cache.list(EndpointSlice))]
        await self._follow(services, slices)
        return None


def _to_names(_context: MapContext, _obj: object) -> Iterable[Key]:
    return (_NAMES_KEY,)


def names_controller(follow: FollowNames) -> Controller[Any]:
    """Calls ``follow`` with all Services and EndpointSlices whenever one of them has changed."""
    return (
        Builder[Any](name="service-names")
        .watches(Service, to=_to_names)
        .watches(EndpointSlice, to=_to_names)
        .options(need_leader_election=False)
        .build(_NamesReconciler(follow))
    )
