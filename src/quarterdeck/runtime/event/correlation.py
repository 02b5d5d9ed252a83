"""How legacy (core/v1) events are kept from flooding the server: filter, aggregate, count.

The numbers and rules are client-go's (``tools/record``):

- *count*: the same event again only raises ``count`` on the first one,
- *aggregate*: from the tenth different message about one reason on, all of them become one event whose
  message begins with ``(combined from similar events): ``, as long as they come within ten minutes of each
  other,
- *filter*: a source may send 25 events about an object at once, then one every five minutes.

Each keeps 4096 keys, the least recently used leave first. Pure: events in, decisions out, the clock is given.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from quarterdeck.api import Time, value_or
from quarterdeck.api.k8s.core import Event

MAX_KEYS: Final = 4096
AGGREGATE_FROM: Final = 10
AGGREGATE_SECONDS: Final = 600.0
SPAM_BURST: Final = 25
SPAM_REFILL: Final = 1 / 300
COMBINED: Final = "(combined from similar events): "

V = TypeVar("V")
Parts = tuple[str, ...]


class Correlated(msgspec.Struct, frozen=True):
    """What to write."""

    event: Event
    """The event to create, or the one to patch by its name."""
    is_repeat: bool
    """Whether the event was written before: then only count, time and message change."""


class Correlator:
    """Decides what becomes of each event of a process."""

    def __init__(self, *, now: Callable[[], float], make_name: Callable[[str], str]) -> None:
        """``now`` is the date in seconds; ``make_name`` names an event after its object."""
        self._now: Final = now
        self._make_name: Final = make_name
        self._groups: Final[_Recent[_Group]] = _Recent()
        self._written: Final[_Recent[_Written]] = _Recent()
        self._buckets: Final[_Recent[_Bucket]] = _Recent()

    def correlate(self, event: Event) -> Correlated | None:
        """What to write for an event; ``None`` when the source has said too much about the object."""
        now = self._now()
        event, key = self._aggregate(event, now)
        known = self._written.get(key)
        if known is not None:
            event = event.evolve(
                metadata=event.metadata.evolve(name=known.name),
                first_timestamp=known.first_timestamp,
                count=known.times + 1,
            )
        count = value_or(event.count, 0)
        self._written.put(key, _Written(event.metadata.name, event.first_timestamp, count))
        if not self._is_allowed(event, now):
            return None
        return Correlated(event, is_repeat=known is not None)

    def _aggregate(self, event: Event, now: float) -> tuple[Event, Parts]:
        key = (*_source(event), event.reason, event.reporting_component, event.reporting_instance)
        group = self._groups.get(key)
        if group is None or now - group.last > AGGREGATE_SECONDS:
            group = _Group()
            self._groups.put(key, group)
        group.last = now
        if group.takes(event.message):
            return event, (*_source(event), event.involved_object.field_path, event.reason, event.message)
        time = Time.of_timestamp(now)
        combined = event.evolve(
            metadata=event.metadata.evolve(name=self._make_name(event.involved_object.name)),
            message=f"{COMBINED}{event.message}",
            first_timestamp=time,
            last_timestamp=time,
            count=1,
        )
        return combined, key

    def _is_allowed(self, event: Event, now: float) -> bool:
        key = _source(event)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = _Bucket(now)
            self._buckets.put(key, bucket)
        return bucket.take(now)


def _source(event: Event) -> Parts:
    subject = event.involved_object
    return (
        event.source.component,
        event.source.host,
        subject.kind,
        subject.namespace,
        subject.name,
        subject.uid,
        subject.api_version,
        event.type,
    )


class _Written(NamedTuple):
    """What is needed of an event to write its repetition."""

    name: str
    first_timestamp: Time | msgspec.UnsetType | None
    times: int


class _Group:
    """Messages about one reason."""

    __slots__ = ("last", "messages")

    def __init__(self) -> None:
        self.messages: tuple[str, ...] = ()
        self.last = 0.0

    def takes(self, message: str) -> bool:
        """Whether there are still few enough for this one to be told by itself."""
        if message in self.messages:
            return True
        if len(self.messages) + 1 >= AGGREGATE_FROM:
            return False
        self.messages += (message,)
        return True


class _Bucket:
    """Tokens of one source about one object."""

    __slots__ = ("_at", "_tokens")

    def __init__(self, now: float) -> None:
        self._tokens = float(SPAM_BURST)
        self._at = now

    def take(self, now: float) -> bool:
        self._tokens = min(SPAM_BURST, self._tokens + (now - self._at) * SPAM_REFILL)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class _Recent(Generic[V]):
    """The most recently used entries."""

    def __init__(self) -> None:
        self._entries: Final[OrderedDict[Parts, V]] = OrderedDict()

    def get(self, key: Parts) -> V | None:
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

    def put(self, key: Parts, value: V) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > MAX_KEYS:
            self._entries.popitem(last=False)
