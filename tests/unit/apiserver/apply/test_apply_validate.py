"""The shape check of an apply configuration: which shapes pass, and the words for those that do not."""

from typing import Any

import pytest

from quarterdeck.apiserver.apply import custom_model
from quarterdeck.apiserver.apply.validate import error_text, validate

from .apply_scenario import BOOLEAN, FREE, INTEGER, STRING, keyed, listing, mapping, setlist, struct

SCHEMA = struct(
    spec=struct(
        s=STRING,
        i=INTEGER,
        b=BOOLEAN,
        o=struct(a=STRING),
        l=listing(STRING),
        m=mapping(STRING),
        date={**STRING, "format": "date-time"},
        any={"x-kubernetes-int-or-string": True},
        free=FREE,
        set=setlist(INTEGER),
        list=keyed("k", k=INTEGER, v=STRING),
        pair=keyed("a", "b", a=STRING, b={**STRING, "default": "d"}),
        two=keyed("a", "b", a=STRING, b=STRING),
        pod={"type": "object", "x-kubernetes-embedded-resource": True},
    )
)


def problems(spec: Any, *, allow_duplicates: bool = False) -> str:
    found = validate(custom_model(SCHEMA), {"spec": spec}, allow_duplicates=allow_duplicates)
    return error_text(found) if found else ""


@pytest.mark.parametrize(
    "spec",
    [
        {"s": "x", "i": 1, "b": True, "o": {"a": "x"}, "l": ["x"], "m": {"q": "x"}},
        {"s": None, "i": None, "b": None, "o": None, "l": None, "m": None, "set": None, "list": None},
        {"i": 1.5, "date": 5, "any": "x"},
        {"any": [1], "free": {"x": {"y": [1, {"z": 1}]}}},
        {"list": [{"k": 1}, {"k": 2}], "set": [1, 2], "l": ["x", "x"]},
        {"pair": [{"a": "1"}, {"a": "2"}, {"b": "x"}]},
        {"pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "labels": {"a": "b"}}}},
    ],
)
def test_these_shapes_pass(spec: Any) -> None:
    assert problems(spec) == ""


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"x": 1}, ".spec.x: field not declared in schema"),
        ({"o": {"x": 1}}, ".spec.o.x: field not declared in schema"),
        ({"s": 1}, ".spec.s: expected string, got &value.valueUnstructured{Value:1}"),
        ({"s": True}, ".spec.s: expected string, got &value.valueUnstructured{Value:true}"),
        ({"s": 1e6}, ".spec.s: expected string, got &value.valueUnstructured{Value:1e+06}"),
        (
            {"s": {"a": [1, "x", None]}},
            (
                '.spec.s: expected string, got &value.valueUnstructured{Value:map[string]interface {}{"a":'
                '[]interface {}{1, "x", interface {}(nil)}}}'
            ),
        ),
        ({"i": "x"}, ".spec.i: expected numeric (int or float), got string"),
        ({"i": True}, ".spec.i: expected numeric (int or float), got bool"),
        ({"i": {"a": 1}}, ".spec.i: expected numeric (int or float), got map[string]interface {}"),
        ({"i": []}, ".spec.i: expected numeric (int or float), got []interface {}"),
        ({"b": 1}, ".spec.b: expected boolean, got &{1}"),
        ({"b": "x"}, ".spec.b: expected boolean, got &{x}"),
        ({"b": {"z": 1, "a": None}}, ".spec.b: expected boolean, got &{map[a:<nil> z:1]}"),
        ({"date": {}}, ".spec.date: expected any scalar, got &{map[]}"),
        ({"o": "x"}, ".spec.o: expected map, got &{x}"),
        ({"o": [1, "y"]}, ".spec.o: expected map, got &{[1 y]}"),
        ({"l": {"a": 1}}, ".spec.l: expected list, got &{map[a:1]}"),
        ({"l": ["x", 2]}, ".spec.l[1]: expected string, got &value.valueUnstructured{Value:2}"),
        ({"m": {"q": 1}}, ".spec.m.q: expected string, got &value.valueUnstructured{Value:1}"),
        (
            {"list": [{"k": 1, "v": 2}]},
            ".spec.list[k=1].v: expected string, got &value.valueUnstructured{Value:2}",
        ),
        ({"set": ["x"]}, '.spec.set[="x"]: expected numeric (int or float), got string'),
        ({"set": [1000000, 1000000]}, ".spec.set: duplicate entries for key [=1000000]"),
        ({"set": [1, 1.0]}, ".spec.set: duplicate entries for key [=1]"),
        (
            {"set": [None]},
            ".spec.set: element 0: associative list without keys has an element that's an explicit null",
        ),
        (
            {"set": [{}]},
            ".spec.set: element 0: associative list without keys has an element that's a map type",
        ),
        ({"set": [[1]]}, ".spec.set: element 0: not supported: associative list with lists as elements"),
        ({"list": [None]}, ".spec.list: element 0: associative list with keys may not have a null element"),
        ({"list": ["x"]}, ".spec.list: element 0: associative list with keys may not have non-map elements"),
        (
            {"list": [{"v": "x"}]},
            (
                ".spec.list: element 0: associative list with keys has an element that omits all key fields"
                ' ["k"] (and doesn\'t have default values for any key fields)'
            ),
        ),
        (
            {"two": [{}]},
            (
                ".spec.two: element 0: associative list with keys has an element that omits all key fields"
                ' ["a" "b"] (and doesn\'t have default values for any key fields)'
            ),
        ),
        ({"list": [{"k": 7}, {"k": 7}]}, ".spec.list: duplicate entries for key [k=7]"),
        (
            {"pair": [{"a": "x"}, {"a": "x", "b": "d"}]},
            '.spec.pair: duplicate entries for key [a="x",b="d"]',
        ),
        (
            {"o": {"q": 1}, "s": 1},
            (
                "errors:\n  .spec.o.q: field not declared in schema\n"
                "  .spec.s: expected string, got &value.valueUnstructured{Value:1}"
            ),
        ),
    ],
)
def test_these_shapes_do_not(spec: Any, text: str) -> None:
    assert problems(spec) == text


def test_stored_objects_may_repeat_items() -> None:
    assert problems({"set": [1, 1], "list": [{"k": 1}, {"k": 1}]}, allow_duplicates=True) == ""


def test_one_unknown_field_per_object_is_reported() -> None:
    assert problems({"x": 1, "y": 2}) == ".spec.x: field not declared in schema"
