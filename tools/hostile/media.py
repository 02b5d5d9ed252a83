"""Content types and paths that several generators use."""

from __future__ import annotations

from typing import Final

LIMIT: Final = 3 * 1024 * 1024
JSON: Final = (("Accept", "application/json"), ("Content-Type", "application/json"))
CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PATCHES: Final = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)


def headers(content_type: str, accept: str = "application/json") -> tuple[tuple[str, str], ...]:
    return (("Accept", accept), ("Content-Type", content_type))
