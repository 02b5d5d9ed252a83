"""Names these controllers go by on the wire."""

from __future__ import annotations

from typing import Final

FIELD_MANAGER: Final = "kube-controller-manager"
"""Owns what the controllers write, as the program does that runs them elsewhere."""
