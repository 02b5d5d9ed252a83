"""Predicates: which changes pass, alone and combined."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from quarterdeck.api import Key, OwnerReference
from quarterdeck.runtime.cache.entry import Entry, EntryFactory
from quarterdeck.runtime.cache.store import Change, Delta
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.handler import for_object, for_owner
from quarterdeck.runtime.controller.predicate import (
    Predicate,
    annotations_changed,
    condition_changed,
    deletion_started,
    generation_changed,
    label_matches,
    labels_changed,
    never,
    object_matches,
    resource_version_changed,
    spec_changed,
    status_changed,
    strict_generation_changed,
)

DELETED_AT = "2030-01-01T00:00:00Z"


def entry(metadata: dict[str, Any] | None = None, **fields: Any) -> Entry:
    document = {"metadata": {"name": "a", "namespace": "ns", **(metadata or {})}, **fields}
    return EntryFactory().make(msgspec.json.encode(document))


def event(change: Change, old: Entry | None, new: Entry | None) -> ObjectEvent[Any]:
    return ObjectEvent(Delta(change, old, new), lambda e: msgspec.json.decode(e.raw))


def update(old: Entry, new: Entry) -> ObjectEvent[Any]:
    return event(Change.UPDATED, old, new)


BASE = entry({"generation": 1, "resourceVersion": "1"})

CASES = [
    (generation_changed, entry({"generation": 2}), True),
    (generation_changed, entry({"generation": 1, "labels": {"a": "b"}}), False),
    (generation_changed, entry({"generation": 1, "deletionTimestamp": DELETED_AT}), True),
    (strict_generation_changed, entry({"generation": 1, "deletionTimestamp": DELETED_AT}), False),
    (strict_generation_changed, entry({"generation": 2}), True),
    (resource_version_changed, entry({"resourceVersion": "1"}), False),
    (resource_version_changed, entry({"resourceVersion": "2"}), True),
    (labels_changed, entry({"labels": {"a": "b"}}), True),
    (labels_changed, entry({"annotations": {"a": "b"}}), False),
    (annotations_changed, entry({"annotations": {"a": "b"}}), True),
    (annotations_changed, entry({"labels": {"a": "b"}}), False),
    (deletion_started, entry({"deletionTimestamp": DELETED_AT}), True),
    (deletion_started, entry({"generation": 9}), False),
    (spec_changed(), entry(spec={"a": 1}), True),
    (spec_changed("b", "c.d"), entry(spec={"a": 1}), False),
    (spec_changed("b", "c.d"), entry(spec={"c": {"d": 2}}), True),
    (status_changed("phase"), entry(status={"phase": "Running"}), True),
    (status_changed("phase"), entry(status={"other": 1}), False),
    (condition_changed("Ready"), entry(status={"conditions": [{"type": "Ready", "status": "True"}]}), True),
    (condition_changed("Ready"), entry(status={"conditions": [{"type": "Other", "status": "True"}]}), False),
    (condition_changed("Ready"), entry(status="odd"), False),
]


@pytest.mark.parametrize(("predicate", "new", "passes"), CASES, ids=lambda value: str(value)[:30])
def test_update_passes_as_the_table_says_and_other_changes_always(
    predicate: Predicate, new: Entry, passes: bool
) -> None:
    assert predicate(update(BASE, new)) is passes
    assert predicate(event(Change.ADDED, None, new))
    assert predicate(event(Change.DELETED, new, None))
    assert predicate(event(Change.GENERIC, None, new))


@pytest.mark.parametrize(
    ("predicate", "part"), [(annotations_changed, "annotations"), (labels_changed, "labels")]
)
def test_another_value_of_a_label_or_annotation_is_a_change(predicate: Predicate, part: str) -> None:
    one, two = entry({part: {"a": "1"}}), entry({part: {"a": "2"}})
    assert predicate(update(one, two))
    assert predicate(update(one, BASE))
    assert not predicate(update(one, one))


def test_parts_are_compared_whatever_the_order_of_keys() -> None:
    one = EntryFactory().make(b'{"metadata":{"name":"a"},"spec":{"x":{"a":1,"b":2}}}')
    two = EntryFactory().make(b'{"metadata":{"name":"a"},"spec":{"x":{"b":2,"a":1}}}')
    assert not spec_changed("x")(update(one, two))
    assert not spec_changed()(update(one, two))


def test_label_matches_looks_at_the_newest_state_of_every_change() -> None:
    predicate = label_matches("app=web")
    web, other = entry({"labels": {"app": "web"}}), entry()
    assert predicate(event(Change.ADDED, None, web))
    assert not predicate(event(Change.ADDED, None, other))
    assert predicate(update(other, web))
    assert not predicate(update(web, other))


@pytest.mark.parametrize("predicate", [generation_changed, strict_generation_changed, labels_changed])
def test_an_object_that_a_restored_server_has_as_it_once_was_passes(predicate: Predicate) -> None:
    first, second = (entry({"generation": 1, "resourceVersion": version}) for version in ("99", "100"))
    assert not predicate(update(first, second))
    assert predicate(update(second, first))


def test_combinators() -> None:
    yes = Predicate("yes")
    no = ~yes
    change = update(BASE, entry({"generation": 2}))
    assert (yes & yes)(change)
    assert not (yes & no)(change)
    assert (yes | no)(change)
    assert not (no | no)(change)
    assert repr(yes & (no | yes)) == "(yes & (~yes | yes))"
    assert (generation_changed | labels_changed)(update(BASE, entry({"labels": {"x": "y"}, "generation": 1})))


def test_object_matches_decodes_the_object() -> None:
    def is_big(document: Any) -> bool:
        return bool(document["spec"]["n"] > 2)

    predicate = object_matches(is_big)
    assert predicate(event(Change.ADDED, None, entry(spec={"n": 3})))
    assert not predicate(event(Change.DELETED, entry(spec={"n": 1}), None))


def test_bodies_are_not_decoded_for_headers() -> None:
    def fail(_entry: Entry) -> Any:
        raise AssertionError("decoded")

    change = ObjectEvent(Delta(Change.UPDATED, BASE, entry({"generation": 2})), fail)
    assert generation_changed(change)
    assert for_object.keys(change, None) == (Key("ns", "a"),)  # type: ignore[arg-type]


def owners(*references: OwnerReference) -> dict[str, Any]:
    return {"ownerReferences": [msgspec.to_builtins(r, enc_hook=str) for r in references]}


def test_owner_is_matched_by_group_and_kind_whatever_the_version() -> None:
    from tests.unit.runtime.runtimewidget import Widget

    def ref(name: str, version: str = "v1", kind: str = "Widget", **flags: Any) -> dict[str, Any]:
        return {"apiVersion": f"example.com/{version}", "kind": kind, "name": name, "uid": name, **flags}

    metadata = {
        "ownerReferences": [
            ref("new", "v2", controller=True),
            ref("friend"),
            ref("other-kind", kind="Gadget", controller=True),
            {**ref("other-group", controller=True), "apiVersion": "other.com/v1"},
        ]
    }
    change = event(Change.ADDED, None, entry(metadata))
    assert list(for_owner(Widget).keys(change, None)) == [Key("ns", "new")]  # type: ignore[arg-type]
    every = for_owner(Widget, only_controller=False)
    assert list(every.keys(change, None)) == [Key("ns", "new"), Key("ns", "friend")]  # type: ignore[arg-type]


def test_a_predicate_says_which_sorts_of_change_it_refuses_unseen() -> None:
    lost = Predicate("lost", create=never, update=lambda _: False)
    assert [change for change in Change if lost.refuses(change)] == [Change.ADDED]
    assert not any((lost & lost).refuses(change) for change in Change)
