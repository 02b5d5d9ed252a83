"""What a self-made certificate consists of, and how long its parts last."""

from datetime import timedelta

import msgspec

from quarterdeck.runtime.certificate.pair import KeyPair


class Life(msgspec.Struct, frozen=True):
    """How long things last."""

    authority: timedelta = timedelta(days=3650)
    serving: timedelta = timedelta(days=365)
    overlap: timedelta = timedelta(hours=24)
    """How long the old authority stays in the bundle after the new one signed."""


class Material(msgspec.Struct, frozen=True):
    """What a Secret holds, as PEM."""

    bundle: bytes
    """``ca.crt``: authorities to trust, the signing one first."""
    authority_key: bytes
    """``ca.key``."""
    certificate: bytes
    """``tls.crt``."""
    key: bytes
    """``tls.key``."""

    @property
    def pair(self) -> KeyPair:
        """What a server needs."""
        return KeyPair(self.certificate, self.key)

    def __repr__(self) -> str:
        return "Material(withheld)"
