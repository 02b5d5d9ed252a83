"""ServiceAccount tokens: what is in them and when one is still good.

Tokens without an end, which live in Secrets, are in `legacytoken`; the others are made on request. One of
those is good while its signature, issuer, audience and times hold *and* the objects it names (the
service account; a pod, secret or node it is bound to) still exist with the same uid. The texts of the
errors are upstream's: TokenReview shows them.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from . import jwt, user
from .jwt import SigningKey, Token, TokenError, VerificationKey
from .legacytoken import LEGACY_ISSUER, LegacyClaims
from .rule import quoted_list
from .user import UserInfo

DEFAULT_ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
LEEWAY: Final = 60.0
"""Seconds by which clocks may differ, and for which a deleted object still vouches for its tokens."""

_INVALIDATED: Final = "service account token has been invalidated"


class ClusterReads(Protocol):
    """The newest stored objects; `strategy.ClusterState` is one. Results are only read."""

    def get(self, group: str, resource: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        """The object, or None when there is none; `namespace` is "" for cluster-scoped resources."""
        ...


class Reference(msgspec.Struct, frozen=True, omit_defaults=True):
    """Name and uid of an object that a token depends on."""

    name: str = ""
    uid: str = ""


class Binding(msgspec.Struct, frozen=True, omit_defaults=True):
    """The private claim `kubernetes.io`."""

    namespace: str = ""
    serviceaccount: Reference = Reference()
    pod: Reference | None = None
    secret: Reference | None = None
    node: Reference | None = None
    warnafter: int | float | None = None


class Claims(msgspec.Struct, frozen=True, omit_defaults=True):
    """All claims of a token."""

    sub: str = ""
    iss: str = ""
    aud: list[str] | str = ""
    exp: int | float | None = None
    nbf: int | float | None = None
    iat: int | float | None = None
    jti: str = ""
    kubernetes: Binding = msgspec.field(default=Binding(), name="kubernetes.io")

    @property
    def audiences(self) -> Sequence[str]:
        return (self.aud,) if isinstance(self.aud, str) and self.aud else tuple(self.aud)


class _Issued(msgspec.Struct, frozen=True):
    iss: str = ""


class ServiceAccountTokens:
    """Signs tokens and checks the claims of those it, or an earlier key, has signed.

    `audiences` are the server's own: what a token is for when its requester does not say, and what it must
    be for to be accepted here. `earlier_keys` keep tokens alive across a change of the signing key.
    """

    def __init__(
        self,
        key: SigningKey,
        *,
        issuer: str = DEFAULT_ISSUER,
        audiences: Sequence[str] = (),
        earlier_keys: Sequence[VerificationKey] = (),
    ) -> None:
        self._key = key
        self._keys = {verifier.key_id: verifier for verifier in (*earlier_keys, key.public)}
        self.issuer = issuer
        self.audiences = tuple(audiences) or (issuer,)

    @property
    def keys(self) -> Sequence[VerificationKey]:
        """The keys that verify what was signed here."""
        return tuple(self._keys.values())

    def issue(self, claims: Claims) -> str:
        """Sign; the issuer is filled in."""
        complete = msgspec.structs.replace(claims, iss=self.issuer)
        return self._key.sign(msgspec.to_builtins(complete))

    def issue_legacy(self, claims: Mapping[str, Any]) -> str:
        """Sign the claims of a token that is kept in a Secret; the issuer is filled in."""
        return self._key.sign({**claims, "iss": LEGACY_ISSUER})

    def claims(self, text: str) -> Claims | LegacyClaims | None:
        """The verified claims of a token; None when it is not one of ours to judge.

        Times and objects are not looked at: `check_times` and `check_objects` do that, again and again.
        """
        token = jwt.parse(text)
        if token is None:
            return None
        claims = self._read(token.payload)
        if claims is not None:
            self._check_signature(token)
        if isinstance(claims, LegacyClaims):
            claims.check_form()
        return claims

    def _read(self, payload: bytes) -> Claims | LegacyClaims | None:
        """What a token of ours says; None for the token of another issuer."""
        try:
            issuer = msgspec.json.decode(payload, type=_Issued).iss
            if issuer == self.issuer:
                return msgspec.json.decode(payload, type=Claims)
            if issuer == LEGACY_ISSUER:
                return msgspec.json.decode(payload, type=LegacyClaims)
        except msgspec.DecodeError:
            return None
        return None

    def _check_signature(self, token: Token) -> None:
        keys = [self._keys[token.header.kid]] if token.header.kid in self._keys else []
        if not token.header.kid:
            keys = list(self._keys.values())
        if not keys:
            raise TokenError("invalid signature, no keys found")
        for position, key in enumerate(keys, 1):
            try:
                key.verify(token)
                break
            except TokenError:
                if position == len(keys):
                    raise

    def accepted_audiences(
        self, claims: Claims | LegacyClaims, requested: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """Those of the requested audiences (by default the server's own) the token is for; at least one."""
        wanted = tuple(requested) or self.audiences
        offered = claims.audiences or self.audiences
        accepted = tuple(audience for audience in wanted if audience in offered)
        if not accepted:
            texts = quoted_list(offered), quoted_list(wanted)
            raise TokenError("token audiences {} is invalid for the target audiences {}".format(*texts))
        return accepted


def check_times(claims: Claims, now: float) -> None:
    """Raise TokenError outside of the token's lifetime."""
    if claims.exp is None or now - LEEWAY > claims.exp:
        raise TokenError("service account token has expired")
    if claims.nbf is not None and now + LEEWAY < claims.nbf:
        raise TokenError("service account token is not valid yet")
    if claims.iat is not None and now + LEEWAY < claims.iat:
        raise TokenError("service account token is issued in the future")


def check_objects(claims: Claims, reads: ClusterReads, now: float) -> None:
    """Raise TokenError when an object the token depends on is gone, replaced or long since being deleted."""
    binding = claims.kubernetes
    namespace, account = binding.namespace, binding.serviceaccount
    stored = reads.get("", "serviceaccounts", namespace, account.name)
    if stored is None:
        raise TokenError(f'serviceaccounts "{account.name}" not found')
    uid = _uid(stored)
    if uid != account.uid:
        raise TokenError(f"service account UID ({uid}) does not match claim ({account.uid})")
    if _is_deleted(stored, now):
        raise TokenError(f"service account {namespace}/{account.name} has been deleted")
    for kind, scope, reference in (
        ("secret", namespace, binding.secret),
        ("pod", namespace, binding.pod),
        # a pod-bound token names the pod's node for information only
        ("node", "", None if binding.pod else binding.node),
    ):
        if reference is None:
            continue
        bound = reads.get("", f"{kind}s", scope, reference.name)
        if bound is None:
            raise TokenError(_INVALIDATED)
        uid = _uid(bound)
        if uid != reference.uid:
            raise TokenError(
                f"{kind} UID ({uid}) does not match service account {kind} ref claim ({reference.uid})"
            )
        if _is_deleted(bound, now):
            raise TokenError(_INVALIDATED)


def user_of(claims: Claims) -> UserInfo:
    """The user a token stands for, with what it is bound to in `extra`."""
    binding = claims.kubernetes
    extra: dict[str, tuple[str, ...]] = {}
    if claims.jti:
        extra[user.CREDENTIAL_ID] = (f"JTI={claims.jti}",)
    if binding.pod is not None and binding.pod.name and binding.pod.uid:
        extra[user.POD_NAME] = (binding.pod.name,)
        extra[user.POD_UID] = (binding.pod.uid,)
    if binding.node is not None and binding.node.name:
        extra[user.NODE_NAME] = (binding.node.name,)
        if binding.node.uid:
            extra[user.NODE_UID] = (binding.node.uid,)
    return UserInfo(
        name=user.service_account_username(binding.namespace, binding.serviceaccount.name),
        uid=binding.serviceaccount.uid,
        groups=(*user.service_account_groups(binding.namespace), user.AUTHENTICATED),
        extra=extra,
    )


def _uid(obj: Mapping[str, Any]) -> str:
    return str((obj.get("metadata") or {}).get("uid", ""))


def _is_deleted(obj: Mapping[str, Any], now: float) -> bool:
    """Whether deletion began more than the leeway ago."""
    since = (obj.get("metadata") or {}).get("deletionTimestamp")
    return since is not None and datetime.datetime.fromisoformat(since).timestamp() < now - LEEWAY
