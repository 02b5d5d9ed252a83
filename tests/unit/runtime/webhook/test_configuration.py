"""When what is registered differs from what is wanted, and whose it is."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import DynamicObject
from quarterdeck.runtime.certificate.bundle import DEFINITION, MUTATING, BundleTarget, bundle_patch
from quarterdeck.runtime.webhook.configuration import _covers


@pytest.mark.parametrize(
    ("found", "wanted", "is_covered"),
    [
        ({"a": 1, "default": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
        ({}, {"a": 1}, False),
        (None, {"a": 1}, False),
        ([1], {"a": 1}, False),
        ([{"a": 1, "b": 2}], [{"a": 1}], True),
        ([1, 2], [1], False),
        ([1], [1, 2], False),
        ([2], [1], False),
        ("ab", ["a", "b"], False),
        (None, ["a"], False),
        ("a", "a", True),
        ("a", "b", False),
    ],
)
def test_what_the_server_adds_is_no_difference(found: Any, wanted: Any, is_covered: bool) -> None:
    assert _covers(found, wanted) is is_covered


def configuration(*bundles: str | None) -> DynamicObject:
    hooks = [{"clientConfig": {"caBundle": bundle}} if bundle is not None else {} for bundle in bundles]
    kind = {"apiVersion": MUTATING.api_version, "kind": MUTATING.kind}
    return DynamicObject({**kind, "metadata": {"name": "x", "resourceVersion": "7"}, "webhooks": hooks})


def test_a_bundle_is_written_where_it_is_missing_and_only_to_the_object_that_was_read() -> None:
    assert bundle_patch(configuration("eA==", None, "old"), b"x") == [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": "eA=="},
        {"op": "add", "path": "/webhooks/2/clientConfig/caBundle", "value": "eA=="},
    ]
    assert bundle_patch(configuration("eA=="), b"x") == []
    assert bundle_patch(configuration(), b"x") == []


def test_a_definition_carries_the_bundle_if_it_converts_by_webhook() -> None:
    def definition(**spec: Any) -> DynamicObject:
        kind = {"apiVersion": DEFINITION.api_version, "kind": DEFINITION.kind}
        return DynamicObject({**kind, "metadata": {"name": "x", "resourceVersion": "7"}, "spec": spec})

    converted = definition(conversion={"webhook": {"clientConfig": {"url": "https://x"}}})
    assert [each["path"] for each in bundle_patch(converted, b"x")] == [
        "/metadata/resourceVersion",
        "/spec/conversion/webhook/clientConfig/caBundle",
    ]
    assert bundle_patch(definition(), b"x") == []


def test_targets_are_named_by_their_kind() -> None:
    assert BundleTarget.mutating("x") == BundleTarget(MUTATING, "x")
    assert BundleTarget.definition("x").kind == DEFINITION
    assert BundleTarget.validating("x").kind.kind == "ValidatingWebhookConfiguration"
