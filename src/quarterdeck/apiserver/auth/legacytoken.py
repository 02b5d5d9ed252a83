"""Tokens that live in Secrets of type `kubernetes.io/service-account-token`.

They carry no times. Such a token is good for as long as its Secret holds exactly this text and the account
it names exists with the same uid. The texts of the errors are upstream's: TokenReview shows them.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from .jwt import TokenError
from .user import AUTHENTICATED, UserInfo, service_account_groups, service_account_username

if TYPE_CHECKING:
    from .serviceaccount import ClusterReads

LEGACY_ISSUER: Final = "kubernetes/serviceaccount"
LAST_USED: Final = "kubernetes.io/legacy-token-last-used"
INVALID_SINCE: Final = "kubernetes.io/legacy-token-invalid-since"
_CLAIM: Final = "kubernetes.io/serviceaccount/"


class LegacyClaims(msgspec.Struct, frozen=True):
    """The claims of such a token."""

    sub: str = ""
    iss: str = ""
    aud: list[str] | str = ""
    namespace: str = msgspec.field(default="", name=f"{_CLAIM}namespace")
    secret: str = msgspec.field(default="", name=f"{_CLAIM}secret.name")
    account: str = msgspec.field(default="", name=f"{_CLAIM}service-account.name")
    uid: str = msgspec.field(default="", name=f"{_CLAIM}service-account.uid")

    @property
    def audiences(self) -> Sequence[str]:
        return (self.aud,) if isinstance(self.aud, str) and self.aud else tuple(self.aud)

    def check_form(self) -> None:
        """Raise TokenError for claims that are missing or contradict each other."""
        if not self.sub:
            raise TokenError("sub claim is missing")
        for name, value in (
            ("namespace", self.namespace),
            ("secretName", self.secret),
            ("serviceAccountName", self.account),
            ("serviceAccountUID", self.uid),
        ):
            if not value:
                raise TokenError(f"{name} claim is missing")
        if self.sub != service_account_username(self.namespace, self.account):
            raise TokenError("sub claim is invalid")

    def check_objects(self, token: str, reads: ClusterReads) -> None:
        """Raise TokenError unless the Secret still holds the token and the account is still the same."""
        secret = reads.get("", "secrets", self.namespace, self.secret)
        if secret is None or _is_deleting(secret):
            raise TokenError("Token has been invalidated")
        if not hmac.compare_digest(_token_in(secret), token.encode()):
            raise TokenError("Token does not match server's copy")
        account = reads.get("", "serviceaccounts", self.namespace, self.account)
        if account is None:
            raise TokenError(f'serviceaccounts "{self.account}" not found')
        place = f"{self.namespace}/{self.account}"
        if _is_deleting(account):
            raise TokenError(f"ServiceAccount {place} has been deleted")
        uid = account["metadata"].get("uid", "")
        if uid != self.uid:
            raise TokenError(f"ServiceAccount UID ({uid}) does not match claim ({self.uid})")
        if (secret["metadata"].get("labels") or {}).get(INVALID_SINCE):
            raise TokenError(
                f"the token in secret {self.namespace}/{self.secret} for service account {place} has been "
                "marked invalid. Use tokens from the TokenRequest API or manually created secret-based "
                f"tokens, or remove the '{INVALID_SINCE}' label from the secret to temporarily allow use of "
                "this token"
            )

    def user(self) -> UserInfo:
        """The user the token stands for."""
        return UserInfo(
            name=service_account_username(self.namespace, self.account),
            uid=self.uid,
            groups=(*service_account_groups(self.namespace), AUTHENTICATED),
        )


def _token_in(secret: Mapping[str, Any]) -> bytes:
    try:
        return base64.b64decode((secret.get("data") or {}).get("token") or "")
    except binascii.Error:
        return b""


def _is_deleting(obj: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in obj["metadata"]
