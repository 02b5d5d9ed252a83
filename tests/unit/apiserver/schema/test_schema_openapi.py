"""Published schemas, compared with what kube-apiserver 1.36.3 publishes for the same CRD."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from quarterdeck.apiserver.schema.openapi import publish, to_v2

RECORDED = json.loads((Path(__file__).parent / "published.json").read_text())


def _published() -> dict[str, Any]:
    version = RECORDED["version"]
    schema = publish(version["schema"]["openAPIV3Schema"], selectable_fields=version["selectableFields"])
    return {**schema, "x-kubernetes-group-version-kind": RECORDED["v3"]["x-kubernetes-group-version-kind"]}


def test_v3_is_what_upstream_publishes() -> None:
    assert _published() == RECORDED["v3"]


def test_v2_is_what_upstream_publishes() -> None:
    reduced = to_v2({"Pub": _published()})["Pub"]
    assert (
        json.loads(json.dumps(reduced).replace("#/components/schemas/", "#/definitions/")) == RECORDED["v2"]
    )


def test_without_a_schema_any_object_is_published() -> None:
    assert publish(None) == {"type": "object"}


def test_v2_says_nothing_about_a_root_that_preserves_unknown_fields() -> None:
    schema = publish(
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {}}}
    )
    assert to_v2({"x": schema}) == {"x": {"type": "object"}}


def test_publishing_does_not_touch_the_crd() -> None:
    before = json.dumps(RECORDED["version"])
    to_v2({"x": _published()})
    assert json.dumps(RECORDED["version"]) == before
