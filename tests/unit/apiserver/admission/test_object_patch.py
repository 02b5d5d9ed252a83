"""Patches of webhooks: applied to a copy, failures explained."""

from typing import Any

import pytest

from quarterdeck.apiserver.admission.objectpatch import patched
from quarterdeck.errors import PatchError
from quarterdeck.wire.patch import TestFailed

DOCUMENT = {"metadata": {"name": "x"}, "l": [1]}


def test_the_document_itself_is_left_alone() -> None:
    result = patched(DOCUMENT, [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}])
    assert result["metadata"]["labels"] == {"a": "b"}
    assert "labels" not in DOCUMENT["metadata"]


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        (
            {"op": "add", "path": "/metadata/labels/a", "value": "b"},
            'add operation does not apply: doc is missing path: "/metadata/labels/a": missing value',
        ),
        (
            {"op": "remove", "path": "/data"},
            "error in remove for path: '/data': Unable to remove nonexistent key: data: missing value",
        ),
        (
            {"op": "replace", "path": "/data/x", "value": "1"},
            "replace operation does not apply: doc is missing path: /data/x: missing value",
        ),
        (
            {"op": "remove", "path": "/l/7"},
            "error in remove for path: '/l/7': Unable to access invalid index: 7: invalid index referenced",
        ),
        ({"op": "foo", "path": "/metadata/name"}, "Unexpected kind: foo"),
        (
            {"op": "move", "from": "/no/where", "path": "/x"},
            "move operation does not apply: doc is missing from path: /no/where: missing value",
        ),
        (
            {"op": "copy", "from": "/metadata/name", "path": "/no/where"},
            "copy operation does not apply: doc is missing destination path: /no/where: missing value",
        ),
    ],
)
def test_failures_name_the_operation(operation: dict[str, Any], text: str) -> None:
    with pytest.raises(PatchError) as raised:
        patched(DOCUMENT, [{"op": "test", "path": "/metadata/name", "value": "x"}, operation])
    assert str(raised.value) == text


def test_a_failed_test_is_told_apart() -> None:
    with pytest.raises(TestFailed, match="testing value /metadata/name failed: test failed"):
        patched(DOCUMENT, [{"op": "test", "path": "/metadata/name", "value": "y"}])
