"""Keys and certificates of the server: its own CA, its serving certificate, client certificates and the
key that signs ServiceAccount tokens.

`Authority` issues; `open_credentials` keeps what must outlive the process in a directory, or makes it anew
for one that keeps nothing. Every file holds one key with its certificate, is readable by its owner only and
is replaced in one step, so a crash leaves either the old pair or the new one.
"""

from __future__ import annotations

import datetime
import os
import ssl
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol, Self, TypeVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.x509.oid import NameOID

from quarterdeck.errors import ConfigError
from quarterdeck.wire.certificate import (
    NAME_LIMIT,
    alternative_name,
    certificates_in,
    dns_names_of,
    is_signed_by,
    issue,
    issue_client,
    key_pem,
    lifetime_used,
    load_key,
    make_authority,
    to_pem,
)

from . import user
from .authenticate import UID_OID
from .jwt import SigningKey
from .privatefile import write_private
from .user import UserInfo

SERVICE_ADDRESS: Final = "10.0.0.1"
"""Of the Service ``default/kubernetes``: where containers with a network of their own find this server."""
SERVER_NAMES: Final = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    SERVICE_ADDRESS,
    "127.0.0.1",
    "::1",
)
ADMIN: Final = UserInfo(name="admin", groups=(user.MASTERS,))

_AUTHORITY_NAME: Final = "quarterdeck-ca"
_AUTHORITY_LIFETIME: Final = datetime.timedelta(days=3650)
_LIFETIME: Final = datetime.timedelta(days=365)
_RENEW_AT: Final = 0.8  # of the lifetime

Now = datetime.datetime


class CertificateError(ConfigError, ValueError):
    """Stored keys that cannot be used; the text names the file and what to do."""


class KeyPair:
    """A certificate with its private key as PEM."""

    def __init__(self, certificate: x509.Certificate, key_pem: bytes) -> None:
        self.certificate = certificate
        self.key_pem = key_pem

    @classmethod
    def from_pem(cls, pem: bytes) -> Self:
        """Raises CertificateError unless `pem` holds a P-256 key and the certificate for it."""
        try:
            certificate, *_ = certificates_in(pem)
            key = load_key(pem)
        except ConfigError as error:
            raise CertificateError(str(error)) from error
        if key.public_key() != certificate.public_key():
            raise CertificateError("key and certificate do not belong together")
        return cls(certificate, key_pem(key))

    @property
    def certificate_pem(self) -> bytes:
        return to_pem([self.certificate])

    def to_pem(self) -> bytes:
        """Certificate and key in one, as `ssl.SSLContext.load_cert_chain` takes them."""
        return self.certificate_pem + self.key_pem

    def is_fresh(self, now: Now) -> bool:
        """Valid, and not so near to its end that it should be renewed."""
        return 0 <= lifetime_used(self.certificate, now) < _RENEW_AT

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.certificate.subject.rfc4514_string()})"


class Authority(KeyPair):
    """A certificate authority."""

    @classmethod
    def create(cls, now: Now) -> Authority:
        return cls(*make_authority(_AUTHORITY_NAME, now=now, life=_AUTHORITY_LIFETIME))

    def renewed(self, now: Now) -> Authority:
        """The same authority with a new certificate: what it issued before stays good."""
        return Authority(
            *make_authority(_AUTHORITY_NAME, now=now, life=_AUTHORITY_LIFETIME, key=self.key_pem)
        )

    def issue_server(self, names: Sequence[str], now: Now) -> KeyPair:
        """A serving certificate for DNS names and IP addresses."""
        return _pair(
            issue(
                self.certificate, self.key_pem, names, now=now, life=_LIFETIME, common_name="kube-apiserver"
            )
        )

    def issue_client(self, who: UserInfo, now: Now) -> KeyPair:
        """A client certificate: the common name is the user, organizations are the groups.

        Raises ValueError for a name or group that is empty or longer than 64 characters.
        """
        for text in (who.name, *who.groups):
            if not 0 < len(text) <= NAME_LIMIT:
                raise ValueError(f"a user or group in a certificate has 1 to {NAME_LIMIT} characters")
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in who.groups]
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, who.name))
        if who.uid:
            attributes.append(x509.NameAttribute(UID_OID, who.uid))
        subject = x509.Name(attributes)
        return _pair(issue_client(self.certificate, self.key_pem, subject, now=now, life=_LIFETIME))

    def has_issued(self, pair: KeyPair) -> bool:
        return is_signed_by(pair.certificate, self.certificate)


