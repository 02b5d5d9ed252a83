"""Warnings that depend on the request alone, not on an object."""

from __future__ import annotations

from typing import Final

from quarterdeck.apiserver.builtin.network.endpoints import ENDPOINTS_WARNING

#: deleting a Job without saying what becomes of its pods
JOB_DELETE_WARNING: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove "
    "them or set propagationPolicy=Orphan to suppress this warning"
)


_WARNINGS: Final = {
    "endpoints": ENDPOINTS_WARNING,
    "componentstatuses": "v1 ComponentStatus is deprecated in v1.19+",
}


def request_warning(group: str, resource: str) -> str:
    """The warning every request to a deprecated resource is answered with, or ""."""
    return _WARNINGS.get(resource, "") if not group else ""
