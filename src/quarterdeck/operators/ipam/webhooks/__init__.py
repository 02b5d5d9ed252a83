"""Admission."""

from .admission import IpamGuard

__all__ = ["IpamGuard"]
