"""The author's change is carried over to the received document; what the class did by itself is not."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.runtime.webhook.patch import carry_over


def test_where_nothing_changed_the_received_document_stays_as_it_is() -> None:
    received = {"a": {}, "b": 1}
    assert carry_over(received, {"b": 1}, {"b": 1}) is received


@pytest.mark.parametrize(
    ("received", "before", "after", "wanted"),
    [
        pytest.param({"a": 1}, {"a": 1}, {"a": 2}, {"a": 2}, id="changed"),
        pytest.param({"a": 1}, {"a": 1}, {"a": 1, "b": 2}, {"a": 1, "b": 2}, id="added"),
        pytest.param({"a": 1, "b": 2}, {"a": 1, "b": 2}, {"a": 1}, {"a": 1}, id="removed"),
        pytest.param({"a": {}, "b": 1}, {"b": 1}, {"b": 2}, {"a": {}, "b": 2}, id="left out by the class"),
        pytest.param({"b": 1}, {"a": "default", "b": 1}, {"a": "default", "b": 2}, {"b": 2}, id="a default"),
        pytest.param(
            {"b": 1}, {"a": "x", "b": 1}, {"a": "y", "b": 1}, {"a": "y", "b": 1}, id="default changed"
        ),
        pytest.param({"a": {}}, {}, {"a": {"k": 1}}, {"a": {"k": 1}}, id="filled"),
        pytest.param(
            {"a": {"x": {}, "y": 1}}, {"a": {"y": 1}}, {"a": {"y": 2}}, {"a": {"x": {}, "y": 2}}, id="deep"
        ),
        pytest.param({"a": {"k": 1}}, {"a": {"k": 1}}, {"a": [1]}, {"a": [1]}, id="a list for a map"),
    ],
)
def test_what_the_author_did_is_done_to_the_received_document(
    received: Any, before: Any, after: Any, wanted: Any
) -> None:
    assert carry_over(received, before, after) == wanted


def test_one_is_not_true() -> None:
    assert carry_over(1, 1, True) is True


#: each element as received has something that the class leaves out
def seen(name: str) -> dict[str, Any]:
    return {"name": name, "extra": {}}


@pytest.mark.parametrize(
    ("after", "wanted"),
    [
        pytest.param(["a", "b", "c"], [seen("a"), seen("b"), {"name": "c"}], id="appended"),
        pytest.param(["b"], [seen("b")], id="removed"),
        pytest.param(["c", "a", "b"], [{"name": "c"}, seen("a"), seen("b")], id="inserted"),
        pytest.param(["a", "c"], [seen("a"), {"name": "c", "extra": {}}], id="changed in place"),
        pytest.param(["a", "a", "b"], [seen("a"), {"name": "a"}, seen("b")], id="repeated"),
        pytest.param([], [], id="emptied"),
    ],
)
def test_elements_keep_what_only_the_received_document_has(after: list[str], wanted: list[Any]) -> None:
    received = [seen("a"), seen("b")]
    before = [{"name": "a"}, {"name": "b"}]
    assert carry_over(received, before, [{"name": name} for name in after]) == wanted


@pytest.mark.parametrize(
    ("received", "before", "after"),
    [("text", ["x"], ["y"]), (["x"], "text", ["y"]), (["x"], ["x"], "text"), ({"a": 1}, ["x"], ["y"])],
)
def test_what_is_no_list_on_every_side_is_replaced(received: Any, before: Any, after: Any) -> None:
    assert carry_over(received, before, after) == after


def test_a_list_of_which_the_class_dropped_elements_is_replaced() -> None:
    assert carry_over([1, None, 2], [1, 2], [1, 3]) == [1, 3]
