"""The configuration file while the operator runs: another scheduler in it is taken over without a restart.

The file is read again every few seconds, and at once on ``request_reload``, which also looks for backends
that were installed meanwhile. What else changed in it waits for the next start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from quarterdeck.errors import ConfigError
from quarterdeck.runtime.log import get_logger

from .backends.error import BackendError
from .backends.registry import BackendRegistry
from .configuration import OperatorConfiguration, load_file

_PERIOD: Final = 5.0
_log: Final = get_logger(__name__)


class ConfigurationWatch:
    """Looks at a file until it is stopped."""

    name: Final = "grove-configuration"
    needs_leader_election: Final = False

    def __init__(self, path: Path, registry: BackendRegistry) -> None:
        self._path: Final = path
        self._registry: Final = registry
        self._apply: Callable[[OperatorConfiguration], Awaitable[None]] | None = None
        self._wake: Final = asyncio.Event()
        self._is_stopping = False
        self._is_asked = False
        self._seen = self._content()

    def apply_with(self, apply: Callable[[OperatorConfiguration], Awaitable[None]]) -> None:
        """What to do with another configuration."""
        self._apply = apply

    def request_stop(self) -> None:
        """Begin to stop."""
        self._is_stopping = True
        self._wake.set()

    def request_reload(self) -> None:
        """Look for installed backends and at the file, now and whether it changed or not."""
        self._is_asked = True
        self._wake.set()

    async def run(self) -> None:
        """Look until stopped."""
        while not self._is_stopping:
            try:
                async with asyncio.timeout(_PERIOD):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            if not self._is_stopping:
                await self._look()

    async def _look(self) -> None:
        content = self._content()
        if not self._is_asked and content == self._seen:
            return
        if self._is_asked:
            self._registry.reload()
        self._is_asked, self._seen = False, content
        try:
            configuration = load_file(self._path, self._registry)
            if self._apply is not None:
                await self._apply(configuration)
        except (ConfigError, BackendError) as error:
            _log.error("the configuration is not taken over", error, trace=False)

    def _content(self) -> bytes:
        try:
            return self._path.read_bytes()
        except OSError:
            return b""  # it is being replaced, or gone: what was read last goes on
