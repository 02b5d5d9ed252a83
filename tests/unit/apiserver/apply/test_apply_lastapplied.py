"""kubectl's way from client-side to server-side apply."""

import json
from typing import Any

import pytest

from quarterdeck.apiserver.apply import FieldManager, builtin_model
from quarterdeck.apiserver.apply.lastapplied import ANNOTATION
from quarterdeck.apiserver.status import StatusError

Json = dict[str, Any]

NOW = "2026-01-01T00:00:00Z"
MANAGER = FieldManager(lambda _: builtin_model("", "v1", "ConfigMap"), kind="ConfigMap")


def configmap(data: Json, **metadata: Any) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **metadata}, "data": data}


def client_side(data: Json, annotated: str | None = None) -> Json:
    text = json.dumps(configmap(data)) if annotated is None else annotated
    obj = configmap(data, annotations={ANNOTATION: text})
    MANAGER.update(None, obj, manager="kubectl-client-side-apply", api_version="v1", now=NOW)
    obj["metadata"]["uid"] = "u"
    return obj


def apply(live: Json, config: Json, manager: str = "kubectl") -> Json:
    return MANAGER.apply(live, config, manager=manager, api_version="v1", now=NOW)


def test_kubectl_takes_over_what_it_applied_client_side() -> None:
    result = apply(client_side({"a": "1", "b": "1"}), configmap({"a": "2", "b": "1"}))
    assert result["data"] == {"a": "2", "b": "1"}


def test_the_annotation_follows_the_server_side_apply() -> None:
    config = configmap({"a": "<2>"}, annotations={"own": "x"})
    result = apply(client_side({"a": "1"}), config)
    assert result["metadata"]["annotations"][ANNOTATION] == (
        '{"apiVersion":"v1","data":{"a":"\\u003c2\\u003e"},"kind":"ConfigMap",'
        '"metadata":{"annotations":{"own":"x"},"name":"a"}}\n'
    )


def test_an_annotation_that_would_be_too_large_is_dropped() -> None:
    result = apply(client_side({"a": "1"}), configmap({"a": "x" * 300_000}))
    assert ANNOTATION not in result["metadata"]["annotations"]


def test_without_an_annotation_none_is_made() -> None:
    live = MANAGER.apply(None, configmap({"a": "1"}), manager="kubectl", api_version="v1", now=NOW)
    assert "annotations" not in apply(live, configmap({"a": "2"}))["metadata"]


def test_other_managers_get_no_such_favour() -> None:
    with pytest.raises(StatusError, match="conflict with"):
        apply(client_side({"a": "1"}), configmap({"a": "2"}), manager="other")


def test_fields_that_others_changed_since_are_in_conflict() -> None:
    live = client_side({"a": "1", "b": "1"})
    new = configmap({"a": "theirs", "b": "1"}, uid="u", annotations=live["metadata"]["annotations"])
    MANAGER.update(live, new, manager="other", api_version="v1", now=NOW)
    with pytest.raises(StatusError) as caught:
        apply(new, configmap({"a": "2", "b": "2"}))
    assert caught.value.message == ('Apply failed with 1 conflict: conflict with "other" using v1: .data.a')


@pytest.mark.parametrize(
    "annotated",
    [
        "{",
        "[]",
        json.dumps({**configmap({"a": "1"}), "apiVersion": "v2"}),
        json.dumps({**configmap({"a": "1"}), "unknown": 1}),
        "",
    ],
)
def test_an_annotation_that_cannot_be_used_allows_nothing(annotated: str) -> None:
    with pytest.raises(StatusError, match="conflict with"):
        apply(client_side({"a": "1"}, annotated), configmap({"a": "2"}))
