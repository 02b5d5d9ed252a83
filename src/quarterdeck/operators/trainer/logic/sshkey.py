"""Key pairs for the SSH of MPI."""

from __future__ import annotations

import hashlib

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from quarterdeck.operators.trainer import names

__all__ = ["digest", "generate"]


def generate() -> dict[str, bytes]:
    """A new ECDSA P-521 pair: the private key as PEM, the public one as a line of authorized_keys."""
    key = ec.generate_private_key(ec.SECP521R1())
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return {names.SSH_PRIVATE_KEY: private, names.SSH_PUBLIC_KEY: public + b"\n"}


def digest(public_key: bytes) -> str:
    """What a public key is recognized by."""
    return hashlib.sha256(public_key).hexdigest()
