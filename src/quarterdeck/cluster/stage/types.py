"""The kind ``Stage`` of ``kwok.x-k8s.io/v1alpha1``; its spec is read by ``rule``."""

from __future__ import annotations

from typing import Any

import msgspec

from quarterdeck.api import Resource

GROUP = "kwok.x-k8s.io"


class Stage(Resource, group=GROUP, version="v1alpha1", plural="stages", scope="Cluster"):
    """A staged change of a resource."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)
