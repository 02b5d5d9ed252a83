"""TLS contexts from configuration, reloaded when the CA file changes.

``ssl`` reads certificates from files only, so certificates given as data take a short trip through a
private temporary file.
"""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from quarterdeck.errors import ConfigError


class TlsOptions(msgspec.Struct, frozen=True):
    """How the server proves itself to us, and we to the server."""

    ca_data: str = ""
    """PEM certificates to trust; empty together with ``ca_file`` means the system's."""
    ca_file: str = ""
    insecure: bool = False
    """Do not verify the server at all."""
    server_name: str = ""
    """Name to verify instead of the host in the URL."""
    cert_data: str = ""
    key_data: str = ""
    cert_file: str = ""
    key_file: str = ""

    @property
    def has_client_certificate(self) -> bool:
        """Whether we identify ourselves with a certificate."""
        return bool(self.cert_data or self.cert_file)


def make_context(options: TlsOptions) -> ssl.SSLContext:
    """A client context; raises ``ConfigError`` naming what could not be loaded."""
    if options.insecure and (options.ca_data or options.ca_file):
        raise ConfigError("insecure-skip-tls-verify and a certificate authority exclude each other")
    try:
        context = _verifying_context(options)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"cannot load the certificate authority {options.ca_file}: {error}") from error
    if options.has_client_certificate:
        _load_pair(context, options)
    return context


def _verifying_context(options: TlsOptions) -> ssl.SSLContext:
    if not (options.insecure or options.ca_data or options.ca_file):
        # Only here: it reads all authorities of the system, which is slow.
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if options.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        # Trust exactly this authority, as a kubeconfig means it; not the system's as well.
        context.load_verify_locations(cafile=options.ca_file or None, cadata=options.ca_data or None)
    return context


def _load_pair(context: ssl.SSLContext, options: TlsOptions) -> None:
    try:
        with (
            _as_file(options.cert_data, options.cert_file) as cert,
            _as_file(options.key_data, options.key_file) as key,
        ):
            context.load_cert_chain(cert, key or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"cannot load the client certificate {options.cert_file}: {error}") from error


@contextmanager
def _as_file(data: str, path: str) -> Iterator[str]:
    if not data:
        yield path
        return
    import tempfile  # late: it loads every compression there is, and service accounts need no file

    handle, name = tempfile.mkstemp(prefix="quarterdeck-")  # created with mode 0600
    try:
        with os.fdopen(handle, "w") as out:
            out.write(data)
        yield name
    finally:
        Path(name).unlink()
