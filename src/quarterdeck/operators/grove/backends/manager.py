"""Which backends are at work.

One is active, and others may be: further profiles of the configuration, and *draining* ones, whose gangs were
made while they were active. A gang belongs to the backend that its label names, for as long as it lives.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, Final

import msgspec

from quarterdeck.api import Scheme
from quarterdeck.api.k8s import Pod
from quarterdeck.client import Client
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import PodGang
from quarterdeck.runtime.contract import Recorder

from .contract import INTERFACE_VERSION, PodDraft, SchedulerBackend, Versioned
from .error import BackendError, BackendNotFound
from .guard import awaited, guarded_client, prepared
from .registry import BackendRegistry, default_registry
from .report import BackendReport

__all__ = ["BackendManager", "get", "initialize", "prepare_pod", "version_of"]

_NOT_INITIALIZED: Final = "backend not initialized"


class Surroundings(msgspec.Struct, frozen=True):
    """What backends are made with."""

    client: Client
    scheme: Scheme
    recorder: Recorder


class BackendManager:
    """The backends of one operator."""

    def __init__(
        self, registry: BackendRegistry = default_registry, report: BackendReport | None = None
    ) -> None:
        self.registry: Final = registry
        self._report: Final = report
        self._around: Surroundings | None = None
        self._active: SchedulerBackend | None = None
        self._backends: dict[str, SchedulerBackend] = {}
        self._options: dict[str, Mapping[str, Any]] = {}
        self._enabled: frozenset[str] = frozenset()
        self._error: Exception | None = None
        self._has_begun = False
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
            self._report.activated(self.scheduler_name, version_of(self._active))

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
        backend = factory(guarded_client(around.client, name), around.scheme, around.recorder, name, options)
        _check_interface(backend)
        await awaited(backend.init())
        return backend

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
            self._report.activated(name, version_of(started))

    def remember(self, options: Mapping[str, Mapping[str, Any]]) -> None:
        """The options that backends had in an earlier life, for those that are to be drained."""
        self._options = {**options, **self._options}

    async def drain(self, name: str) -> SchedulerBackend:
        """The backend of gangs that are older than the configuration; raises ``BackendError``.

        It has the options it had when it was active, as far as they are known.
        """
        if self._around is None:
            raise BackendError(_NOT_INITIALIZED)
        if name not in self._backends:
            self._backends[name] = await self._start(name, self._options.get(name, {}), is_active=False)
        return self._backends[name]

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

    def prepare_pod(self, pod: Pod, scheduler: str = "") -> Pod:
        """The pod as its backend wants it; ``scheduler`` is the label of its gang."""
        backend = self.find(scheduler)
        if self._report is None:
            return prepared(backend, pod)
        gang = pod.metadata.labels.get(names.PODGANG, "")
        with self._report.operating(backend.name, "mutate", gang):
            return prepared(backend, pod)


def _check_interface(backend: SchedulerBackend) -> None:
    """Refuse a backend that was written for another contract than this one."""
    wanted = getattr(backend, "interface_version", INTERFACE_VERSION)
    if str(wanted).partition(".")[0] != INTERFACE_VERSION.partition(".")[0]:
        raise BackendError(
            f"backend {backend.name} is written for version {wanted} of the interface, "
            f"this is {INTERFACE_VERSION}"
        )


def version_of(backend: SchedulerBackend) -> str:
    """The version a backend says it has."""
    return backend.version if isinstance(backend, Versioned) else "unknown"


_default: Final = BackendManager()


async def initialize(client: Client, scheme: Scheme, recorder: Recorder, scheduler_name: str) -> None:
    """Start the backend of the process; see ``BackendManager.initialize``."""
    await _default.initialize(client, scheme, recorder, scheduler_name)


def get() -> SchedulerBackend | None:
    """The active backend of the process."""
    return _default.get()


def prepare_pod(pod: PodDraft) -> None:
    """Let the active backend of the process change a pod; raises ``backend not initialized`` without one."""
    backend = _default.get()
    if backend is None:
        raise BackendError(_NOT_INITIALIZED)
    backend.prepare_pod(pod)
