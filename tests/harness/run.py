"""One run: the server under test and what its cases share.

Everything is made on first use, so that a run without hook cases opens no hook endpoint and a run
of kinds that need no server starts none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from .fixture import Fixtures
from .hook import HookServer
from .server import EmbeddedServer, start_embedded
from .wire import Target, WireError, load_kubeconfig


class Run:
    """Shared by all cases of one invocation; safe to use from several threads."""

    def __init__(self, kubeconfig: Path | None = None) -> None:
        self._kubeconfig = kubeconfig
        self._lock = threading.RLock()
        self._server: EmbeddedServer | None = None
        self._target: Target | None = None
        self._hooks: HookServer | None = None
        self._start_error: RuntimeError | None = None
        self._left: list[str] = []
        self._closers: list[Callable[[], None]] = []
        self.fixtures = Fixtures()

    @property
    def is_embedded(self) -> bool:
        """The server belongs to this run, so nothing on it needs cleaning up."""
        return self._kubeconfig is None

    @property
    def patience(self) -> float:
        """By how much longer to repeat a step: the controllers of a real cluster have other work, too."""
        return 1.0 if self.is_embedded else 3.0

    def leave_namespace(self, name: str) -> None:
        """A case is done with its namespace, which goes at the end of a run.

        Not earlier: a real cluster takes namespaces down slowly, and cases about just that would have to
        wait for it.
        """
        if not self.is_embedded:
            with self._lock:
                self._left.append(name)

    def at_end(self, close: Callable[[], None]) -> None:
        """Call a function when the run is over, before the server goes; the last one given comes first."""
        with self._lock:
            self._closers.append(close)

    def kubeconfig(self) -> Path:
        """The kubeconfig of the server under test, which is started if this run has to."""
        with self._lock:
            if self._start_error is not None:
                raise self._start_error
            if self._kubeconfig is not None:
                return self._kubeconfig
            if self._server is None:
                try:
                    self._server = start_embedded()
                except RuntimeError as error:  # every case of the run would wait for it again
                    self._start_error = error
                    raise
            return self._server.kubeconfig

    def target(self) -> Target:
        with self._lock:
            if self._target is None:
                self._target = load_kubeconfig(self.kubeconfig())
            return self._target

    def hooks(self) -> HookServer:
        with self._lock:
            if self._hooks is None:
                self._hooks = HookServer()
            return self._hooks

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            for close in reversed(self._closers):
                close()
            if self._left:
                self._drop_namespaces()
            if self._hooks is not None:
                self._hooks.close()
            if self._server is not None:
                self._server.stop()

    def _drop_namespaces(self) -> None:
        with suppress(WireError):  # the outcome of the cases is what counts
            connection = self.target().connect()
            for name in self._left:
                connection.request("DELETE", f"/api/v1/namespaces/{name}")
            connection.close()
