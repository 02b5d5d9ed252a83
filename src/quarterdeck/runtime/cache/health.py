"""How an informer is doing, in words that readiness checks, metrics and logs share."""

from enum import Enum

import msgspec


class HealthState(Enum):
    """The states a list/watch can be in; only ``WATCHING`` is good."""

    STARTING = "Starting"
    """The first list has not been completed."""
    WATCHING = "Watching"
    """A stream is open, or is being reopened in the normal course of things."""
    RETRYING = "Retrying"
    """The server cannot be reached or answers with errors."""
    UNAUTHORIZED = "Unauthorized"
    """The server does not accept our credentials."""
    FORBIDDEN = "Forbidden"
    """A permission is missing; ``verb`` and ``resource`` name it."""
    KIND_MISSING = "KindMissing"
    """The server does not know the kind (any more): its CRD is not installed."""


class Health(msgspec.Struct, frozen=True):
    """State of one list/watch."""

    state: HealthState
    verb: str = ""
    """The verb that was refused or failed: list or watch."""
    resource: str = ""
    """``pods``, ``widgets.example.com``."""
    message: str = ""
    """What the server or the connection said."""
    since: float = 0.0
    """Loop time at which the state was entered."""

    @property
    def is_good(self) -> bool:
        """Whether events can be expected to arrive."""
        return self.state is HealthState.WATCHING

    @property
    def is_blocked(self) -> bool:
        """Whether somebody has to act: grant a permission, install a CRD, fix credentials."""
        return self.state in (HealthState.FORBIDDEN, HealthState.KIND_MISSING, HealthState.UNAUTHORIZED)

    def __str__(self) -> str:
        parts = [self.state.value]
        if self.verb:
            parts.append(f"cannot {self.verb} {self.resource}")
        if self.message:
            parts.append(self.message)
        return ": ".join(parts)
