"""TLS with a webhook: OpenSSL decides whether a certificate will do; why not is said in Go's words.

OpenSSL tells one reason of several, and in its own order. So when it refuses, the certificate is fetched once
more, without trusting it, and looked at in the order of Go's verifier: its dates, its names, who signed it.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import ipaddress
import ssl
import sys
from collections.abc import Awaitable, Callable

from cryptography import x509
from cryptography.x509.oid import NameOID

from quarterdeck.errors import QuarterdeckError


class BadBundle(QuarterdeckError):
    """The caBundle of a webhook holds no certificates."""


def tls_context(bundle: str) -> ssl.SSLContext:
    """Trusts the certificates of a base64 encoded bundle, or those of the system if there is none."""
    context = ssl.create_default_context() if not bundle else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.hostname_checks_common_name = False  # Go does not look at it either
    # Go takes every certificate of a bundle as a root and is not strict about extensions
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if sys.version_info >= (3, 13):
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if bundle:
        try:
            context.load_verify_locations(cadata=base64.b64decode(bundle).decode())
        except (ssl.SSLError, ValueError, binascii.Error) as error:
            raise BadBundle("unable to load root certificates: unable to parse bytes as PEM block") from error
    return context


def trusting_context() -> ssl.SSLContext:
    """Trusts everybody: to look at a certificate, never to send anything."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def refusal_text(fetch: Callable[[], Awaitable[bytes | None]], name: str) -> str:
    """Why a certificate was refused; `fetch` gets it, in DER, and `name` is what it should be for."""
    try:
        raw = await fetch()
        certificate = None if raw is None else x509.load_der_x509_certificate(raw)
    except (OSError, ValueError):
        certificate = None
    why = "" if certificate is None else _date_problem(certificate) or _name_problem(certificate, name)
    return f"tls: failed to verify certificate: x509: {why or 'certificate signed by unknown authority'}"


def _date_problem(certificate: x509.Certificate) -> str:
    now = datetime.datetime.now(datetime.UTC)
    first, last = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if first <= now <= last:
        return ""
    when = f"before {_rfc3339(first)}" if now < first else f"after {_rfc3339(last)}"
    return f"certificate has expired or is not yet valid: current time {_rfc3339(now)} is {when}"


def _rfc3339(moment: datetime.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _name_problem(certificate: x509.Certificate, name: str) -> str:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = x509.SubjectAlternativeName([])
    hosts = names.get_values_for_type(x509.DNSName)
    addresses = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    if is_address(name):
        if str(ipaddress.ip_address(name)) in addresses:
            return ""
        if not addresses:
            return f"cannot validate certificate for {name} because it doesn't contain any IP SANs"
        return f"certificate is valid for {', '.join(addresses)}, not {name}"
    if any(_matches_host(pattern, name) for pattern in hosts):
        return ""
    common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if not (hosts or addresses) and any(_matches_host(str(each.value), name) for each in common):
        return "certificate relies on legacy Common Name field, use SANs instead"
    if not hosts:
        return f"certificate is not valid for any names, but wanted to match {name}"
    return f"certificate is valid for {', '.join(hosts)}, not {name}"


def is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _matches_host(pattern: str, host: str) -> bool:
    pattern, host = pattern.lower().rstrip("."), host.lower().rstrip(".")
    if pattern.startswith("*."):
        first, _, rest = host.partition(".")
        return bool(first) and rest == pattern[2:]
    return pattern == host
