"""Which backends are at work.

One is active, and others may be: further profiles of the configuration, and *draining* ones, whose gangs were
made while they were active. A gang belongs to the backend that its label names, for as long as it lives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from typing import Any, Final

import msgspec

from quarterdeck.api import Scheme
from quarterdeck.api.k8s import Pod
from quarterdeck.client import Call, Client, Response
from quarterdeck.client.wrapper import writing_through
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import PodGang
from quarterdeck.runtime.contract import Recorder
from quarterdeck.runtime.log import get_logger

from .contract import PodDraft, SchedulerBackend, Versioned
from .error import BackendError, BackendNotFound
from .guard import awaited, guarded_client, prepared
from .registry import BackendRegistry, default_registry
from .report import BackendReport

_log: Final = get_logger(__name__)
_NOT_INITIALIZED: Final = "backend not initialized"


class Surroundings(msgspec.Struct, frozen=True):
    """What backends are made with."""

    client: Client
    scheme: Scheme
    recorder: Recorder


class BackendManager:
    """The backends of one operator."""

    def __init__(
        self,
        registry: BackendRegistry = default_registry,
        report: BackendReport | None = None,
        *,
        is_leading: bool = True,
        recall: Callable[[], Awaitable[Mapping[str, Mapping[str, Any]]]] | None = None,
    ) -> None:
        """``recall`` reads the options that backends had in an earlier life, for those to be drained.

        Until it leads, what a backend writes in ``init`` is rehearsed only; see ``lead``.
        """
        self.registry: Final = registry
        self._report: Final = report
        self._recall: Final = recall
        self._has_recalled = recall is None
        self._is_leading = is_leading
        self.notices: Final[dict[str, str]] = {}
        """What to tell about backends that an operator to come will refuse, by their names."""
        self._beginning: set[str] = set()
        """Backends whose ``init`` runs now."""
        self._rehearsed: set[str] = set()
        """Backends whose ``init`` wrote without effect."""
        self._around: Surroundings | None = None
        self._active: SchedulerBackend | None = None
        self._backends: dict[str, SchedulerBackend] = {}
        self._options: dict[str, Mapping[str, Any]] = {}
        self._enabled: frozenset[str] = frozenset()
        self._error: Exception | None = None
        self._has_begun = False
        self._starting: Final = asyncio.Lock()
        self.scheduler_name = ""
        """The configured name."""

    async def initialize(
        self,
        client: Client,
        scheme: Scheme,
        recorder: Recorder,
        scheduler_name: str,
        *,
        config: Mapping[str, Any] | None = None,
        profiles: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Make and start the active backend, and those of ``profiles`` (name → options) beside it.

        Happens once: later calls change nothing, and raise again what the first one raised. Raises
        ``BackendError``; there is no backend then.
        """
        if self._has_begun:
            if self._error is not None:
                raise self._error
            return
        self._has_begun = True
        _Process.manager = self
        self._around = Surroundings(client, scheme, recorder)
        self.scheduler_name = scheduler_name or names.DEFAULT_SCHEDULER
        # The active one comes last: what is told about the start in the end is about it.
        wanted = {name: options for name, options in (profiles or {}).items() if name != self.scheduler_name}
        wanted[self.scheduler_name] = config or {}
        try:
            for name, options in wanted.items():
                self._backends[name] = await self._start(name, options)
                self._options[name] = options
        except Exception as error:
            self._error = error
            self._backends.clear()
            raise
        self._active = self._backends[self.scheduler_name]
        self._enabled = frozenset(wanted)
        if self._report is not None:
            self._report.activated(self.scheduler_name, self._version_of(self._active))

    async def _start(
        self, name: str, options: Mapping[str, Any], *, is_active: bool = True
    ) -> SchedulerBackend:
        if name not in self.registry.names():
            raise BackendError(self.registry.unsupported(name))
        report = self._report
        told = report.initializing(name, is_active=is_active) if report is not None else nullcontext()
        try:
            with told:
                return await self._build(name, options)
        except Exception as error:
            raise BackendError(f"failed to initialize backend: {error}") from error

    async def _build(self, name: str, options: Mapping[str, Any]) -> SchedulerBackend:
        around = self._around
        assert around is not None
        factory = self.registry.get_factory(name)
        client = guarded_client(self._rehearsing_client(around.client, name), name)
        made = factory(client, around.scheme, around.recorder, name, options)
        backend, notice = self.registry.interface.accept(made)
        self.notices.pop(name, None)
        if notice:
            self.notices[name] = notice
            _log.warning("scheduler backend of an earlier interface", backend=name, notice=notice)
        self._beginning.add(name)
        try:
            await awaited(backend.init())
        finally:
            self._beginning.discard(name)
        return backend

    def _rehearsing_client(self, client: Client, name: str) -> Client:
        """A client like ``client`` that changes nothing while the backend of a replica that waits starts.

        What its hooks write later is for keys that the replica has.
        """

        async def write(call: Call) -> Response:
            if self._is_leading or name not in self._beginning:
                return await client.send(call)
            self._rehearsed.add(name)
            return await client.send(call.with_query("dryRun", "All"))

        return writing_through(client, write)

    async def lead(self) -> None:
        """From now on this is the replica that writes; backends that wanted to at their start, start again.

        Raises ``BackendError`` if one of them does not.
        """
        self._is_leading = True
        for name in sorted(self._rehearsed & self._backends.keys()):
            try:
                await awaited(self._backends[name].init())
            except Exception as error:
                raise BackendError(f"failed to initialize backend: {error}") from error
        self._rehearsed.clear()

    def follow(self) -> None:
        """Another leads from now on."""
        self._is_leading = False

    @property
    def is_leading(self) -> bool:
        """Whether this is the one replica that writes."""
        return self._is_leading

    @property
    def error(self) -> Exception | None:
        """Why there is no backend."""
        return self._error

    async def switch(self, scheduler_name: str, config: Mapping[str, Any] | None = None) -> None:
        """Make another backend the active one; gangs of the old one stay with it.

        Raises ``BackendError`` if the new one does not start; the old one stays active then.
        """
        if self._active is None:
            raise BackendError(_NOT_INITIALIZED)
        name = scheduler_name or names.DEFAULT_SCHEDULER
        started = await self._start(name, config or {})
        self._backends[name] = self._active = started
        self._options[name] = config or {}
        self._enabled = frozenset({name})
        self.scheduler_name = name
        if self._report is not None:
            self._report.activated(name, self._version_of(started))

    def _version_of(self, backend: SchedulerBackend) -> str:
        """The version that a backend says it has, else that of the distribution it comes from."""
        if isinstance(backend, Versioned):
            return backend.version
        return self.registry.version(self.scheduler_name)

    async def recall(self) -> None:
        """Read the options that backends had in an earlier life."""
        if self._recall is not None:
            self._options = {**await self._recall(), **self._options}
        self._has_recalled = True

    async def drain(self, name: str) -> SchedulerBackend:
        """The backend of gangs that are older than the configuration; raises ``BackendError``.

        It has the options it had when it was active, as far as they are known.
        """
        if self._around is None:
            raise BackendError(_NOT_INITIALIZED)
        # Held while the backend starts: of two gangs that ask at once, the second gets the first one's.
        async with self._starting:
            if name and name not in self._backends:
                if not self._has_recalled:
                    await self.recall()
                self._backends[name] = await self._start(name, self._options.get(name, {}), is_active=False)
            return self.find(name)

    def is_installed(self, name: str) -> bool:
        """Whether a backend of a name can be asked for anything; an empty name is the active one's."""
        return not name or name in self._backends or name in self.registry.names()

    def retire(self, name: str) -> None:
        """A draining backend has no gangs any more."""
        if name in self.draining:
            del self._backends[name]
            if self._report is not None:
                self._report.retired(name)

    def get(self) -> SchedulerBackend | None:
        """The active backend; none before the start, or if it failed."""
        return self._active

    @property
    def enabled(self) -> frozenset[str]:
        """The backends that new sets may use."""
        return self._enabled

    @property
    def backends(self) -> Mapping[str, SchedulerBackend]:
        """All that were started, draining ones included, by name."""
        return dict(self._backends)

    @property
    def draining(self) -> frozenset[str]:
        """Those that new sets may not use."""
        return frozenset(self._backends) - self._enabled

    @property
    def options(self) -> Mapping[str, Mapping[str, Any]]:
        """The options of all backends that were ever heard of, by name."""
        return dict(self._options)

    def find(self, name: str) -> SchedulerBackend:
        """The backend of a name, the active one for none; raises ``BackendError`` if it is not at work."""
        if self._active is None:
            raise BackendError(_NOT_INITIALIZED)
        if not name:
            return self._active
        found = self._backends.get(name)
        if found is None:
            raise BackendNotFound(name)
        return found

    def get_for(self, pod_gang: PodGang) -> SchedulerBackend:
        """The backend of a gang; raises ``BackendError`` if it is not at work."""
        return self.find(pod_gang.metadata.labels.get(names.SCHEDULER_NAME, ""))

    def prepare_pod(self, pod: Pod, pod_gang: PodGang | None = None) -> Pod:
        """The pod as the backend of its gang wants it, or the active one without a gang.

        Raises what the backend raises, or ``BackendError``; the gang is told.
        """
        label = pod_gang.metadata.labels.get(names.SCHEDULER_NAME, "") if pod_gang is not None else ""
        if self._report is None or pod_gang is None:
            return prepared(self.find(label), pod)
        with self._report.operating(label, "mutate", pod_gang):
            return prepared(self.find(label), pod)


class _Process:
    """What the functions below are about: the manager that was started last, an operator's as a rule."""

    manager: BackendManager | None = None


async def initialize(client: Client, scheme: Scheme, recorder: Recorder, scheduler_name: str) -> None:
    """Start the backend of the process, unless an operator has; see ``BackendManager.initialize``."""
    manager = _Process.manager or BackendManager()
    await manager.initialize(client, scheme, recorder, scheduler_name)


def get() -> SchedulerBackend | None:
    """The active backend of the process: that of the operator that runs in it."""
    return _Process.manager.get() if _Process.manager is not None else None


def prepare_pod(pod: PodDraft) -> None:
    """Let the active backend of the process change a pod; raises ``backend not initialized`` without one."""
    backend = get()
    if backend is None:
        raise BackendError(_NOT_INITIALIZED)
    backend.prepare_pod(pod)
