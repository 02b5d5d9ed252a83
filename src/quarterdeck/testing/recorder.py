"""A recorder that keeps events instead of writing them to a cluster."""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from quarterdeck.api import Writable


class LoggedEvent(msgspec.Struct, frozen=True):
    """One event as its author recorded it."""

    regarding: Writable
    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str
    related: Writable | None = None
    annotations: Mapping[str, str] = {}

    def __str__(self) -> str:
        return f"{self.type} {self.reason} {self.note}"


class EventLog:
    """Remembers events in order; a ``Recorder`` for managers under test."""

    def __init__(self) -> None:
        self.events: Final[list[LoggedEvent]] = []

    def event(
        self,
        regarding: Writable,
        type: Literal["Normal", "Warning"],
        reason: str,
        action: str,
        note: str,
        *,
        related: Writable | None = None,
        annotations: Mapping[str, str] | None = None,
        field_path: str = "",
        host: str = "",
    ) -> None:
        """Keep an event."""
        self.events.append(LoggedEvent(regarding, type, reason, action, note, related, annotations or {}))

    @property
    def reasons(self) -> list[str]:
        """The reasons, in order."""
        return [event.reason for event in self.events]

    def about(self, name: str) -> list[str]:
        """The events about the object of a name, as ``Warning Reason note``."""
        return [str(event) for event in self.events if event.regarding.metadata.name == name]
