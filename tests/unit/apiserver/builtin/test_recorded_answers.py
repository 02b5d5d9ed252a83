"""Writes whose answers were recorded on kube-apiserver 1.36.3: the same errors, defaults and warnings."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.apiserver.status import StatusError

from .builtin_writepath import Context, create, merge, scrub, update

Json = dict[str, Any]
_RECORDED: dict[str, list[Json]] = json.loads((Path(__file__).parent / "recorded_answers.json").read_text())
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ADDRESS = re.compile(r"(?<=\")10\.0\.(?!0\.)\d+\.\d+(?=\": expected)")
_GO_OBJECT = re.compile(r"Invalid value: \{.*\}: field is immutable", re.DOTALL)
_DIFF = re.compile(r"\n@@.*", re.DOTALL)
#: upstream's protection finalizers need controllers that we do not have
_PROTECTION = re.compile(r"kubernetes\.io/\w+-protection")

#: what is known to differ, with the reason
_DEVIATIONS = {
    # an empty list that Go tells from an absent one
    ("horizontalpodautoscalers", "behavior"),
    # CEL in policies is checked elsewhere
    ("mutatingadmissionpolicies", '"expression": "[]"'),
    # a nodePort out of range passes upstream's dry run alone
    ("services", '"nodePort": 5}'),
    # upstream cannot update a ControllerRevision by patch
    ("controllerrevisions", '"revision": 2'),
}


def _is_deviation(entry: Json) -> bool:
    resource = entry["path"].rsplit("/", 1)[1]
    document = json.dumps(entry.get("patch") or entry["body"])
    return any(resource == name and text in document for name, text in _DEVIATIONS)


def _entries(kind: str) -> Iterator[Any]:
    for index, entry in enumerate(_RECORDED[kind]):
        if not _is_deviation(entry):
            resource = entry["path"].rsplit("/", 1)[1]
            yield pytest.param(entry, id=f"{resource}-{entry.get('subresource') or index}-{index}")


def _causes(error: StatusError) -> list[list[str]]:
    causes = (error.details or {}).get("causes", [])
    return [[cause.get(key, "") for key in ("reason", "message", "field")] for cause in causes]


def _comparable(obj: Json) -> Json:
    """Without allocated addresses, ports and times."""
    obj = scrub(obj)
    obj["metadata"]["finalizers"] = [
        item for item in obj["metadata"].get("finalizers") or () if not _PROTECTION.search(item)
    ]
    spec = obj.get("spec") or {}
    if spec.get("clusterIP", "None") != "None":
        spec["clusterIP"] = spec["clusterIPs"] = "allocated"
    if "healthCheckNodePort" in spec:
        spec["healthCheckNodePort"] = "allocated"
    for port in spec.get("ports") or () if obj["kind"] == "Service" else ():
        if "nodePort" in port:
            port["nodePort"] = "allocated"
    text = _UUID.sub("UID", _TIME.sub("TIME", json.dumps(obj)))
    comparable: Json = json.loads(text)
    return comparable


def _unique(causes: list[list[str]]) -> set[tuple[str, ...]]:
    """Upstream repeats metadata errors a varying number of times, and lists map entries in any order."""
    found: set[tuple[str, ...]] = set()
    for reason, message, field in causes:
        message = _ADDRESS.sub("allocated", _UUID.sub("UID", message))
        message = _DIFF.sub("\n", _GO_OBJECT.sub("field is immutable", message))
        found.add((reason, message, field))
    return found


def _answer(write: Callable[[], Json]) -> tuple[int, Json, StatusError | None]:
    try:
        return 200, write(), None
    except StatusError as error:
        return error.code, {}, error


@pytest.mark.parametrize("entry", list(_entries("creates")))
def test_create_answers_like_upstream(entry: Json) -> None:
    context = Context()
    code, made, error = _answer(lambda: create(entry["path"], entry["body"], context))
    if entry["code"] >= 400:
        assert error is not None, made
        assert code == entry["code"], error.message
        assert _unique(_causes(error)) == _unique(entry["causes"])
        assert error.message == entry.get("message", error.message)
        return
    assert error is None, error
    assert _comparable(made) == _comparable(entry["object"])
    deprecated = [text for text in entry.get("warnings", []) if "Endpoints is deprecated" not in text]
    assert sorted(context.warnings) == sorted(deprecated)


@pytest.mark.parametrize("entry", list(_entries("updates")))
def test_update_answers_like_upstream(entry: Json) -> None:
    old = create(entry["path"], entry["base"])
    wanted = merge(old, entry["patch"])
    code, made, error = _answer(lambda: update(entry["path"], old, wanted, entry["subresource"]))
    if entry["code"] >= 400:
        assert error is not None, made
        assert code == entry["code"], error.message
        assert _unique(_causes(error)) == _unique(entry["causes"])
        return
    assert error is None, error
    assert _comparable(made) == _comparable(entry["object"])
