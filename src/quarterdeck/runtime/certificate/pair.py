"""A certificate with its key, and the TLS context that serves it.

``ServingContext.ssl`` is handed to a listener once and never changes. Each handshake is moved to the context
of the newest pair (in the server-name callback, which runs for clients without a server name too), so a
replaced certificate counts from the next handshake on, atomically, while open connections keep the session
they have. A pair that cannot be loaded is refused before anything is replaced.
"""

import os
import ssl
import tempfile
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final, Protocol

import msgspec

from quarterdeck.errors import ConfigError


class KeyPair(msgspec.Struct, frozen=True):
    """A certificate chain and its private key, as PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return f"KeyPair({len(self.certificate)} bytes of certificate, key withheld)"


UsePair = Callable[[KeyPair], None]
"""Takes a pair into use; raises ``ConfigError`` for one that cannot be used. May be called in a thread."""


class CertificateSource(Protocol):
    """Where a server's certificate comes from."""

    def serve(self, use: UsePair) -> AbstractAsyncContextManager[None]:
        """Give ``use`` the first pair before the block begins, and later ones while it lasts.

        Raises ``ConfigError`` when there is no first pair. A bad later pair is logged and skipped.
        """
        ...


class ServingContext:
    """The TLS side of a server whose certificate may change."""

    def __init__(self, *, client_ca: str = "") -> None:
        """``client_ca`` names a file of authorities; given, clients must show a certificate of theirs."""
        self._client_ca: Final = client_ca
        self.ssl: Final = self._make()
        self.ssl.sni_callback = self._choose
        self._current: ssl.SSLContext | None = None

    def replace(self, pair: KeyPair) -> None:
        """Serve this pair from the next handshake on; raises ``ConfigError`` and keeps the old one if bad."""
        context = self._make()
        handle, name = tempfile.mkstemp(prefix="quarterdeck-")  # created with mode 0600
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(pair.certificate + b"\n" + pair.key)
            context.load_cert_chain(name)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"cannot use the serving certificate: {error}") from error
        finally:
            Path(name).unlink()
        self._current = context

    def _choose(self, session: ssl.SSLObject, server_name: str | None, base: ssl.SSLContext) -> None:
        if self._current is not None:
            session.context = self._current

    def _make(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        if self._client_ca:
            try:
                context.load_verify_locations(cafile=self._client_ca)
            except (OSError, ssl.SSLError) as error:
                raise ConfigError(f"failed to read client CA cert {self._client_ca}: {error}") from error
            context.verify_mode = ssl.CERT_REQUIRED
        return context
