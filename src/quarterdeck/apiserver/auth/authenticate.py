"""Who sends a request: client certificates, static tokens and ServiceAccount tokens.

A certificate, verified by TLS, is looked at first and then decides alone, as upstream. Anonymous requests
are refused. Neither tokens nor keys appear in texts, reprs or logs; the tables are keyed by digest.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from cryptography import x509
from cryptography.x509.oid import NameOID

from quarterdeck.apiserver import status
from quarterdeck.wire import wallclock

from . import serviceaccount
from .jwt import TokenError
from .legacytoken import LegacyClaims
from .serviceaccount import Claims, ClusterReads, ServiceAccountTokens
from .user import CREDENTIAL_ID, UserInfo

UID_OID: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
"""The subject attribute that carries a user's uid."""

INVALID_TOKEN: Final = "invalid bearer token"
_CERTIFICATES_KEPT: Final = 1024


class Authenticated(msgspec.Struct, frozen=True):
    """A token's user, and which of the audiences asked about it is for."""

    user: UserInfo
    audiences: tuple[str, ...]


class _Certificate(msgspec.Struct, frozen=True):
    user: UserInfo
    not_before: float
    not_after: float


class _Verified(msgspec.Struct, frozen=True):
    """A ServiceAccount token whose signature has been checked."""

    user: UserInfo
    claims: Claims | LegacyClaims


class Authenticator:
    """Turns credentials into a user.

    `reads` is asked on every request whether the objects behind a ServiceAccount token still exist; only
    the check of the signature is remembered, for at most `tokens_kept` tokens. `clock` gives seconds since
    the epoch. `on_secret_used(namespace, name)` is told of every use of a token that is kept in a Secret.
    """

    def __init__(
        self,
        reads: ClusterReads,
        *,
        service_accounts: ServiceAccountTokens | None = None,
        static_tokens: Mapping[str, UserInfo] | None = None,
        clock: Callable[[], float] = wallclock.now,
        tokens_kept: int = 4096,
        on_secret_used: Callable[[str, str], None] = lambda _namespace, _name: None,
    ) -> None:
        self._reads = reads
        self._service_accounts = service_accounts
        self._static = {_digest(token): who.authenticated() for token, who in (static_tokens or {}).items()}
        self._clock = clock
        self._tokens_kept = tokens_kept
        self._on_secret_used = on_secret_used
        self._verified: dict[bytes, _Verified] = {}
        self._certificates: dict[bytes, _Certificate] = {}

    def authenticate(self, peer_certificate: bytes | None, authorization: str | None) -> UserInfo:
        """The user of a request; raises 401.

        `peer_certificate` is DER that TLS has verified against our CA, `authorization` the header's value.
        """
        if peer_certificate:
            user = self._certificate_user(peer_certificate)
            if user is not None:
                return user
        token = bearer_token(authorization) if authorization else ""
        if token:
            try:
                return self.authenticate_token(token).user
            except TokenError:
                pass
        raise status.unauthorized()

    def authenticate_token(self, token: str, audiences: Sequence[str] = ()) -> Authenticated:
        """The user of a bearer token for some audiences, by default the server's own; raises TokenError."""
        digest = _digest(token)
        user = self._static.get(digest)
        issuer = self._service_accounts
        if user is not None:
            accepted = _static_audiences(issuer, audiences)
            if accepted is None:
                raise TokenError(INVALID_TOKEN)
            return Authenticated(user, accepted)
        if issuer is None:
            raise TokenError(INVALID_TOKEN)
        verified = self._verified.get(digest)
        if verified is None:
            claims = issuer.claims(token)
            if claims is None:
                raise TokenError(INVALID_TOKEN)
            user = claims.user() if isinstance(claims, LegacyClaims) else serviceaccount.user_of(claims)
            verified = _Verified(user, claims)
        accepted = issuer.accepted_audiences(verified.claims, audiences)
        try:
            self._check(token, verified.claims)
        except TokenError:
            self._verified.pop(digest, None)
            raise
        if digest not in self._verified:
            while len(self._verified) >= self._tokens_kept:
                del self._verified[next(iter(self._verified))]  # the oldest
            self._verified[digest] = verified
        return Authenticated(verified.user, accepted)

    def _check(self, token: str, claims: Claims | LegacyClaims) -> None:
        """Raise TokenError for a token whose time is over or whose objects are gone."""
        if isinstance(claims, LegacyClaims):
            claims.check_objects(token, self._reads)
            self._on_secret_used(claims.namespace, claims.secret)
            return
        now = self._clock()
        serviceaccount.check_times(claims, now)
        serviceaccount.check_objects(claims, self._reads, now)

    def statistics(self) -> dict[str, int]:
        """How much is remembered."""
        return {"verified_tokens": len(self._verified), "certificates": len(self._certificates)}

    def _certificate_user(self, der: bytes) -> UserInfo | None:
        known = self._certificates.get(der)
        if known is None:
            known = _read_certificate(der)
            if known is None:
                return None
            if len(self._certificates) >= _CERTIFICATES_KEPT:
                self._certificates.clear()
            self._certificates[der] = known
        # TLS looked at the dates once; a connection can outlive them.
        return known.user if known.not_before <= self._clock() <= known.not_after else None

    def __repr__(self) -> str:
        return f"Authenticator({len(self._static)} static tokens)"