def _pair(made: tuple[bytes, bytes]) -> KeyPair:
    certificate, key = made
    return KeyPair(certificates_in(certificate)[0], key)


class Credentials:
    """Everything the server proves itself and others with."""

    def __init__(
        self, authority: Authority, server: KeyPair, admin: KeyPair, service_account_key: SigningKey
    ) -> None:
        self.authority = authority
        self.server = server
        self.admin = admin
        self.service_account_key = service_account_key

    def server_context(self) -> ssl.SSLContext:
        """TLS 1.2 or newer, HTTP/1.1; a client certificate is optional but must be ours. Blocking."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        context.load_verify_locations(cadata=self.authority.certificate_pem.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        _load(context, self.server)
        return context

    def __repr__(self) -> str:
        return f"Credentials({self.authority!r})"


def open_credentials(directory: Path | None, *, now: Now, names: Sequence[str] = SERVER_NAMES) -> Credentials:
    """The credentials kept in `directory`, those missing or near their end made anew; None keeps nothing.

    An unreadable CA or token key raises CertificateError: replacing it would lock out everyone who holds
    something it signed. Blocking.
    """
    files = _Files(directory)
    authority = files.read("ca.pem", Authority.from_pem)
    if authority is None:
        authority = files.write("ca.pem", Authority.create(now))
    if not authority.is_fresh(now):
        authority = files.write("ca.pem", authority.renewed(now))
    server = files.read("server.pem", KeyPair.from_pem, is_replaceable=True)
    wanted = {alternative_name(name) for name in names}
    if (
        server is None
        or not (server.is_fresh(now) and authority.has_issued(server))
        or wanted - {alternative_name(name) for name in dns_names_of(server.certificate)}
    ):
        server = files.write("server.pem", authority.issue_server(names, now))
    admin = files.read("admin.pem", KeyPair.from_pem, is_replaceable=True)
    if admin is None or not (admin.is_fresh(now) and authority.has_issued(admin)):
        admin = files.write("admin.pem", authority.issue_client(ADMIN, now))
    key = files.read("service-account.pem", SigningKey.from_pem)
    if key is None:
        key = files.write("service-account.pem", SigningKey.generate())
    return Credentials(authority, server, admin, key)


class _Pem(Protocol):
    def to_pem(self) -> bytes: ...


_Kept = TypeVar("_Kept", bound=_Pem)


class _Files:
    """The directory with the keys, or nowhere."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        if directory is not None:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def read(
        self, name: str, parse: Callable[[bytes], _Kept], *, is_replaceable: bool = False
    ) -> _Kept | None:
        """What a file holds; None when there is none, or nothing of use in one that can be replaced."""
        if self._directory is None:
            return None
        path = self._directory / name
        try:
            pem = path.read_bytes()
        except FileNotFoundError:
            return None
        path.chmod(0o600)
        try:
            return parse(pem)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            if is_replaceable:
                return None
            raise CertificateError(
                f"{path} cannot be read ({error}); restore it, or delete it to have new keys made"
            ) from error

    def write(self, name: str, value: _Kept) -> _Kept:
        if self._directory is not None:
            write_private(self._directory / name, value.to_pem())
        return value


def _load(context: ssl.SSLContext, pair: KeyPair) -> None:
    """OpenSSL takes keys from files only: show it one that is gone right after."""
    descriptor, path = tempfile.mkstemp()
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(pair.to_pem())
        context.load_cert_chain(path)
    finally:
        os.unlink(path)
