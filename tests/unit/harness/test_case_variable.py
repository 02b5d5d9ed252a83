"""Variables in requests and expectations."""

import pytest

from tests.harness.variable import lookup, substitute, unresolved


def test_references_are_replaced_in_keys_and_values() -> None:
    assert substitute({"g${u}": ["a-${ns}", 1]}, {"u": "7", "ns": "x"}) == {"g7": ["a-x", 1]}


def test_saved_values_that_are_no_text_are_written_as_json() -> None:
    assert substitute("n=${n}", {"n": 3}) == "n=3"


def test_unknown_references_stay_and_are_reported() -> None:
    assert substitute("${nope}", {}) == "${nope}"
    assert unresolved([{"a": "${nope}"}, "b"]) == ["nope"]


def test_dotted_paths_reach_into_lists() -> None:
    document = {"items": [{"metadata": {"name": "a"}}]}
    assert lookup(document, "items.0.metadata.name") == "a"
    assert lookup(document, "items[0].metadata.name") == "a"
    with pytest.raises(KeyError):
        lookup(document, "items.1")
