"""Hashes that become part of names: they must be those of Kubernetes, or every pod would be replaced.

The hash of a pod template is FNV-1a over the text in which Go dumps it (``godump``).
"""

from __future__ import annotations

from typing import Final

from quarterdeck.api import to_dict
from quarterdeck.api.k8s import PodTemplateSpec
from quarterdeck.cluster.podset.godump import dump

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels and nothing that looks like one: no words come out."""
_PRIME: Final = 16777619
_OFFSET: Final = 2166136261
_MASK: Final = 0xFFFFFFFF
_PRIME_128: Final = 0x1000000000000000000013B
_OFFSET_128: Final = 0x6C62272E07BB014262B821756295C58D
_MASK_128: Final = (1 << 128) - 1


def fnv32a(data: bytes, value: int = _OFFSET) -> int:
    """FNV-1a of 32 bits; ``value`` goes on from an earlier part."""
    for byte in data:
        value = ((value ^ byte) * _PRIME) & _MASK
    return value


def fnv32(data: bytes, value: int = _OFFSET) -> int:
    """FNV-1 of 32 bits."""
    for byte in data:
        value = ((value * _PRIME) & _MASK) ^ byte
    return value


def fnv128a(data: bytes) -> int:
    """FNV-1a of 128 bits."""
    value = _OFFSET_128
    for byte in data:
        value = ((value ^ byte) * _PRIME_128) & _MASK_128
    return value


def safe_encode(text: str) -> str:
    """A text with characters that are safe in names: each is replaced by one of 27."""
    return "".join(_ALPHABET[ord(character) % len(_ALPHABET)] for character in text)


def template_hash(template: PodTemplateSpec, collision_count: int | None = None) -> str:
    """What the label ``pod-template-hash`` says; ``collision_count`` of a Deployment that met a collision."""
    value = fnv32a(dump("v1.PodTemplateSpec", to_dict(template)).encode())
    if collision_count is not None:
        value = fnv32a((collision_count & _MASK).to_bytes(8, "little"), value)
    return safe_encode(str(value))
