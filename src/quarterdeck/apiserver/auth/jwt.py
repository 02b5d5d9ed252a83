"""Signed tokens: compact JWS with ES256 (P-256) or RS256 (RSA), nothing else.

The algorithm follows from the key, never from the token, so a token cannot choose a weaker one. What the
claims mean is decided in `serviceaccount`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from quarterdeck.errors import QuarterdeckError

_COORDINATE: Final = 32  # bytes of each half of a P-256 signature
_URL_ALPHABET: Final = str.maketrans("-_", "+/", "+/=")

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey


class TokenError(QuarterdeckError):
    """A token that is not accepted. The text never contains the token."""


class Header(msgspec.Struct, frozen=True):
    alg: str = ""
    kid: str = ""
    crit: list[str] | None = None


class Token(msgspec.Struct, frozen=True):
    """A token taken apart; nothing in it is trusted before `VerificationKey.verify`."""

    header: Header
    payload: bytes
    signed: bytes
    signature: bytes

    def __repr__(self) -> str:
        return f"Token(kid={self.header.kid!r})"


class VerificationKey:
    """A public key that tokens may be signed with."""

    def __init__(self, key: PublicKey) -> None:
        if isinstance(key, ec.EllipticCurvePublicKey) and not isinstance(key.curve, ec.SECP256R1):
            raise ValueError(f"a token key must be on curve P-256 or RSA, not on {key.curve.name}")
        self._key = key
        self.algorithm = "ES256" if isinstance(key, ec.EllipticCurvePublicKey) else "RS256"
        der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.key_id = _encode(hashlib.sha256(der).digest())

    def verify(self, token: Token) -> None:
        """Raise TokenError unless this key signed the token."""
        try:
            if token.header.alg != self.algorithm or token.header.crit:
                raise InvalidSignature
            if isinstance(self._key, rsa.RSAPublicKey):
                self._key.verify(token.signature, token.signed, padding.PKCS1v15(), hashes.SHA256())
                return
            if len(token.signature) != 2 * _COORDINATE:
                raise InvalidSignature
            halves = (token.signature[:_COORDINATE], token.signature[_COORDINATE:])
            der = encode_dss_signature(*(int.from_bytes(half, "big") for half in halves))
            self._key.verify(der, token.signed, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            raise TokenError("invalid signature") from None

    def to_jwk(self) -> dict[str, str]:
        """The key as a JSON Web Key."""
        numbers = self._key.public_numbers()
        made = {"use": "sig", "kid": self.key_id, "alg": self.algorithm}
        if isinstance(numbers, rsa.RSAPublicNumbers):
            return {**made, "kty": "RSA", "n": _encode_number(numbers.n), "e": _encode_number(numbers.e)}
        halves = {
            name: _encode(half.to_bytes(_COORDINATE, "big"))
            for name, half in (("x", numbers.x), ("y", numbers.y))
        }
        return {**made, "kty": "EC", "crv": "P-256", **halves}

    def __repr__(self) -> str:
        return f"VerificationKey({self.algorithm}, {self.key_id})"


class SigningKey:
    """A private key; `public` is the key that verifies what it signs."""

    def __init__(self, key: PrivateKey) -> None:
        self._key = key
        self.public = VerificationKey(key.public_key())
        self._header = _encode(msgspec.json.encode({"alg": self.public.algorithm, "kid": self.public.key_id}))

    @classmethod
    def generate(cls) -> SigningKey:
        return cls(ec.generate_private_key(ec.SECP256R1()))

    @classmethod
    def from_pem(cls, pem: bytes) -> SigningKey:
        """Raises ValueError for anything but an unencrypted P-256 or RSA private key."""
        key = serialization.load_pem_private_key(pem, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
            raise ValueError("a token key must be on curve P-256 or RSA")
        return cls(key)

    def to_pem(self) -> bytes:
        return self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def sign(self, claims: Mapping[str, Any]) -> str:
        """The compact token for `claims`, keys sorted as upstream's encoder does."""
        signed = f"{self._header}.{_encode(msgspec.json.encode(claims, order='sorted'))}"
        if isinstance(self._key, rsa.RSAPrivateKey):
            signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        else:
            pair = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
            signature = b"".join(half.to_bytes(_COORDINATE, "big") for half in pair)
        return f"{signed}.{_encode(signature)}"

    def __repr__(self) -> str:
        return f"SigningKey({self.public.algorithm}, {self.public.key_id})"


def parse(text: str) -> Token | None:
    """Take a compact token apart; None when `text` is not one."""
    parts = text.split(".")
    if len(parts) != 3:
        return None
    try:
        header, payload, signature = (_decode(part) for part in parts)
        return Token(
            header=msgspec.json.decode(header, type=Header),
            payload=payload,
            signed=f"{parts[0]}.{parts[1]}".encode("ascii"),
            signature=signature,
        )
    except ValueError:  # base64, UTF-8, JSON and type errors alike
        return None


def _encode_number(number: int) -> str:
    return _encode(number.to_bytes((number.bit_length() + 7) // 8, "big"))


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    padded = text.translate(_URL_ALPHABET) + "=" * (-len(text) % 4)
    if any(char in text for char in "+/="):
        raise binascii.Error("not base64url")
    return base64.b64decode(padded, validate=True)
