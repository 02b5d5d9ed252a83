"""What a request for a certificate asks for, and whether a signer may sign it: pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from quarterdeck.errors import ReconcileError

CLIENT: Final = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT: Final = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING: Final = "kubernetes.io/kubelet-serving"
UNKNOWN: Final = "kubernetes.io/legacy-unknown"
SIGNERS: Final = (CLIENT, KUBELET_CLIENT, KUBELET_SERVING, UNKNOWN)
_NODES: Final = ["system:nodes"]
_NODE: Final = "system:node:"
_DNS: Final = x509.DNSName
_IP: Final = x509.IPAddress
_EMAIL: Final = x509.RFC822Name
_URI: Final = x509.UniformResourceIdentifier


def parse_request(pem: bytes) -> x509.CertificateSigningRequest:
    """The request in a PEM text; raises ``ReconcileError`` if it is none."""
    if b"-----BEGIN CERTIFICATE REQUEST-----" not in pem:
        raise ReconcileError("PEM block type must be CERTIFICATE REQUEST")
    try:
        return x509.load_pem_x509_csr(pem)
    except ValueError as error:
        raise ReconcileError(str(error)) from error


def common_name(request: x509.CertificateSigningRequest) -> str:
    """Whom a request is about."""
    found = request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else ""


def refusal(signer: str, request: x509.CertificateSigningRequest, usages: Iterable[str]) -> str:
    """Why a signer does not sign a request; empty if it does."""
    wanted = set(usages)
    if signer == CLIENT:
        return _client_refusal(list(usages))
    if signer == KUBELET_CLIENT:
        return _kubelet_client_refusal(request, wanted)
    if signer == KUBELET_SERVING:
        return _kubelet_serving_refusal(request, wanted)
    return ""


def _client_refusal(usages: list[str]) -> str:
    for usage in usages:
        if usage not in ("digital signature", "key encipherment", "client auth"):
            return f"invalid usage for client certificate: {usage}"
    return "" if "client auth" in usages else "missing required usage for client certificate: client auth"


def _kubelet_client_refusal(request: x509.CertificateSigningRequest, usages: set[str]) -> str:
    if _organizations(request) != _NODES:
        return "subject organization is not system:nodes"
    for kind, text in ((_DNS, "DNS"), (_EMAIL, "Email"), (_IP, "IP"), (_URI, "URI")):
        if _alternatives(request, kind):
            return f"{text} subjectAltNames are not allowed"
    if not common_name(request).startswith(_NODE):
        return "subject common name does not begin with system:node:"
    return _usage_refusal(usages, "client auth")


def _kubelet_serving_refusal(request: x509.CertificateSigningRequest, usages: set[str]) -> str:
    if _organizations(request) != _NODES:
        return "subject organization is not system:nodes"
    if not _alternatives(request, _DNS) and not _alternatives(request, _IP):
        return "DNS or IP subjectAltName is required"
    for kind, text in ((_EMAIL, "Email"), (_URI, "URI")):
        if _alternatives(request, kind):
            return f"{text} subjectAltNames are not allowed"
    wrong = _usage_refusal(usages, "server auth")
    if wrong:
        return wrong
    if not common_name(request).startswith(_NODE):
        return "subject common name does not begin with system:node:"
    return ""


def _usage_refusal(usages: set[str], purpose: str) -> str:
    most = {"digital signature", "key encipherment", purpose}
    if usages in (most, most - {"key encipherment"}):
        return ""
    return f"usages did not match [{' '.join(sorted(most))}]"


def _organizations(request: x509.CertificateSigningRequest) -> list[str]:
    return [str(each.value) for each in request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]


def _alternatives(
    request: x509.CertificateSigningRequest, kind: type[x509.GeneralName]
) -> list[x509.GeneralName]:
    try:
        names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [name for name in names if isinstance(name, kind)]
