"""Object metadata: names, labels, annotations, owners, finalizers, selectors."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.apiserver import metadata
from quarterdeck.wire.fielderror import FieldError

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', "
    "regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


def texts(errors: list[FieldError]) -> list[str]:
    return [str(error) for error in errors]


def validate(**meta: Any) -> list[str]:
    given = {"name": "x", "namespace": "ns", **meta}
    return texts(metadata.validate_object_meta(given, namespaced=True))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a", []),
        ("a.b-c.9", []),
        ("A", [SUBDOMAIN]),
        ("-a", [SUBDOMAIN]),
        ("a..b", [SUBDOMAIN]),
        ("a\n", [SUBDOMAIN]),
        ("a" * 253, []),
        ("a" * 254, ["must be no more than 253 characters"]),
        ("A" * 254, ["must be no more than 253 characters", SUBDOMAIN]),
    ],
)
def test_subdomain_names(name: str, expected: list[str]) -> None:
    assert metadata.subdomain_errors(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("9a", []),
        ("a.b", ["must not contain dots"]),
        ("A", [LABEL]),
        ("a" * 64, ["must be no more than 63 characters"]),
        ("", [LABEL]),
    ],
)
def test_label_names(name: str, expected: list[str]) -> None:
    assert metadata.label_errors(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a:b", []),
        ("", []),
        (".", ["may not be '.'"]),
        ("..", ["may not be '..'"]),
        ("a/b%", ["may not contain '/'", "may not contain '%'"]),
    ],
)
def test_path_segments_take_nearly_everything(name: str, expected: list[str]) -> None:
    assert metadata.path_segment_errors(name) == expected


def test_a_generate_name_may_end_in_a_dash() -> None:
    assert metadata.subdomain_errors("job-", prefix=True) == []
    assert metadata.label_errors("job-", prefix=True) == []
    assert metadata.dns1035_errors("job-", prefix=True) == []
    assert metadata.subdomain_errors("job-") == [SUBDOMAIN]
    assert metadata.path_segment_errors(".", prefix=True) == []


def test_a_dns_1035_label_starts_with_a_letter() -> None:
    assert metadata.dns1035_errors("a9") == []
    assert len(metadata.dns1035_errors("9a")) == 1


def test_name_or_generate_name_is_required() -> None:
    assert validate(name="") == ["metadata.name: Required value: name or generateName is required"]


def test_a_namespace_belongs_to_namespaced_kinds_only() -> None:
    found = metadata.validate_object_meta({"name": "x", "namespace": "n"}, namespaced=False)
    assert texts(found) == ["metadata.namespace: Forbidden: not allowed on this type"]
    assert validate(namespace="") == ["metadata.namespace: Required value"]


@pytest.mark.parametrize(
    ("key", "part"),
    [
        ("-bad", "name part must consist of alphanumeric characters, '-', '_' or '.'"),
        ("/a", "prefix part must be non-empty"),
        ("A_/a", "prefix part a lowercase RFC 1123 subdomain"),
        ("a/", "name part must be non-empty"),
        ("a/b/c", "a valid label key must consist of alphanumeric characters"),
        ("a" * 64, "name part must be no more than 63 bytes"),
        (f"{'a' * 254}/b", "prefix part must be no more than 253 bytes"),
    ],
)
def test_label_keys(key: str, part: str) -> None:
    found = metadata.validate_labels({key: "v"}, "metadata.labels")
    assert found
    assert part in str(found[0])
    assert str(found[0]).startswith(f'metadata.labels: Invalid value: "{key}": ')


def test_label_values_are_short_and_plain() -> None:
    assert metadata.label_value_errors("") == []
    assert metadata.label_value_errors("a.b_C-9") == []
    assert metadata.label_value_errors("x" * 64) == ["must be no more than 63 bytes"]
    assert metadata.label_value_errors("ä" * 40)[0] == "must be no more than 63 bytes"
    assert metadata.label_value_errors("-a")[0].startswith(
        "a valid label must be an empty string or consist of"
    )


def test_annotation_keys_ignore_case_and_the_sum_is_limited() -> None:
    assert validate(annotations={"Upper.Example.com/Key": "any value at all"}) == []
    limit = 256 * 1024
    assert validate(annotations={"a": "x" * (limit - 1)}) == []
    too_long = "metadata.annotations: Too long: may not be more than 262144 bytes"
    assert validate(annotations={"a": "x" * limit}) == [too_long]
    assert validate(annotations={"a": "ä" * (limit // 2)}) == [too_long]


def test_finalizers_need_a_domain_in_built_in_kinds_only() -> None:
    bare = (
        'metadata.finalizers[0]: Invalid value: "foo": '
        "name is neither a standard finalizer name nor is it fully qualified"
    )
    assert validate(finalizers=["foo"]) == [bare]
    assert validate(finalizers=["kubernetes", "orphan", "ex.io/f"]) == []
    custom = metadata.validate_object_meta(
        {"name": "x", "namespace": "n", "finalizers": ["foo"]}, namespaced=True, bare_finalizers=True
    )
    assert custom == []


def test_orphan_and_foreground_exclude_each_other() -> None:
    [error] = validate(finalizers=["orphan", "foregroundDeletion"])
    assert error == (
        'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: '
        "finalizer orphan and foregroundDeletion cannot be both set"
    )


def test_owner_references_are_complete() -> None:
    assert validate(ownerReferences=[{}]) == [
        'metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty',
        'metadata.ownerReferences.kind: Invalid value: "": must not be empty',
        'metadata.ownerReferences.name: Invalid value: "": must not be empty',
        'metadata.ownerReferences.uid: Invalid value: "": must not be empty',
    ]


def test_an_event_owns_nothing() -> None:
    owner = {"uid": "u", "name": "e", "kind": "Event", "apiVersion": "v1"}
    [error] = validate(ownerReferences=[owner])
    assert error == (
        'metadata.ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"e","uid":"u"}: '
        "/v1, Kind=Event is disallowed from being an owner"
    )
    assert validate(ownerReferences=[{**owner, "apiVersion": "events.k8s.io/v1"}]) == []


def test_one_owner_is_the_controller() -> None:
    owners = [
        {"apiVersion": "v1", "kind": "K", "name": name, "uid": name, "controller": True} for name in "ab"
    ]
    [error] = validate(ownerReferences=owners)
    assert error.endswith(
        'Only one reference can have Controller set to true. Found "true" in references for K/a and K/b'
    )


def test_update_keeps_identity_and_deletion() -> None:
    old = {"name": "x", "namespace": "n", "uid": "u", "resourceVersion": "7", "creationTimestamp": "T"}
    new = {**old, "uid": "v", "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5}
    found = texts(metadata.validate_object_meta_update(new, old))
    assert sorted(set(found)) == [
        "metadata.deletionGracePeriodSeconds: Invalid value: 5: field is immutable",
        'metadata.deletionTimestamp: Invalid value: "2026-01-01T00:00:00Z": field is immutable',
        'metadata.uid: Invalid value: "v": field is immutable',
    ]
    assert len(found) == 6, "upstream looks twice"


def test_update_needs_a_resource_version() -> None:
    old = {"name": "x", "uid": "u", "resourceVersion": "7"}
    found = texts(metadata.validate_object_meta_update({"name": "x", "uid": "u"}, old))
    assert found[0] == 'metadata.resourceVersion: Invalid value: "": must be specified for an update'


def test_finalizers_only_go_away_while_deleting() -> None:
    old = {"name": "x", "resourceVersion": "1", "deletionTimestamp": "T", "finalizers": ["ex.io/f"]}
    new = {**old, "finalizers": ["ex.io/f", "ex.io/h", "ex.io/g"]}
    assert texts(metadata.validate_object_meta_update(new, old))[0] == (
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"ex.io/g", "ex.io/h"}'
    )
    assert metadata.validate_object_meta_update({**old, "finalizers": []}, old) == []


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"key": "a", "operator": "In"}, "must be specified when `operator` is 'In' or 'NotIn'"),
        (
            {"key": "a", "operator": "Exists", "values": ["x"]},
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        ({"key": "a", "operator": "Gt", "values": ["1"]}, "not a valid selector operator"),
        ({"key": "a b", "operator": "Exists"}, "name part must consist of"),
        ({"key": "a", "operator": "In", "values": ["-"]}, "a valid label must be an empty string"),
    ],
)
def test_selector_expressions(expression: dict[str, Any], expected: str) -> None:
    [error] = metadata.validate_label_selector({"matchExpressions": [expression]}, "spec.selector")
    assert expected in str(error)
    assert error.field.startswith("spec.selector.matchExpressions[0].")


@pytest.mark.parametrize(
    ("selector", "labels", "matched"),
    [
        (None, {"a": "b"}, False),
        ({}, {}, True),
        ({"matchLabels": {"a": "b"}}, {"a": "b", "c": "d"}, True),
        ({"matchLabels": {"a": "b"}}, {"a": "c"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}, {}, True),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}, {}, False),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"a": ""}, True),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {"a": ""}, False),
    ],
)
def test_selectors_match_labels(selector: Any, labels: dict[str, str], matched: bool) -> None:
    assert metadata.selector_matches(selector, labels) is matched


@given(st.text(max_size=300))
def test_format_checks_take_any_text(text: str) -> None:
    for check in (
        metadata.subdomain_errors,
        metadata.label_errors,
        metadata.dns1035_errors,
        metadata.path_segment_errors,
    ):
        assert isinstance(check(text), list)
        assert isinstance(check(text, prefix=True), list)
    assert isinstance(metadata.qualified_name_errors(text), list)
    assert isinstance(metadata.label_value_errors(text), list)


@given(st.from_regex(r"\A[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?(\.[a-z0-9]{1,9}){0,3}\Z"))
def test_what_the_pattern_allows_passes(name: str) -> None:
    assert metadata.subdomain_errors(name) == []
    assert metadata.qualified_name_errors(f"{name}/x") == []
