"""What cached lists hand out, and the parts of documents that are compared."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from quarterdeck.api import ObjectMeta
from quarterdeck.runtime.cache.entry import Entry, EntryFactory
from quarterdeck.runtime.cache.index import (
    Index,
    IndexTable,
    controlled_by,
    controller_uid,
    owned_by,
    owner_uid,
)
from quarterdeck.runtime.cache.objects import IndexView, Objects
from quarterdeck.runtime.cache.projection import Projection
from tests.unit.runtime.runtimewidget import Widget

encode = msgspec.json.encode


def entry(name: str, **metadata: Any) -> Entry:
    return EntryFactory().make(encode({"metadata": {"name": name, "namespace": "ns", **metadata}}))


def named(*names: str) -> Objects[str]:
    return Objects([entry(name) for name in names], lambda each: each.name.upper())


def test_a_slice_of_objects_decodes_like_the_whole() -> None:
    assert list(named("a", "b", "c")[1:]) == ["B", "C"]


def test_objects_are_counted_by_equality_or_by_a_predicate() -> None:
    found = named("a", "b", "a")
    assert found.count("A") == 2
    assert found.count(lambda each: each != "A") == 1
    assert found.where(lambda each: each != "B") == ["A", "A"]


def test_the_first_of_none_is_none() -> None:
    assert named("b", "a").first() == "B"
    assert named().first() is None


def test_keys_of_objects_need_no_decoding() -> None:
    entries = [entry("a"), entry("b")]
    found = Objects(entries, lambda each: pytest.fail(f"decoded {each}"))
    assert [str(key) for key in found.object_keys()] == ["ns/a", "ns/b"]
    assert len(found) == 2


def reference(uid: str, *, controller: bool) -> dict[str, Any]:
    kind = {"apiVersion": "example.com/v1", "kind": "Widget", "name": uid}
    return {**kind, "uid": uid, "controller": controller}


@pytest.mark.parametrize(
    ("index", "owners"), [(owner_uid, ["boss", "friend"]), (controller_uid, ["boss"])], ids=str
)
def test_children_are_found_by_owner_and_by_controller(index: Index[Any], owners: list[str]) -> None:
    both = [reference("boss", controller=True), reference("friend", controller=False)]
    child = entry("child", ownerReferences=both)
    table = IndexTable(index)
    table.insert(child)
    assert [uid for uid in ("boss", "friend") if table.get(uid) == (child,)] == owners


def test_the_children_of_an_object_are_asked_for_by_its_uid() -> None:
    owner = Widget(metadata=ObjectMeta(name="w", uid="boss"))
    assert owned_by(owner) == owner_uid("boss")
    assert controlled_by(owner) == controller_uid("boss")


def test_an_index_view_decodes_and_counts() -> None:
    table = IndexTable(owner_uid)
    for name in ("a", "b"):
        table.insert(entry(name, ownerReferences=[reference("boss", controller=True)]))
    view = IndexView(table, lambda each: each.name)
    assert sorted(view.get("boss", "ns")) == ["a", "b"]
    assert view.count("boss") == view.count("boss", "ns") == 2
    assert view.count("boss", "elsewhere") == 0
    assert view.values() == view.values("ns") == ("boss",)
    assert view.values("elsewhere") == ()


PARTS = Projection([("spec", "a"), ("spec", "ports", "*", "number"), ("whole",), ("whole", "part")])


def same(left: Any, right: Any) -> bool:
    return PARTS.same(encode(left), encode(right))


@pytest.mark.parametrize(
    ("left", "right", "is_same"),
    [
        ({"spec": {"a": 1, "b": 1}}, {"spec": {"a": 1, "b": 2}}, True),
        ({"spec": {"a": 1}}, {"spec": {"a": 2}}, False),
        ({"spec": {"a": {"x": 1, "y": 2}}}, {"spec": {"a": {"y": 2, "x": 1}}}, True),
        ({"spec": {"b": 1}}, {}, True),
        ({"spec": {"a": {}}}, {}, False),
        ({"whole": {"other": 1}}, {"whole": {"other": 2}}, False),
        ({"whole": {}}, {}, False),
        ({"spec": {"ports": [{"number": 1, "x": 1}]}}, {"spec": {"ports": [{"number": 1}]}}, True),
        ({"spec": {"ports": [{"number": 1}]}}, {"spec": {"ports": [{"number": 2}]}}, False),
        ({"spec": {"a": {"x": 1, "y": 2}, "ports": []}}, {"spec": {"a": {"y": 2, "x": 1}}}, False),
    ],
    ids=repr,
)
def test_documents_agree_when_their_named_parts_do(left: Any, right: Any, is_same: bool) -> None:
    assert same(left, right) is is_same


def test_documents_of_another_shape_are_compared_whole() -> None:
    assert same({"spec": "text"}, {"spec": "text"})
    assert not same({"spec": "text"}, {"spec": "other"})
