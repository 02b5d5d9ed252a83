"""managedFields on their way through a Scale."""

from typing import Any

from quarterdeck.apiserver.apply import scale

Json = dict[str, Any]

PATHS = {"apps/v1": ("f:spec", "f:replicas"), "apps/v0": None}


def entry(
    manager: str, fields: Json, operation: str = "Update", version: str = "apps/v1", **more: str
) -> Json:
    made = {"manager": manager, "operation": operation, "apiVersion": version, "fieldsType": "FieldsV1"}
    return {**made, "fieldsV1": fields, **more}


REPLICAS: Json = {"f:spec": {"f:replicas": {}}}
BOTH: Json = {"f:spec": {"f:replicas": {}, "f:paused": {}}}


def test_owners_of_the_replicas_own_them_in_the_scale() -> None:
    parent = [
        entry("a", BOTH, "Apply", time="t"),
        entry("b", {"f:spec": {}}),
        entry("c", REPLICAS, version="apps/v0"),
    ]
    assert scale.to_scale(parent, PATHS) == [entry("a", REPLICAS, "Apply", scale.API_VERSION, time="t")]


def test_a_scaler_takes_the_replicas_from_their_owner() -> None:
    scaled = [entry("s", REPLICAS, version=scale.API_VERSION, subresource="scale", time="t")]
    assert scale.to_parent([entry("a", BOTH)], scaled, "apps/v1", PATHS) == [
        entry("a", {"f:spec": {"f:paused": {}}}),
        entry("s", REPLICAS, subresource="scale"),
    ]


def test_an_owner_of_nothing_else_goes() -> None:
    scaled = [entry("s", REPLICAS, version=scale.API_VERSION, subresource="scale")]
    assert scale.to_parent([entry("a", REPLICAS)], scaled, "apps/v1", PATHS) == [
        entry("s", REPLICAS, subresource="scale")
    ]


def test_an_owner_that_keeps_the_replicas_is_left_alone() -> None:
    parent = [entry("a", BOTH), entry("b", {"f:spec": {"f:paused": {}}})]
    scaled = [entry("a", REPLICAS, version=scale.API_VERSION)]
    assert scale.to_parent(parent, scaled, "apps/v1", PATHS) == parent


def test_entries_of_unknown_versions_are_dropped_and_those_without_scale_kept() -> None:
    parent = [entry("a", REPLICAS, version="apps/v0"), entry("b", REPLICAS, version="apps/v9")]
    assert scale.to_parent(parent, [], "apps/v1", PATHS) == parent[:1]
