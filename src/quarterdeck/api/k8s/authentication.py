"""Who is asking: token reviews and requests.

Fields follow k8s.io/api v0.36.3; what a newer server adds survives as unknown fields.
"""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api.instant import OptionalTime
from quarterdeck.api.marker import Atomic, Int64, Required
from quarterdeck.api.model import EMPTY_MAP, UNSET, Map, Maybe, Model, Seq, omitempty
from quarterdeck.api.resource import Resource

__all__ = [
    "BoundObjectReference",
    "SelfSubjectReview",
    "SelfSubjectReviewStatus",
    "TokenRequest",
    "TokenRequestSpec",
    "TokenRequestStatus",
    "TokenReview",
    "TokenReviewSpec",
    "TokenReviewStatus",
    "UserInfo",
]


class TokenReviewSpec(Model):
    """Description of the token authentication request."""

    token: Annotated[str, Required()] = omitempty("")
    audiences: Annotated[Seq[str], Atomic()] = omitempty(())


class UserInfo(Model):
    """Information about the user needed to implement the user.Info interface."""

    username: str = omitempty("")
    uid: str = omitempty("")
    groups: Annotated[Seq[str], Atomic()] = omitempty(())
    extra: Map[str, Seq[str]] = omitempty(EMPTY_MAP)


class TokenReviewStatus(Model):
    """Result of the token authentication request."""

    authenticated: Maybe[bool] = UNSET
    user: UserInfo = omitempty(UserInfo())
    audiences: Annotated[Seq[str], Atomic()] = omitempty(())
    error: str = omitempty("")


class TokenReview(Resource, group="authentication.k8s.io", version="v1", scope="Cluster"):
    """TokenReview attempts to authenticate a token to a known user."""

    spec: Annotated[TokenReviewSpec, Required()] = omitempty(TokenReviewSpec())
    status: TokenReviewStatus = omitempty(TokenReviewStatus())


class BoundObjectReference(Model):
    """Reference to an object that a token is bound to."""

    kind: str = omitempty("")
    api_version: str = omitempty("")
    name: str = omitempty("")
    uid: str = omitempty("")


class TokenRequestSpec(Model):
    """Client provided parameters of a token request."""

    audiences: Annotated[Seq[str], Atomic()] = omitempty(())
    expiration_seconds: Annotated[Maybe[int], Int64] = UNSET
    bound_object_ref: Maybe[BoundObjectReference] = UNSET


class TokenRequestStatus(Model):
    """Result of a token request."""

    token: str = omitempty("")
    expiration_timestamp: OptionalTime = UNSET


class TokenRequest(Resource, group="authentication.k8s.io", version="v1", plural="serviceaccounts/token"):
    """TokenRequest requests a token for a given service account."""

    spec: TokenRequestSpec = omitempty(TokenRequestSpec())
    status: TokenRequestStatus = omitempty(TokenRequestStatus())


class SelfSubjectReviewStatus(Model):
    """Filled by the kube-apiserver and sent back to a user."""

    user_info: UserInfo = omitempty(UserInfo())


class SelfSubjectReview(Resource, group="authentication.k8s.io", version="v1", scope="Cluster"):
    """User information that the kube-apiserver has about the user making this request."""

    status: SelfSubjectReviewStatus = omitempty(SelfSubjectReviewStatus())
