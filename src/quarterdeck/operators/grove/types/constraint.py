"""Where pods should be near each other, as users say it: in names of topology domains."""

from __future__ import annotations

from typing import Annotated, Final

from quarterdeck.api import UNSET, Maybe, Model, omitempty
from quarterdeck.api.marker import Cel, Len, Pattern
from quarterdeck.operators.grove import names

DOMAIN: Final = (Len(1, 63), Pattern(names.DOMAIN_PATTERN))


class Pack(
    Model,
    rules=[
        Cel(
            "has(self.required) || has(self.preferred)",
            message="pack must specify at least one of required or preferred",
            reason="FieldValueRequired",
        )
    ],
):
    """How near: what is required, and what is preferred."""

    required: Annotated[Maybe[str], *DOMAIN] = UNSET
    """Domain that must hold all pods; if none has the capacity, they do not start."""
    preferred: Annotated[Maybe[str], *DOMAIN] = UNSET
    """Domain to try first."""


class TopologyConstraint(
    Model,
    rules=[
        Cel(
            "has(self.pack) || has(self.packDomain)",
            message="topologyConstraint must specify pack or deprecated packDomain",
            reason="FieldValueRequired",
            field_path=".pack",
        ),
        Cel(
            "!has(self.packDomain) || !has(self.pack) || !has(self.pack.required)",
            message="must not set both pack.required and deprecated packDomain",
            reason="FieldValueInvalid",
            field_path=".pack.required",
        ),
    ],
):
    """Where pods should be near each other."""

    topology_name: str = omitempty("")
    """Name of a ClusterTopologyBinding; inherited from the group or the set where it is not given."""
    pack: Maybe[Pack] = UNSET
    pack_domain: Annotated[Maybe[str], *DOMAIN] = UNSET
    """Deprecated: the same as ``pack.required``."""

    @property
    def required(self) -> str:
        """The domain that must hold all pods, whichever way it is written; empty for none."""
        return self.pack_domain or (self.pack.required or "" if self.pack else "")

    @property
    def preferred(self) -> str:
        """The domain to try first; empty for none."""
        return self.pack.preferred or "" if self.pack else ""
