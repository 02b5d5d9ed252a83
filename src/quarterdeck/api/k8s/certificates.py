"""Certificate signing requests.

Made by ``make kubernetes``: do not edit. What a newer server adds survives as unknown fields.
"""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api.instant import OptionalTime
from quarterdeck.api.marker import Atomic, Int32, ListMap, Required
from quarterdeck.api.model import EMPTY_MAP, UNSET, Map, Maybe, Model, Seq, omitempty
from quarterdeck.api.resource import Resource

__all__ = [
    "CertificateSigningRequest",
    "CertificateSigningRequestCondition",
    "CertificateSigningRequestSpec",
    "CertificateSigningRequestStatus",
]


class CertificateSigningRequestSpec(Model):
    request: Annotated[Maybe[bytes], Required()] = UNSET
    signer_name: Annotated[str, Required()] = omitempty("")
    expiration_seconds: Annotated[Maybe[int], Int32] = UNSET
    usages: Annotated[Seq[str], Atomic()] = omitempty(())
    username: str = omitempty("")
    uid: str = omitempty("")
    groups: Annotated[Seq[str], Atomic()] = omitempty(())
    extra: Map[str, Seq[str]] = omitempty(EMPTY_MAP)


class CertificateSigningRequestCondition(Model):
    type: Annotated[str, Required()] = omitempty("")
    status: Annotated[str, Required()] = omitempty("")
    reason: str = omitempty("")
    message: str = omitempty("")
    last_update_time: OptionalTime = UNSET
    last_transition_time: OptionalTime = UNSET


class CertificateSigningRequestStatus(Model):
    conditions: Annotated[Seq[CertificateSigningRequestCondition], ListMap("type")] = omitempty(())
    certificate: Maybe[bytes] = UNSET


class CertificateSigningRequest(
    Resource,
    group="certificates.k8s.io",
    version="v1",
    plural="certificatesigningrequests",
    scope="Cluster",
    short_names=["csr"],
    status=True,
):
    spec: Annotated[CertificateSigningRequestSpec, Required()] = omitempty(CertificateSigningRequestSpec())
    status: CertificateSigningRequestStatus = omitempty(CertificateSigningRequestStatus())
