"""Plugins for certificates: who may approve, sign and attest, and which subjects are never certified.

CertificateApproval, CertificateSigning, CertificateSubjectRestriction, ClusterTrustBundleAttest.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from quarterdeck.apiserver.admission.attributes import Attributes, Decision
from quarterdeck.apiserver.auth.attributes import AccessAttributes
from quarterdeck.apiserver.auth.user import MASTERS
from quarterdeck.wire import gostyle

from .base import CREATE, UPDATE, Plugin, keys, spec_of

_GROUP: Final = "certificates.k8s.io"
_REQUESTS: Final = "certificatesigningrequests"
_CLIENT_SIGNER: Final = "kubernetes.io/kube-apiserver-client"

Authorize = Callable[[AccessAttributes], Decision]


class _SignerPlugin(Plugin):
    """Asks whether somebody may do something for a signer, by its name or by its domain."""

    def __init__(self, authorize: Authorize) -> None:
        self._authorize = authorize

    def _may(self, attributes: Attributes, verb: str, signer: str) -> bool:
        domain = signer.partition("/")[0]
        return any(
            self._authorize(
                AccessAttributes(
                    user=attributes.user, verb=verb, group=_GROUP, version="*", resource="signers", name=name
                )
            ).allowed
            for name in (signer, f"{domain}/*")
        )


class CertificateApproval(_SignerPlugin):
    """Who approves a request needs the verb approve on its signer."""

    name = "CertificateApproval"
    validates = keys(_GROUP, (f"{_REQUESTS}/approval",), (UPDATE,))

    def validate(self, attributes: Attributes) -> None:
        signer = spec_of(attributes.old_object).get("signerName") or ""
        if not self._may(attributes, "approve", signer):
            raise attributes.forbidden(
                f"user not permitted to approve requests with signerName {gostyle.quote(signer)}"
            )


class CertificateSigning(_SignerPlugin):
    """Who changes the certificate or the conditions of a request needs the verb sign on its signer."""

    name = "CertificateSigning"
    validates = keys(_GROUP, (f"{_REQUESTS}/status",), (UPDATE,))

    def validate(self, attributes: Attributes) -> None:
        new = (attributes.object or {}).get("status") or {}
        old = (attributes.old_object or {}).get("status") or {}
        if all((new.get(key) or None) == (old.get(key) or None) for key in ("certificate", "conditions")):
            return
        signer = spec_of(attributes.old_object).get("signerName") or ""
        if not self._may(attributes, "sign", signer):
            raise attributes.forbidden(
                f"user not permitted to sign requests with signerName {gostyle.quote(signer)}"
            )


class ClusterTrustBundleAttest(_SignerPlugin):
    """Who writes a bundle of a signer needs the verb attest on it.

    The kind is served only with an alpha gate of upstream's; the rule holds wherever it is.
    """

    name = "ClusterTrustBundleAttest"
    validates = keys(_GROUP, ("clustertrustbundles",), (CREATE, UPDATE))

    def validate(self, attributes: Attributes) -> None:
        signer = spec_of(attributes.object).get("signerName")
        if not signer or (
            attributes.old_object is not None and spec_of(attributes.old_object) == spec_of(attributes.object)
        ):
            return
        if not self._may(attributes, "attest", signer):
            raise attributes.forbidden(f"user not permitted to attest for signerName {gostyle.quote(signer)}")


class CertificateSubjectRestriction(Plugin):
    """Nobody becomes a member of system:masters by a certificate of the server's client signer."""

    name = "CertificateSubjectRestriction"
    validates = keys(_GROUP, (_REQUESTS,), (CREATE,))

    def validate(self, attributes: Attributes) -> None:
        spec = spec_of(attributes.object)
        if spec.get("signerName") != _CLIENT_SIGNER:
            return
        try:
            request = parse_request(spec.get("request") or "")
        except ValueError as error:
            raise attributes.forbidden(f"failed to parse CSR: {error}") from None
        organizations = request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
        if any(each.value == MASTERS for each in organizations):
            raise attributes.forbidden(f"use of {_CLIENT_SIGNER} signer with {MASTERS} group is not allowed")


def parse_request(encoded: str) -> x509.CertificateSigningRequest:
    """The request in `spec.request` (PEM in base64); raises ValueError."""
    try:
        pem = base64.b64decode(encoded)
    except binascii.Error:
        pem = b""
    if b"-----BEGIN CERTIFICATE REQUEST-----" not in pem:
        raise ValueError("PEM block type must be CERTIFICATE REQUEST")
    return x509.load_pem_x509_csr(pem)
