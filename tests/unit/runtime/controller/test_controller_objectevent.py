"""One change of one object: which state it shows, and when nothing has changed."""

from __future__ import annotations

import json

import pytest

from quarterdeck.api import Key, ObjectMeta
from quarterdeck.api.k8s import ConfigMap
from quarterdeck.runtime.cache.entry import Entry, EntryFactory
from quarterdeck.runtime.cache.store import Change, Delta
from quarterdeck.runtime.controller.change import ObjectEvent, generic_event

_factory = EntryFactory()


def entry(version: str) -> Entry:
    metadata = {"name": "n", "namespace": "ns", "uid": "u", "resourceVersion": version}
    return _factory.make(json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).encode())


def event(old: Entry | None, new: Entry | None, change: Change = Change.UPDATED) -> ObjectEvent[str]:
    return ObjectEvent(
        Delta(change, old, new), lambda each: f"object at {each.resource_version}", cluster="c"
    )


def test_an_update_without_another_version_is_a_resync() -> None:
    assert event(entry("1"), entry("1")).is_resync


@pytest.mark.parametrize(
    ("old", "new"),
    [(entry("1"), entry("2")), (None, entry("1")), (entry("1"), None)],
    ids=["another version", "created", "deleted"],
)
def test_a_change_is_no_resync(old: Entry | None, new: Entry | None) -> None:
    assert not event(old, new).is_resync


def test_the_newest_state_is_shown() -> None:
    changed = event(entry("1"), entry("2"))
    assert (changed.object, changed.old_object) == ("object at 2", "object at 1")
    assert changed.entry.resource_version == "2"


def test_a_deletion_shows_the_last_state() -> None:
    deleted = event(entry("1"), None, Change.DELETED)
    assert (deleted.object, deleted.old_object) == ("object at 1", "object at 1")


def test_a_creation_has_no_state_before() -> None:
    created = event(None, entry("1"), Change.ADDED)
    assert (created.object, created.old_object) == ("object at 1", None)


def test_the_key_names_the_cluster_too() -> None:
    assert event(None, entry("1")).key == Key("ns", "n", "c")


def test_an_event_from_outside_carries_its_object() -> None:
    obj = ConfigMap(metadata=ObjectMeta(name="n", namespace="ns"))
    made = generic_event(obj, cluster="c")
    assert made.object is obj
    assert (made.change, made.key, made.old_object) == (Change.GENERIC, Key("ns", "n", "c"), None)
