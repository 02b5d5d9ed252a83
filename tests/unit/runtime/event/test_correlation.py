"""How legacy events are counted, combined and held back, by the clock that is given."""

from __future__ import annotations

from typing import Any

from quarterdeck.api import ObjectMeta, value_or
from quarterdeck.api.k8s.core import Event
from quarterdeck.api.k8s.reference import ObjectReference
from quarterdeck.runtime.event.correlation import COMBINED, Correlated, Correlator
from quarterdeck.runtime.event.subject import EventNames


class Source:
    """Somebody who reports about one object, at a time that is set."""

    def __init__(self) -> None:
        self.now = 0.0
        self._names = EventNames()
        self._correlator = Correlator(now=lambda: self.now, make_name=self._name)

    def _name(self, subject: str) -> str:
        return self._names.make(subject, self.now)

    def say(self, message: str, reason: str = "Failed", name: str = "a", **fields: Any) -> Correlated | None:
        metadata = ObjectMeta(name=self._name(name), namespace="ns")
        subject = ObjectReference(kind="Gang", name=name, namespace="ns")
        event = Event(
            metadata=metadata, involved_object=subject, reason=reason, message=message, count=1, **fields
        )
        return self._correlator.correlate(event)

    def heard(self, message: str, **fields: Any) -> tuple[str, int, bool]:
        found = self.say(message, **fields)
        assert found is not None
        return found.event.message, value_or(found.event.count, 0), found.is_repeat


def test_the_same_again_is_counted_on_the_first() -> None:
    source = Source()
    first = source.say("no room")
    again = source.say("no room")
    assert first is not None
    assert again is not None
    assert again.event.metadata.name == first.event.metadata.name
    assert source.heard("no room") == ("no room", 3, True)
    assert source.heard("other") == ("other", 1, False)
    assert source.heard("no room", name="b") == ("no room", 1, False)
    assert source.heard("no room", reason="Other") == ("no room", 1, False)
    assert source.heard("no room", type="Warning") == ("no room", 1, False)


def test_from_the_tenth_message_on_they_are_one_event() -> None:
    source = Source()
    for index in range(9):
        assert source.heard(f"m{index}") == (f"m{index}", 1, False)
    assert source.heard("m9") == (f"{COMBINED}m9", 1, False)
    assert source.heard("m10") == (f"{COMBINED}m10", 2, True)
    assert source.heard("m3") == ("m3", 2, True), "the first nine are told by themselves"


def test_messages_are_combined_within_ten_minutes_of_each_other() -> None:
    source = Source()
    for index in range(10):
        source.say(f"m{index}")
    source.now += 600
    assert source.heard("m10")[0] == f"{COMBINED}m10"
    source.now += 601
    assert source.heard("m11")[0] == "m11"


def test_a_source_has_25_events_about_an_object_and_one_more_every_five_minutes() -> None:
    source = Source()
    said = [source.say("x") for _ in range(26)]
    assert [each is not None for each in said] == [True] * 25 + [False]
    assert source.say("x", name="other") is not None
    source.now += 299
    assert source.say("x") is None
    source.now += 2
    assert source.say("x") is not None
    assert source.say("x") is None
    source.now += 1_000_000
    assert sum(source.say("x") is not None for _ in range(30)) == 25


def test_names_are_the_nanosecond_and_never_the_same_twice() -> None:
    names = EventNames()
    assert names.make("a", 2.0) == "a.77359400"
    assert names.make("a", 2.0) == "a.77359401"
    assert names.make("a", 1.0) == "a.77359402"
    assert names.make("b", 3.0) == "b.b2d05e00"
