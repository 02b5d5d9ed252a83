"""A certificate that is kept in memory only, for metrics, tests and laptops."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

from quarterdeck.client.clock import Clock
from quarterdeck.runtime.certificate.pair import KeyPair, UsePair
from quarterdeck.runtime.loop.clock import LoopClock

LIFE: Final = timedelta(days=365)


class EphemeralCertificates:
    """Serves a certificate made at the start; a ``CertificateSource``.

    ``bundle`` is the authority to trust, for clients that can be told; scrapers usually skip verification.
    """

    def __init__(self, dns_names: Sequence[str] = ("localhost",), *, clock: Clock | None = None) -> None:
        self._names: Final = tuple(dns_names)
        self._clock: Final = clock if clock is not None else LoopClock()
        self.bundle = b""
        """PEM of the authority; empty before the start."""

    @asynccontextmanager
    async def serve(self, use: UsePair) -> AsyncIterator[None]:
        """Make a pair and serve it; see ``CertificateSource``."""
        now = datetime.fromtimestamp(self._clock.time(), UTC)
        use(await asyncio.to_thread(self._make, now))
        yield

    def _make(self, now: datetime) -> KeyPair:
        # In a thread, and not at the top: loading the cryptography takes longer than the rest of a start.
        from quarterdeck.wire.certificate import issue, make_authority, to_pem

        authority, key = make_authority("ephemeral", now=now, life=LIFE)
        self.bundle = to_pem([authority])
        return KeyPair(*issue(authority, key, self._names, now=now, life=LIFE))
