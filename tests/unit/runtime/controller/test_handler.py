"""Which keys an event becomes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quarterdeck.api import Key
from quarterdeck.runtime.cache.entry import Entry, EntryFactory
from quarterdeck.runtime.cache.store import Change, Delta
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.handler import mapped

_factory = EntryFactory()


def entry(version: str) -> Entry:
    metadata = {"name": "n", "namespace": "ns", "uid": "u", "resourceVersion": version}
    return _factory.make(json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).encode())


ONE, TWO = entry("1"), entry("2")


@pytest.mark.parametrize(
    ("old", "new", "seen"),
    [(None, ONE, ["1"]), (ONE, None, ["1"]), (ONE, ONE, ["1"]), (ONE, TWO, ["2", "1"])],
    ids=["created", "deleted", "resync", "changed"],
)
def test_a_function_is_asked_once_for_each_state_of_an_object(
    old: Entry | None, new: Entry | None, seen: list[str]
) -> None:
    asked: list[str] = []

    def to(context: Any, version: str) -> list[Key]:
        asked.append(version)
        return [Key("ns", version)]

    change = Change.UPDATED if old and new else Change.ADDED if new else Change.DELETED
    event = ObjectEvent(Delta(change, old, new), lambda each: each.resource_version)
    context: Any = None
    keys: Any = mapped(to).keys(event, context)
    assert asked == seen
    assert sorted(key.name for key in keys) == sorted(seen)
