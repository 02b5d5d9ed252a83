"""Apply configurations of mutating policies against real kinds."""

from typing import Any

import pytest

from quarterdeck.apiserver.apply.configuration import merge_configuration
from quarterdeck.apiserver.apply.model import builtin_model

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap"}


def _merge(live: dict[str, Any], configuration: dict[str, Any]) -> dict[str, Any]:
    return merge_configuration(
        builtin_model("", "v1", "ConfigMap"), {**CONFIG_MAP, **live}, {**CONFIG_MAP, **configuration}
    )


def test_maps_are_united_and_sets_extended() -> None:
    live = {"metadata": {"name": "x", "labels": {"z": "1", "a": "q"}, "finalizers": ["x.y/z"]}}
    merged = _merge(live, {"metadata": {"labels": {"a": "b"}, "finalizers": ["a.b/c"]}})
    assert merged["metadata"] == {
        "name": "x",
        "labels": {"z": "1", "a": "b"},
        "finalizers": ["x.y/z", "a.b/c"],
    }


@pytest.mark.parametrize(
    ("configuration", "text"),
    [
        ({"zzz": 1}, "failed to convert patch object to typed object: .zzz: field not declared in schema"),
        (
            {"data": {"a": 1}},
            (
                "failed to convert patch object to typed object: "
                ".data.a: expected string, got &value.valueUnstructured{Value:1}"
            ),
        ),
        (
            {"metadata": {"ownerReferences": [{"uid": "u", "name": "p", "kind": "Pod", "apiVersion": "v1"}]}},
            (
                "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: "
                ".metadata.ownerReferences[0]"
            ),
        ),
    ],
)
def test_what_does_not_fit_is_refused(configuration: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError) as raised:
        _merge({"metadata": {"name": "x"}}, configuration)
    assert str(raised.value) == text
