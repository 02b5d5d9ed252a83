"""Warnings that depend on the request alone, not on an object."""

from __future__ import annotations

from typing import Final

from quarterdeck.apiserver.builtin.network.endpoints import ENDPOINTS_WARNING

_WARNINGS: Final = {
    "endpoints": ENDPOINTS_WARNING,
    "componentstatuses": "v1 ComponentStatus is deprecated in v1.19+",
}


def request_warning(group: str, resource: str) -> str:
    """The warning every request to a deprecated resource is answered with, or ""."""
    return _WARNINGS.get(resource, "") if not group else ""
