"""A metadata watch on every resource that can be deleted: for garbage collection and quotas.

Which resources those are is up to the server and changes with its CRDs, so the watches come and go while the
controller runs. None of them is waited for or held against readiness: a CRD whose conversion is broken must
not stop the collection of everything else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from quarterdeck.api import GroupVersionKind
from quarterdeck.client import RestMapper, metadata_of
from quarterdeck.client.discovery import ResourceMapping
from quarterdeck.errors import QuarterdeckError
from quarterdeck.runtime.cache import Delta
from quarterdeck.runtime.controller.controller import Controller, WatchHandle
from quarterdeck.runtime.controller.source import KindSource, SourceContext
from quarterdeck.runtime.log import get_logger

_log: Final = get_logger(__name__)
DISCOVERY_PERIOD: Final = 30.0
"""Seconds between two looks at what is served; a change of a CRD causes one at once."""
FIRST_SYNC_TIMEOUT: Final = 30.0
"""Seconds to wait for the first lists before collection starts without those that are missing."""
_SETTLE: Final = 0.05
"""A definition is served a moment after it changed, and definitions often come in batches."""
_DEFINITIONS: Final = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
_IGNORED: Final = frozenset({"Event", "ComponentStatus"})
"""Nothing owns or is owned by these, and there are many."""

Observe = Callable[[ResourceMapping, Delta], None]
"""Takes a change of an object of a resource."""


class KindMonitor(KindSource):
    """A watch of one kind that hands every change on instead of mapping it to keys."""

    def __init__(self, mapping: ResourceMapping, observe: Observe) -> None:
        super().__init__(metadata_of(mapping.gvk), optional=True)
        self._mapping: Final = mapping
        self._observe: Final = observe
        self.is_filled: Final = asyncio.Event()
        """Set when everything of the first list has been handed on."""

    async def run(self, context: SourceContext) -> None:
        """Follow the informer until cancelled."""
        context.synced()
        if context.cluster:
            return
        informer = self.prepare(context.cache)
        registration = informer.add_handler(self, name=self.name)
        try:
            await registration.wait_synced()
            self.is_filled.set()
            await asyncio.get_running_loop().create_future()
        finally:
            informer.remove_handler(registration)

    def handle(self, delta: Delta) -> None:
        """Hand a change on."""
        self._observe(self._mapping, delta)


class ResourceMonitor:
    """A source that keeps one ``KindMonitor`` per resource attached to its controller.

    It serves the manager's own cluster. Others may look along: ``observe``.
    """

    name: Final = "every resource that can be deleted"

    def __init__(self, mapper: RestMapper) -> None:
        self._mapper: Final = mapper
        self._observers: list[Observe] = []
        self._forget: list[Callable[[ResourceMapping], None]] = []
        self._controller: Controller[Any] | None = None
        self._handles: dict[GroupVersionKind, _Watched] = {}
        self._changed: Final = asyncio.Event()

    def attach(self, controller: Controller[Any]) -> None:
        """The controller whose watches these are."""
        self._controller = controller

    def observe(self, observe: Observe, *, forget: Callable[[ResourceMapping], None] | None = None) -> None:
        """Call a function on every change; ``forget`` is called with resources that are no longer watched."""
        self._observers.append(observe)
        if forget is not None:
            self._forget.append(forget)

    def _tell(self, mapping: ResourceMapping, delta: Delta) -> None:
        for observe in self._observers:
            observe(mapping, delta)

    async def run(self, context: SourceContext) -> None:
        """Look at what is served, again and again."""
        if context.cluster:
            context.synced()
            return
        informer = context.cache.informer(metadata_of(_DEFINITIONS))
        registration = informer.add_handler(self, name=self.name)
        is_first = True
        try:
            while True:
                self._changed.clear()
                try:
                    await self._follow_discovery(context)
                except QuarterdeckError as error:
                    _log.warning("cannot find out which resources there are", error)
                if is_first:
                    await self._wait_filled()
                    context.synced()
                    is_first = False
                await self._wait_changed()
        finally:
            informer.remove_handler(registration)

    def handle(self, delta: Delta) -> None:
        """A definition has changed."""
        self._changed.set()

    async def _wait_changed(self) -> None:
        try:
            async with asyncio.timeout(DISCOVERY_PERIOD):
                await self._changed.wait()
        except TimeoutError:
            return
        await asyncio.sleep(_SETTLE)

    async def _wait_filled(self) -> None:
        """Before the first collection the picture should be complete: who is waited for in the foreground?"""
        try:
            async with asyncio.timeout(FIRST_SYNC_TIMEOUT):
                for watched in tuple(self._handles.values()):
                    await watched.monitor.is_filled.wait()
        except TimeoutError:
            late = [gvk.kind for gvk, each in self._handles.items() if not each.monitor.is_filled.is_set()]
            _log.warning("collecting without kinds that could not be listed", kinds=late)

    async def _follow_discovery(self, context: SourceContext) -> None:
        assert self._controller is not None
        await self._mapper.refresh()
        served = {mapping.gvk: mapping for mapping in watchable(await self._mapper.all())}
        for gvk in served.keys() - self._handles.keys():
            monitor = KindMonitor(served[gvk], self._tell)
            self._handles[gvk] = _Watched(served[gvk], monitor, self._controller.watch(monitor))
        for gvk in self._handles.keys() - served.keys():
            watched = self._handles.pop(gvk)
            await self._controller.unwatch(watched.handle)
            if not context.cache.informer(metadata_of(gvk)).statistics().handlers:
                await context.cache.remove_informer(metadata_of(gvk))
            for forget in self._forget:
                forget(watched.mapping)


class _Watched(NamedTuple):
    mapping: ResourceMapping
    monitor: KindMonitor
    handle: WatchHandle


def watchable(mappings: Iterable[ResourceMapping]) -> list[ResourceMapping]:
    """The resources to observe: one version of each kind, the server's favourite."""
    chosen: dict[tuple[str, str], ResourceMapping] = {}
    for mapping in mappings:
        gvk = mapping.gvk
        if {"list", "watch", "delete"} <= mapping.verbs and gvk.kind not in _IGNORED:
            chosen.setdefault((gvk.group, gvk.kind), mapping)
    return list(chosen.values())
