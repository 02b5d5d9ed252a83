"""Who is asking: token reviews and requests.

Made by ``make kubernetes``: do not edit. What a newer server adds survives as unknown fields.
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
    token: Annotated[str, Required()] = omitempty("")
    audiences: Annotated[Seq[str], Atomic()] = omitempty(())


class UserInfo(Model):
    username: str = omitempty("")
    uid: str = omitempty("")
    groups: Annotated[Seq[str], Atomic()] = omitempty(())
    extra: Map[str, Seq[str]] = omitempty(EMPTY_MAP)


class TokenReviewStatus(Model):
    authenticated: Maybe[bool] = UNSET
    user: UserInfo = omitempty(UserInfo())
    audiences: Annotated[Seq[str], Atomic()] = omitempty(())
    error: str = omitempty("")


class TokenReview(
    Resource, group="authentication.k8s.io", version="v1", plural="tokenreviews", scope="Cluster"
):
    spec: Annotated[TokenReviewSpec, Required()] = omitempty(TokenReviewSpec())
    status: TokenReviewStatus = omitempty(TokenReviewStatus())


class BoundObjectReference(Model):
    kind: str = omitempty("")
    api_version: str = omitempty("")
    name: str = omitempty("")
    uid: str = omitempty("")


class TokenRequestSpec(Model):
    audiences: Annotated[Seq[str], Atomic()] = omitempty(())
    expiration_seconds: Annotated[Maybe[int], Int64] = UNSET
    bound_object_ref: Maybe[BoundObjectReference] = UNSET


class TokenRequestStatus(Model):
    token: str = omitempty("")
    expiration_timestamp: OptionalTime = UNSET


class TokenRequest(Resource, group="authentication.k8s.io", version="v1", plural="serviceaccounts/token"):
    spec: TokenRequestSpec = omitempty(TokenRequestSpec())
    status: TokenRequestStatus = omitempty(TokenRequestStatus())


class SelfSubjectReviewStatus(Model):
    user_info: UserInfo = omitempty(UserInfo())


class SelfSubjectReview(
    Resource, group="authentication.k8s.io", version="v1", plural="selfsubjectreviews", scope="Cluster"
):
    status: SelfSubjectReviewStatus = omitempty(SelfSubjectReviewStatus())
