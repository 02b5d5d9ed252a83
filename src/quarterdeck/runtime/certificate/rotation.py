"""When to renew what: the life of a self-signed authority and its serving certificate.

``next_material`` is the whole policy, pure: given what there is and the date, it returns what there should
be, or ``None`` when nothing is due. Replacing the authority takes three writes, so that at no moment a client
meets a certificate whose authority it does not know yet:

1. a new authority is put *before* the old one in the bundle; the serving certificate stays,
2. once the bundle is known everywhere, a serving certificate is signed by the new authority,
3. a while later the old authority leaves the bundle.

Which step is due follows from the material itself, so any replica can take the next one.
"""

from datetime import datetime
from typing import Final

import msgspec
from cryptography import x509

from quarterdeck.errors import ConfigError
from quarterdeck.runtime.certificate.material import Life, Material
from quarterdeck.wire.certificate import (
    certificates_in,
    dns_names_of,
    has_key,
    is_signed_by,
    issue,
    lifetime_used,
    make_authority,
    to_pem,
)

RENEW_AT: Final = 2 / 3
"""Share of its life after which something is renewed."""
URGENT: Final = 0.95
"""Share after which a certificate is replaced although its new authority is not known everywhere."""


def next_material(
    now_there: Material | None,
    *,
    name: str,
    dns_names: tuple[str, ...],
    now: datetime,
    is_published: bool,
    life: Life,
) -> Material | None:
    """What should replace ``now_there``; ``None`` while it is good.

    ``is_published`` says whether every client is known to trust the present bundle.
    """
    found = _read(now_there) if now_there is not None else None
    if now_there is None or found is None:
        return _fresh(name, dns_names, now, life)
    authorities, leaf = found
    alive = [each for each in authorities if lifetime_used(each, now) < 1]
    signer = alive[0] if alive and has_key(alive[0], now_there.authority_key) else None
    is_rotating = signer is not None and leaf is not None and not is_signed_by(leaf, signer)
    if signer is None or (lifetime_used(signer, now) >= RENEW_AT and not is_rotating):
        authority, key = make_authority(name, now=now, life=life.authority)
        renewed = msgspec.structs.replace(now_there, bundle=to_pem([authority, *alive]), authority_key=key)
        # Without a certificate worth keeping there is nothing to wait for.
        return renewed if leaf is not None else _sign(renewed, authority, dns_names, now, life)
    if leaf is None or not set(dns_names) <= set(dns_names_of(leaf)):
        return _sign(now_there, signer, dns_names, now, life)
    used = lifetime_used(leaf, now)
    if is_rotating:
        return _sign(now_there, signer, dns_names, now, life) if is_published or used >= URGENT else None
    if used >= RENEW_AT:
        return _sign(now_there, signer, dns_names, now, life)
    if len(authorities) > 1 and now - leaf.not_valid_before_utc >= life.overlap:
        return msgspec.structs.replace(now_there, bundle=to_pem([signer]))
    return None


def _read(material: Material) -> tuple[list[x509.Certificate], x509.Certificate | None] | None:
    """Authorities and serving certificate; ``None`` when there is no authority to go on with."""
    try:
        authorities = certificates_in(material.bundle)
    except ConfigError:
        return None
    try:
        leaf = certificates_in(material.certificate)[0]
    except ConfigError:
        return authorities, None
    trusted = has_key(leaf, material.key) and any(is_signed_by(leaf, each) for each in authorities)
    return authorities, leaf if trusted else None


def _fresh(name: str, dns_names: tuple[str, ...], now: datetime, life: Life) -> Material:
    authority, key = make_authority(name, now=now, life=life.authority)
    return _sign(Material(to_pem([authority]), key, b"", b""), authority, dns_names, now, life)


def _sign(
    material: Material, authority: x509.Certificate, dns_names: tuple[str, ...], now: datetime, life: Life
) -> Material:
    certificate, key = issue(authority, material.authority_key, dns_names, now=now, life=life.serving)
    return msgspec.structs.replace(material, certificate=certificate, key=key)
