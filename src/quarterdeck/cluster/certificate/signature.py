"""A request becomes a certificate: pure, but for the serial number.

Names go over as they were asked for, extensions do not. Certificates begin five minutes in the past.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import ExtendedKeyUsageOID, ObjectIdentifier

from quarterdeck.errors import ReconcileError
from quarterdeck.wire.certificate import certificates_in, load_key, to_pem

_LIFE: Final = timedelta(days=365)
_SHORTEST: Final = timedelta(minutes=10)
_BACK: Final = timedelta(minutes=5)
_SHORT: Final = timedelta(hours=8)
"""A certificate that lives for less loses nothing of it to the date in the past."""
_KEY_USAGES: Final = {
    "signing": "digital_signature",
    "digital signature": "digital_signature",
    "content commitment": "content_commitment",
    "key encipherment": "key_encipherment",
    "key agreement": "key_agreement",
    "data encipherment": "data_encipherment",
    "cert sign": "key_cert_sign",
    "crl sign": "crl_sign",
    "encipher only": "encipher_only",
    "decipher only": "decipher_only",
}
_PURPOSES: Final = {
    "any": ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
    "code signing": ExtendedKeyUsageOID.CODE_SIGNING,
    "email protection": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "s/mime": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "ipsec end system": ObjectIdentifier("1.3.6.1.5.5.7.3.5"),
    "ipsec tunnel": ObjectIdentifier("1.3.6.1.5.5.7.3.6"),
    "ipsec user": ObjectIdentifier("1.3.6.1.5.5.7.3.7"),
    "timestamping": ExtendedKeyUsageOID.TIME_STAMPING,
    "ocsp signing": ExtendedKeyUsageOID.OCSP_SIGNING,
    "microsoft sgc": ObjectIdentifier("1.3.6.1.4.1.311.10.3.3"),
    "netscape sgc": ObjectIdentifier("2.16.840.1.113730.4.1"),
}


class Signer:
    """Signs with an authority."""

    def __init__(self, pem: bytes) -> None:
        """``pem`` has the authority's certificate and its key."""
        self._authority: Final = certificates_in(pem)[0]
        self._key: Final = load_key(pem)

    def sign(
        self,
        request: x509.CertificateSigningRequest,
        usages: Iterable[str],
        now: float,
        seconds: int | None = None,
    ) -> bytes:
        """The certificate (PEM), good for ``seconds`` or a year; raises ``ReconcileError`` if it cannot."""
        moment = datetime.fromtimestamp(int(now), UTC)
        life = _LIFE if seconds is None else min(max(timedelta(seconds=seconds), _SHORTEST), _LIFE)
        until = moment + (life if life < _SHORT else life - _BACK)
        until = min(until, self._authority.not_valid_after_utc)
        if moment >= until:
            raise ReconcileError(f"refusing to sign a certificate that expired in the past: NotAfter={until}")
        builder = (
            x509.CertificateBuilder()
            .subject_name(request.subject)
            .issuer_name(self._authority.subject)
            .public_key(request.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(moment - _BACK)
            .not_valid_after(until)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        )
        with suppress(x509.ExtensionNotFound):  # an authority whose key has no name is not named
            own = self._authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
            named = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)
            builder = builder.add_extension(named, critical=False)
        known = [_KEY_USAGES[each] for each in usages if each in _KEY_USAGES]
        purposes = list(dict.fromkeys(_PURPOSES[each] for each in usages if each in _PURPOSES))
        strange = [each for each in usages if each not in _KEY_USAGES and each not in _PURPOSES]
        if strange:
            raise ReconcileError(f"unrecognized usage values: [{' '.join(strange)}]")
        if known:
            flags = {name: name in known for name in set(_KEY_USAGES.values())}
            builder = builder.add_extension(x509.KeyUsage(**flags), critical=True)
        if purposes:
            builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        with suppress(x509.ExtensionNotFound):
            names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName)
            builder = builder.add_extension(names.value, critical=names.critical)
        return to_pem([builder.sign(self._key, hashes.SHA256())])
