"""Points in time as Kubernetes writes them.

``Time`` has whole seconds (``2006-01-02T15:04:05Z``), ``MicroTime`` six digits
(``2006-01-02T15:04:05.000000Z``). Both keep the text they were read from and write it back while
untouched, whatever zone or precision it had; parsing is lazy. Equality and order are by instant.

Nothing here reads a clock: ``Time.of(datetime)`` is given one.
"""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, ClassVar, Self, TypeAlias, overload

from msgspec import UnsetType

from quarterdeck.api.marker import Nullable


class Time:
    """An instant with whole seconds (metav1.Time).

    >>> Time("2024-05-01T10:00:00Z") < Time("2024-05-01T12:00:01+02:00")
    True
    """

    __slots__ = ("_text", "_value")

    _text: str | None
    _value: datetime | None
    _digits: ClassVar[int] = 0

    def __init__(self, text: str) -> None:
        self._text = text
        self._value = None

    @classmethod
    def of(cls, moment: datetime) -> Self:
        """An instant from a ``datetime``; a naive one is taken as UTC."""
        made = cls.__new__(cls)
        made._text = None
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        made._value = cls._precise(aware.astimezone(UTC))
        return made

    @classmethod
    def of_timestamp(cls, seconds: float) -> Self:
        """An instant from seconds since 1970."""
        return cls.of(datetime.fromtimestamp(seconds, UTC))

    @classmethod
    def _precise(cls, moment: datetime) -> datetime:
        return moment if cls._digits else moment.replace(microsecond=0)

    @classmethod
    def from_wire(cls, value: Any) -> Self:
        """Read a JSON string; the text is checked when it is first used."""
        if type(value) is not str:
            raise ValueError("Expected a time such as `2006-01-02T15:04:05Z`")
        made = cls.__new__(cls)
        made._text = value
        made._value = None
        return made

    def to_wire(self) -> str:
        """The original text if untouched, else the canonical UTC form."""
        return self._text if self._text is not None else str(self)

    @property
    def datetime(self) -> datetime:
        """The instant, always with a time zone; raises ``ValueError`` for text that is no RFC 3339 time."""
        if self._value is None:
            text = self._text or ""
            if len(text) < 20 or text[10] not in "Tt":
                raise ValueError(f"not an RFC 3339 time: {text!r}")
            moment = datetime.fromisoformat(text)
            if moment.tzinfo is None:
                raise ValueError(f"not an RFC 3339 time: {text!r}")
            self._value = moment
        return self._value

    def timestamp(self) -> float:
        """Seconds since 1970."""
        return self.datetime.timestamp()

    def __str__(self) -> str:
        if self._text is not None:
            return self._text
        moment = self.datetime.astimezone(UTC)
        fraction = f".{moment.microsecond:06d}" if self._digits else ""
        return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __hash__(self) -> int:
        return hash(self.datetime)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Time):
            return NotImplemented
        if self._text is not None and self._text == other._text:
            return True
        try:
            return self.datetime == other.datetime
        except ValueError:
            return False

    def __lt__(self, other: "Time") -> bool:
        return self.datetime < other.datetime

    def __le__(self, other: "Time") -> bool:
        return self.datetime <= other.datetime

    def __gt__(self, other: "Time") -> bool:
        return self.datetime > other.datetime

    def __ge__(self, other: "Time") -> bool:
        return self.datetime >= other.datetime

    def __add__(self, span: timedelta) -> Self:
        return type(self).of(self.datetime + span)

    @overload
    def __sub__(self, other: "Time") -> timedelta: ...
    @overload
    def __sub__(self, other: timedelta) -> Self: ...
    def __sub__(self, other: "Time | timedelta") -> "timedelta | Time":
        if isinstance(other, Time):
            return self.datetime - other.datetime
        return type(self).of(self.datetime - other)


class MicroTime(Time):
    """An instant with six digits after the second (metav1.MicroTime): leases and events."""

    __slots__ = ()
    _digits: ClassVar[int] = 6


OptionalTime: TypeAlias = Annotated[Time | UnsetType | None, Nullable(False)]
"""A time that Go servers write as ``null`` while it is zero; the schema does not allow null."""

OptionalMicroTime: TypeAlias = Annotated[MicroTime | UnsetType | None, Nullable(False)]
"""The same with six digits."""
