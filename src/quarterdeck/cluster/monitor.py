"""The garbage collector's eyes: a metadata watch on every resource that can be collected.

Which resources those are is up to the server and changes with its CRDs, so the watches come and go while the
controller runs. None of them is waited for or held against readiness: a CRD whose conversion is broken must
not stop the collection of everything else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

from quarterdeck.api import GroupVersionKind
from quarterdeck.client import ResourceMapping, RestMapper, metadata_of
from quarterdeck.errors import QuarterdeckError
from quarterdeck.runtime._logfield import get_logger
from quarterdeck.runtime.cache import Delta
from quarterdeck.runtime.controller import Controller, WatchHandle
from quarterdeck.runtime.source import KindSource, SourceContext

__all__ = ["KindMonitor", "ResourceMonitor"]

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

#: Takes a change of a kind: (kind, change, context of the watch it came through).
Observe = Callable[[GroupVersionKind, Delta, SourceContext], None]


class KindMonitor(KindSource):
    """A watch of one kind that hands every change on instead of mapping it to keys."""

    def __init__(self, gvk: GroupVersionKind, observe: Observe) -> None:
        super().__init__(metadata_of(gvk), optional=True)
        self._gvk: Final = gvk
        self._observe: Final = observe
        self.is_filled: Final = asyncio.Event()
        """Set when everything of the first list has been handed on."""

    async def run(self, context: SourceContext) -> None:
        """Follow the informer until cancelled."""
        context.synced()
        informer = self.prepare(context.cache)
        registration = informer.add_handler(_Handler(self._gvk, self._observe, context), name=self.name)
        try:
            await registration.wait_synced()
            self.is_filled.set()
            await asyncio.get_running_loop().create_future()
        finally:
            informer.remove_handler(registration)


class _Handler:
    def __init__(self, gvk: GroupVersionKind, observe: Observe, context: SourceContext) -> None:
        self._gvk: Final = gvk
        self._observe: Final = observe
        self._context: Final = context

    def handle(self, delta: Delta) -> None:
        self._observe(self._gvk, delta, self._context)


class ResourceMonitor:
    """A source that keeps one ``KindMonitor`` per collectable resource attached to its controller."""

    name: Final = "every resource that can be deleted"

    def __init__(
        self, mapper: RestMapper, *, observe: Observe, forget: Callable[[GroupVersionKind], None]
    ) -> None:
        """``forget`` is told about kinds that are no longer observed."""
        self._mapper: Final = mapper
        self._observe: Final = observe
        self._forget: Final = forget
        self._controller: Controller[Any] | None = None
        self._handles: dict[GroupVersionKind, tuple[KindMonitor, WatchHandle]] = {}
        self._changed: Final = asyncio.Event()

    def attach(self, controller: Controller[Any]) -> None:
        """The controller whose watches these are."""
        self._controller = controller

    async def run(self, context: SourceContext) -> None:
        """Look at what is served, again and again."""
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
                for monitor, _ in tuple(self._handles.values()):
                    await monitor.is_filled.wait()
        except TimeoutError:
            late = [gvk.kind for gvk, (monitor, _) in self._handles.items() if not monitor.is_filled.is_set()]
            _log.warning("collecting without kinds that could not be listed", kinds=late)

    async def _follow_discovery(self, context: SourceContext) -> None:
        assert self._controller is not None
        await self._mapper.refresh()
        served = set(collectable(await self._mapper.all()))
        for gvk in served - self._handles.keys():
            monitor = KindMonitor(gvk, self._observe)
            self._handles[gvk] = (monitor, self._controller.watch(monitor))
        for gvk in self._handles.keys() - served:
            _, handle = self._handles.pop(gvk)
            await self._controller.unwatch(handle)
            if not context.cache.informer(metadata_of(gvk)).statistics().handlers:
                await context.cache.remove_informer(metadata_of(gvk))
            self._forget(gvk)


def collectable(mappings: Iterable[ResourceMapping]) -> list[GroupVersionKind]:
    """The kinds to observe: one version of each resource, the server's favourite."""
    chosen: dict[tuple[str, str], GroupVersionKind] = {}
    for mapping in mappings:
        gvk = mapping.gvk
        if {"list", "watch", "delete"} <= mapping.verbs and gvk.kind not in _IGNORED:
            chosen.setdefault((gvk.group, gvk.kind), gvk)
    return list(chosen.values())
