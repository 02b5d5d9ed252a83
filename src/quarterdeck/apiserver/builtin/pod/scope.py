"""What the containers of one pod share during validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quarterdeck.api.jsonobject import Json

from .claim import ClaimNames


class ContainerScope:
    """What the containers of one pod spec share during validation."""

    __slots__ = ("claim_names", "grace_period", "host_users", "restart_policy", "volumes")

    def __init__(self, spec: Mapping[str, Any], volumes: Mapping[str, Json]) -> None:
        self.volumes = volumes
        self.restart_policy: str = spec.get("restartPolicy") or ""
        self.grace_period: int | None = spec.get("terminationGracePeriodSeconds")
        self.host_users: bool = spec.get("hostUsers") is not False
        claims = spec.get("resourceClaims")
        self.claim_names = ClaimNames(claim.get("name") or "" for claim in claims or ())
