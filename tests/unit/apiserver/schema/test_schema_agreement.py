"""Properties that hold for every schema and every value."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.apiserver.schema.defaulting import default
from quarterdeck.apiserver.schema.explain import explain
from quarterdeck.apiserver.schema.pruning import prune, unknown_fields
from quarterdeck.apiserver.schema.quick import quick_check
from quarterdeck.apiserver.schema.resource import ResourceSchema
from quarterdeck.apiserver.schema.structural import compile_schema
from quarterdeck.wire.patch import apply_merge_patch

NAMES = ("a", "b", "c")
TEXTS = st.sampled_from(["", "a", "abc", "ABC", "2020-01-01", "10.0.0.1", "é"])
NUMBERS = st.sampled_from([0, 1, -1, 5, 2**31, 2**63, 1.0, 1.5, 1e30])
SCALARS = st.one_of(st.none(), st.booleans(), TEXTS, NUMBERS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from((*NAMES, "z")), inner, max_size=3)
    ),
    max_leaves=8,
)


def _some(**options: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=options)


LIMITS = _some(
    minimum=st.sampled_from([0, 1.5]),
    maximum=st.sampled_from([1, 5]),
    exclusiveMaximum=st.booleans(),
    multipleOf=st.sampled_from([2, 0.5]),
    minLength=st.integers(0, 2),
    maxLength=st.integers(0, 3),
    pattern=st.sampled_from(["^[a-z]*$", "x"]),
    format=st.sampled_from(["date", "int32", "float", "ipv4", "unknown"]),
    enum=st.lists(SCALARS, min_size=1, max_size=3),
    minItems=st.integers(0, 2),
    maxItems=st.integers(0, 2),
    minProperties=st.integers(0, 2),
    maxProperties=st.integers(0, 3),
    required=st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True),
)


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3) -> dict[str, Any]:
    kinds = ["string", "integer", "number", "boolean", "int-or-string"]
    kind = draw(st.sampled_from(kinds + (["object", "map", "array", "any"] if depth else [])))
    schema: dict[str, Any] = {}
    if kind == "int-or-string":
        schema["x-kubernetes-int-or-string"] = True
    elif kind == "any":
        schema["x-kubernetes-preserve-unknown-fields"] = True
    else:
        schema["type"] = "object" if kind == "map" else kind
    if kind == "object":
        schema["properties"] = draw(st.dictionaries(st.sampled_from(NAMES), schemas(depth - 1), max_size=3))
        if draw(st.booleans()):
            schema["x-kubernetes-preserve-unknown-fields"] = draw(st.booleans())
    elif kind == "map":
        schema["additionalProperties"] = draw(schemas(depth - 1) | st.booleans())
    elif kind == "array":
        schema["items"] = draw(schemas(depth - 1))
    if draw(st.integers(0, 3)) == 0:
        schema |= draw(LIMITS)
    if draw(st.integers(0, 5)) == 0:
        schema[draw(st.sampled_from(["anyOf", "oneOf", "allOf"]))] = draw(
            st.lists(LIMITS, min_size=1, max_size=2)
        )
    if draw(st.integers(0, 5)) == 0:
        schema["nullable"] = True
    if draw(st.integers(0, 3)) == 0:
        schema["default"] = draw(VALUES)
    return schema


def objects() -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from((*NAMES, "spec", "z")), VALUES, max_size=4)


@settings(max_examples=400)
@given(schemas(), VALUES)
def test_the_quick_check_agrees_with_the_explanation(schema: dict[str, Any], value: Any) -> None:
    node = compile_schema(schema)
    assert quick_check(node)(value) == (not explain(node, value).issues)


@settings(max_examples=200)
@given(schemas(), VALUES)
def test_pruning_twice_prunes_nothing_more(schema: dict[str, Any], value: Any) -> None:
    node = compile_schema(schema)
    once = copy.deepcopy(value)
    found = unknown_fields(once, node)
    assert prune(once, node) == found
    twice = copy.deepcopy(once)
    assert prune(twice, node) == []
    assert twice == once


@settings(max_examples=200)
@given(schemas(), VALUES)
def test_defaulting_twice_changes_nothing_more(schema: dict[str, Any], value: Any) -> None:
    # A default may itself hold nulls that the second pass drops; CRD validation refuses such defaults.
    node = compile_schema({"type": "object", "properties": {"spec": _without_null_defaults(schema)}})
    once = {"spec": copy.deepcopy(value)}
    default(once, node)
    twice = copy.deepcopy(once)
    default(twice, node)
    assert twice == once


def _without_null_defaults(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_null_defaults(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_null_defaults(value) for key, value in schema.items() if key != "default" or value == 5
    }


@settings(max_examples=200)
@given(schemas(), objects())
def test_a_valid_object_stays_valid_when_decoded_and_defaulted_again(
    schema: dict[str, Any], fields: dict[str, Any]
) -> None:
    resource = ResourceSchema({"type": "object", "properties": {"spec": _without_null_defaults(schema)}})
    obj = {"apiVersion": "g/v1", "kind": "Thing", "metadata": {"name": "a"}, **fields}
    resource.decode(obj)
    resource.default(obj)
    if resource.validate_create(obj):
        return
    again = copy.deepcopy(obj)
    assert resource.decode(again) == []
    resource.default(again)
    assert again == obj
    assert resource.validate_create(again) == []


@settings(max_examples=300)
@given(
    schemas(),
    schemas(),
    objects(),
    _some(
        spec=VALUES,
        status=VALUES,
        z=VALUES,
        metadata=st.sampled_from([{"labels": {"x": None}}, {"annotations": {"k": "v"}}, {"odd": 1}]),
    ),
)
def test_a_change_that_shares_the_rest_with_its_base_is_decoded_like_a_copy(
    spec: dict[str, Any], status: dict[str, Any], fields: dict[str, Any], patch: dict[str, Any]
) -> None:
    resource = ResourceSchema({"type": "object", "properties": {"spec": spec, "status": status}})
    base = {"apiVersion": "g/v1", "kind": "Thing", "metadata": {"name": "a", "labels": {"x": "y"}}, **fields}
    resource.decode(base)
    resource.fill(base)
    settled = copy.deepcopy(base)
    resource.prune(settled)
    resource.default(settled)
    if settled != base:
        return  # reading it from storage changes it: nobody takes it for settled

    copied = apply_merge_patch(copy.deepcopy(base), patch)
    shared = apply_merge_patch(base, patch)
    assert resource.decode_changed(shared, base) == resource.decode(copied)
    resource.fill(copied)
    resource.fill(shared)
    shared["metadata"]["uid"] = copied["metadata"]["uid"] = "u"
    assert shared == copied
    assert list(shared) == list(copied)
    assert base == settled


@settings(max_examples=200)
@given(
    st.recursive(
        SCALARS,
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "type",
                        "properties",
                        "items",
                        "additionalProperties",
                        "default",
                        "enum",
                        "pattern",
                        "required",
                        "anyOf",
                        "not",
                        "format",
                        "minimum",
                        "maxLength",
                        "x-kubernetes-list-type",
                        "x-kubernetes-validations",
                        "a",
                    ]
                ),
                inner,
            )
        ),
    ),
    VALUES,
)
def test_no_schema_and_no_value_raises(schema: Any, value: Any) -> None:
    resource = ResourceSchema(schema if isinstance(schema, dict) else {})
    obj = {"metadata": {"name": "a"}, "spec": value}
    resource.decode(obj)
    resource.default(obj)
    assert isinstance(resource.validate_create(obj), list)
    assert isinstance(resource.validate_update(obj, {"spec": value}), list)
