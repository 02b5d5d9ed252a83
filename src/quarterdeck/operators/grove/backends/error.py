"""What can go wrong with backends."""

from __future__ import annotations

from quarterdeck.errors import QuarterdeckError


class BackendError(QuarterdeckError):
    """A backend is not there, does not start, or does what it may not."""


class BackendAlreadyRegistered(BackendError):
    """The name is taken."""

    def __init__(self, name: str) -> None:
        super().__init__(f'scheduler backend "{name}" is already registered')


class BackendNotFound(BackendError):
    """Nobody registered that name."""

    def __init__(self, name: str) -> None:
        super().__init__(f'scheduler backend "{name}" is not registered')


class BackendViolation(BackendError):
    """A backend changed what is not its own."""
