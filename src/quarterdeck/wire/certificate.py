"""Making certificates: an authority of our own and what it signs.

Pure functions of their arguments and of the system's randomness: the date is given, nothing is stored. Keys
are ECDSA P-256: a handshake costs a fraction of RSA's.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from quarterdeck.errors import ConfigError

SKEW: Final = timedelta(minutes=5)
"""Certificates begin a little in the past: clocks differ."""
NAME_LIMIT: Final = 64
"""X.520's bound on common names and organizations."""
_PEM: Final = serialization.Encoding.PEM


def make_authority(
    name: str, *, now: datetime, life: timedelta, key: bytes | None = None
) -> tuple[x509.Certificate, bytes]:
    """A self-signed authority and its key as PEM; with ``key`` one that is known goes on under a new date."""
    signer = load_key(key) if key is not None else ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        _begin(subject, subject, signer.public_key(), now, now + life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(is_authority=True), critical=True)
        .sign(signer, hashes.SHA256())
    )
    return certificate, key_pem(signer)


def issue(
    authority: x509.Certificate,
    authority_key: bytes,
    names: Sequence[str],
    *,
    now: datetime,
    life: timedelta,
    common_name: str = "",
) -> tuple[bytes, bytes]:
    """A serving certificate for DNS names and addresses, and its key, both as PEM."""
    # Names of services may exceed the 64 characters of a common name; the alternative names count anyway.
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name or names[0][:NAME_LIMIT])])
    return _issue(authority, authority_key, subject, names, ExtendedKeyUsageOID.SERVER_AUTH, now, life)


def issue_client(
    authority: x509.Certificate, authority_key: bytes, subject: x509.Name, *, now: datetime, life: timedelta
) -> tuple[bytes, bytes]:
    """A client certificate for whom the subject names, and its key, both as PEM."""
    return _issue(authority, authority_key, subject, (), ExtendedKeyUsageOID.CLIENT_AUTH, now, life)


def _issue(
    authority: x509.Certificate,
    authority_key: bytes,
    subject: x509.Name,
    names: Sequence[str],
    purpose: x509.ObjectIdentifier,
    now: datetime,
    life: timedelta,
) -> tuple[bytes, bytes]:
    """What is issued does not outlive its authority."""
    signer = load_key(authority_key)
    key = ec.generate_private_key(ec.SECP256R1())
    until = min(now + life, authority.not_valid_after_utc)
    builder = (
        _begin(subject, authority.subject, key.public_key(), now, until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(is_authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    if names:
        alternatives = x509.SubjectAlternativeName([alternative_name(name) for name in names])
        builder = builder.add_extension(alternatives, critical=False)
    return to_pem([builder.sign(signer, hashes.SHA256())]), key_pem(key)


def certificates_in(pem: bytes) -> list[x509.Certificate]:
    """The certificates of a PEM text; raises ``ConfigError`` when there are none."""
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise ConfigError(f"not a PEM certificate: {error}") from error


def expiry_of(pem: bytes) -> float:
    """When the first certificate of a PEM text expires, as a Unix time; raises ``ConfigError``."""
    return certificates_in(pem)[0].not_valid_after_utc.timestamp()


def to_pem(certificates: Sequence[x509.Certificate]) -> bytes:
    """Certificates as one PEM text."""
    return b"".join(certificate.public_bytes(_PEM) for certificate in certificates)


def has_key(certificate: x509.Certificate, key: bytes) -> bool:
    """Whether a key (PEM) belongs to a certificate."""
    try:
        return load_key(key).public_key() == certificate.public_key()
    except ConfigError:
        return False


def is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether an authority signed a certificate; its dates are not looked at."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def dns_names_of(certificate: x509.Certificate) -> list[str]:
    """The names a certificate is for, addresses last."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    addresses = extension.value.get_values_for_type(x509.IPAddress)
    return [*extension.value.get_values_for_type(x509.DNSName), *map(str, addresses)]


def lifetime_used(certificate: x509.Certificate, now: datetime) -> float:
    """How much of its life a certificate has behind it: 0 at the beginning, 1 or more when expired."""
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return (now - start) / (end - start)


def _begin(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def alternative_name(name: str) -> x509.GeneralName:
    """A DNS name or an address as certificates hold it."""
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A private key as PEM, not encrypted."""
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """A private key; raises ``ConfigError`` for anything else."""
    try:
        key = serialization.load_pem_private_key(pem, None)
    except (ValueError, TypeError) as error:
        raise ConfigError("not a PEM private key") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError("the key is not an elliptic curve key")
    return key