def bearer_token(authorization: str) -> str:
    """The token of an Authorization header, "" when it holds none."""
    parts = authorization.strip().split(" ", 2)
    return parts[1] if len(parts) > 1 and parts[0].lower() == "bearer" else ""


def parse_token_file(text: str, source: str = "token file") -> dict[str, UserInfo]:
    """The table of a static token file: lines `token,user,uid` with an optional quoted column `"g1,g2"`.

    Empty tokens are skipped; of equal tokens the last counts. Raises ValueError for fewer columns.
    """
    tokens: dict[str, UserInfo] = {}
    for record in csv.reader(io.StringIO(text)):
        if not record:
            continue
        if len(record) < 3:
            columns = "(token, user name, user uid)"
            raise ValueError(f"{source} must have at least 3 columns {columns}, found {len(record)}")
        token, name, uid = record[:3]
        if token:
            groups = tuple(record[3].split(",")) if len(record) > 3 else ()
            tokens[token] = UserInfo(name=name, uid=uid, groups=groups)
    return tokens


def load_token_file(path: Path) -> dict[str, UserInfo]:
    """Read a static token file; blocking."""
    return parse_token_file(path.read_text(), f"token file '{path}'")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _static_audiences(
    issuer: ServiceAccountTokens | None, requested: Sequence[str]
) -> tuple[str, ...] | None:
    """A static token is for the server itself; None when none of the requested audiences is that."""
    own = issuer.audiences if issuer else ()
    if not requested:
        return own
    return tuple(audience for audience in requested if audience in own) or None


def _read_certificate(der: bytes) -> _Certificate | None:
    """Common name is the user, organizations are the groups; None when that makes no user."""
    try:
        certificate = x509.load_der_x509_certificate(der)
        names = _values(certificate, NameOID.COMMON_NAME)
        groups = _values(certificate, NameOID.ORGANIZATION_NAME)
        uids = _values(certificate, UID_OID)
    except ValueError:
        return None
    if not names or not names[-1] or len(uids) > 1 or uids == [""]:
        return None
    user = UserInfo(
        name=names[-1],  # of several, Go's parser keeps the last
        uid=uids[0] if uids else "",
        groups=tuple(groups),
        extra={CREDENTIAL_ID: (f"X509SHA256={hashlib.sha256(der).hexdigest()}",)},
    )
    return _Certificate(
        user.authenticated(),
        certificate.not_valid_before_utc.timestamp(),
        certificate.not_valid_after_utc.timestamp(),
    )


def _values(certificate: x509.Certificate, attribute: x509.ObjectIdentifier) -> list[str]:
    return [str(found.value) for found in certificate.subject.get_attributes_for_oid(attribute)]
