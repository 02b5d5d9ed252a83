"""Certificates from files, re-read while they are served.

Both files are read every ten seconds and compared by content: a Secret volume is swapped by a symbolic link,
which file events miss, and two small reads cost nothing. A half-written or mismatched pair is logged and
counted, and the old one stays until the next look.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from quarterdeck.client.clock import Clock
from quarterdeck.errors import ConfigError
from quarterdeck.runtime.certificate.pair import KeyPair, UsePair
from quarterdeck.runtime.log.field import get_logger
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.metrics import RuntimeMetrics

POLL_PERIOD: Final = 10.0
DEFAULT_DIRECTORY: Final = Path(tempfile.gettempdir(), "k8s-webhook-server", "serving-certs")
_log: Final = get_logger(__name__)


class FileCertificates:
    """Serves ``tls.crt`` and ``tls.key`` of a directory; a ``CertificateSource``."""

    def __init__(
        self,
        directory: str | Path = DEFAULT_DIRECTORY,
        *,
        certificate: str = "tls.crt",
        key: str = "tls.key",
        poll: float = POLL_PERIOD,
        metrics: RuntimeMetrics | None = None,
        clock: Clock | None = None,
    ) -> None:
        """``poll`` is the time between two looks in seconds."""
        self.certificate_path: Final = Path(directory, certificate)
        self.key_path: Final = Path(directory, key)
        self._poll: Final = poll
        self._metrics: Final = metrics
        self._clock: Final = clock if clock is not None else LoopClock()

    @asynccontextmanager
    async def serve(self, use: UsePair) -> AsyncIterator[None]:
        """Serve the files; see ``CertificateSource``."""
        try:
            current = await asyncio.to_thread(self._load, use, None)
        except OSError as error:
            raise ConfigError(f"cannot read the serving certificate: {error}") from error
        watcher = asyncio.create_task(self._watch(use, current), name="certificate files")
        try:
            yield
        finally:
            watcher.cancel()
            with suppress(asyncio.CancelledError):
                await watcher

    async def _watch(self, use: UsePair, current: KeyPair) -> None:
        failing = ""
        while True:
            await self._clock.sleep(self._poll)
            try:
                current = await asyncio.to_thread(self._load, use, current)
                failing = ""
            except (OSError, ConfigError) as error:
                if str(error) != failing:  # once per problem, not every ten seconds
                    _log.error("failed read certificate", error, trace=False, path=str(self.certificate_path))
                failing = str(error)

    def _load(self, use: UsePair, current: KeyPair | None) -> KeyPair:
        if self._metrics is not None:
            self._metrics.certificate_reads.inc()
        try:
            pair = KeyPair(self.certificate_path.read_bytes(), self.key_path.read_bytes())
            if pair != current:
                use(pair)
        except (OSError, ConfigError):
            if self._metrics is not None:
                self._metrics.certificate_errors.inc()
            raise
        if current is not None and pair != current:
            _log.info("Updated current TLS certificate", path=str(self.certificate_path))
        return pair
