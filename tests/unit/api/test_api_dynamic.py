"""Objects without a class, and read-only containers."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.api import DynamicObject, PartialObjectMetadata, Writable
from quarterdeck.api.frozen import FrozenMap, MapView, SeqView, freeze, thaw
from quarterdeck.errors import SchemaError

DOCUMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop", "labels": {"a": "b"}},
    "spec": {"replicas": 2, "list": [{"x": 1}, 2]},
}


def test_dynamic_object_reads_like_its_document() -> None:
    obj = DynamicObject(DOCUMENT)
    assert obj == DOCUMENT
    assert obj["spec"]["list"][0]["x"] == 1
    assert obj.at("spec", "list", 0, "x") == 1
    assert obj.at("spec", "missing", 3, default="-") == "-"
    assert obj.metadata.labels == {"a": "b"}
    assert str(obj.gvk) == "apps/v1, Kind=Deployment"
    assert str(obj.key) == "shop/web"
    assert isinstance(obj, Writable)


def test_dynamic_object_cannot_be_changed() -> None:
    obj: Any = DynamicObject(DOCUMENT)
    attempts: list[Callable[[], object]] = [
        lambda: obj.__setitem__("a", 1),
        lambda: obj["spec"].__setitem__("a", 1),
        lambda: obj["spec"]["list"].append(1),
        lambda: obj.at("spec").update(a=1),
    ]
    for attempt in attempts:
        with pytest.raises((TypeError, AttributeError)):
            attempt()
    assert obj == DOCUMENT


def test_draft_is_private() -> None:
    obj = DynamicObject(DOCUMENT)
    draft = obj.draft()
    draft["spec"]["replicas"] = 9
    assert obj["spec"]["replicas"] == 2
    assert DynamicObject(draft)["spec"]["replicas"] == 9


def test_source_document_is_copied() -> None:
    document = {"kind": "X", "spec": {"a": [1]}}
    obj = DynamicObject(document)
    document["spec"]["a"].append(2)  # type: ignore[index]
    assert obj["spec"]["a"] == [1]


def test_only_objects_are_objects() -> None:
    for raw in (b"[]", b"1", b"{"):
        with pytest.raises(SchemaError):
            DynamicObject.from_bytes(raw)


def test_metadata_decodes_from_the_whole_object() -> None:
    head = PartialObjectMetadata.from_bytes(DynamicObject(DOCUMENT).to_bytes())
    assert head.metadata.name == "web"
    assert head.kind == "Deployment"
    assert "spec" not in head.to_dict()
    assert str(head.key) == "shop/web"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_frozen_and_thawed_are_equal(value: Any) -> None:
    frozen = freeze(value)
    assert thaw(frozen) == value
    assert thaw(freeze(thaw(frozen))) == value


@given(st.dictionaries(st.text(max_size=3), json_values, max_size=4))
def test_views_compare_like_what_they_show(document: dict[str, Any]) -> None:
    view = MapView(document)
    assert view == document
    assert document == view
    assert view == freeze(document)
    assert list(view) == list(document)
    assert MapView({**document, "other": 1}) != view or document.get("other") == 1


def test_views_slice_and_print() -> None:
    view = SeqView([1, {"a": 2}])
    assert view[1:] == [{"a": 2}]
    assert view == (1, {"a": 2})
    assert view != "x"
    assert "SeqView" in repr(view)
    assert "MapView" in repr(MapView({}))


def test_frozen_map_hashes_by_content() -> None:
    assert hash(FrozenMap(a=1, b=2)) == hash(FrozenMap(b=2, a=1))
