"""What controllers say about their objects.

Each controller has an ``EventRecorder``, made by the ``EventBroadcaster`` that writes for all of them. A
recorder checks what it is told, makes an event of it and hands it over; it never waits.
"""

import enum
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

from quarterdeck.api import ObjectMeta, Time, Writable
from quarterdeck.api.instant import MicroTime
from quarterdeck.api.k8s import core, events
from quarterdeck.api.k8s.core import EventSource
from quarterdeck.api.k8s.reference import ObjectReference
from quarterdeck.runtime.event.subject import namespace_of, reference_to

if TYPE_CHECKING:
    from quarterdeck.runtime.event.broadcaster import EventBroadcaster

MAX_NOTE: Final = 1024

EventType = Literal["Normal", "Warning"]


class EventRecorder:
    """Records the events of one controller; the ``Recorder`` of ``quarterdeck.runtime.contract``."""

    def __init__(
        self, broadcaster: "EventBroadcaster", controller: str, reasons: type[enum.Enum] | None
    ) -> None:
        self._broadcaster: Final = broadcaster
        self._controller: Final = controller
        self._instance: Final = f"{controller}-{broadcaster.host}"
        self._reasons: Final = (
            frozenset(str(member.value) for member in reasons) if reasons is not None else None
        )

    @property
    def has_room(self) -> bool:
        """Whether there is room to spare; the last half is for those who cannot wait."""
        return self._broadcaster.has_room

    def event(
        self,
        regarding: Writable,
        type: EventType,
        reason: str | enum.Enum,
        action: str,
        note: str,
        *,
        related: Writable | None = None,
        annotations: Mapping[str, str] | None = None,
        field_path: str = "",
        host: str = "",
    ) -> None:
        """Queue an event about an object; ``reason`` is short and fixed, ``note`` says the rest.

        ``field_path`` names the part of the object that it is about; ``host`` who saw it, if not this one.

        Raises ``ValueError`` for a type or reason that does not exist; never for lack of room.
        """
        if type not in ("Normal", "Warning"):
            raise ValueError(f'unsupported event type "{type}": it must be Normal or Warning')
        text = str(reason.value) if isinstance(reason, enum.Enum) else reason
        if self._reasons is not None and text not in self._reasons:
            raise ValueError(f'"{text}" is not among the declared event reasons of {self._controller}')
        owner = self._broadcaster
        subject = reference_to(regarding)
        if field_path:
            subject = subject.evolve(field_path=field_path)
        metadata = ObjectMeta(
            name=owner.name_for(subject.name),
            namespace=namespace_of(subject),
            annotations=dict(annotations or {}),
        )
        if owner.api != "events.k8s.io":
            made_there = host or owner.host
            owner.put(self._legacy(metadata, subject, made_there, type, text, action, note, related))
            return
        made = events.Event(
            metadata=metadata,
            event_time=MicroTime.of_timestamp(owner.now()),
            reporting_controller=self._controller,
            reporting_instance=host or self._instance,
            action=action,
            reason=text,
            regarding=subject,
            note=_cut(note),
            type=type,
        )
        owner.put(made.evolve(related=reference_to(related)) if related is not None else made)

    def _legacy(
        self,
        metadata: ObjectMeta,
        subject: ObjectReference,
        host: str,
        type: EventType,
        reason: str,
        action: str,
        note: str,
        related: Writable | None,
    ) -> core.Event:
        owner = self._broadcaster
        time = Time.of_timestamp(owner.now())
        made = core.Event(
            metadata=metadata,
            involved_object=subject,
            reason=reason,
            message=_cut(note),
            action=action,
            source=EventSource(component=self._controller, host=host),
            reporting_component=self._controller,
            reporting_instance=host,
            first_timestamp=time,
            last_timestamp=time,
            count=1,
            type=type,
        )
        return made.evolve(related=reference_to(related)) if related is not None else made


def _cut(note: str) -> str:
    """Notes beyond a limit are refused by the server; the beginning says most."""
    return note if len(note) <= MAX_NOTE else f"{note[: MAX_NOTE - 3]}..."
