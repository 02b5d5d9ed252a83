"""A round trip loses nothing, edits win, nothing removed comes back."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from groupstrategy import a1_groups, a2_groups, old_versions, v1_groups
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from quarterdeck.api import schema_of
from quarterdeck.operators.nodegroup import names
from quarterdeck.operators.nodegroup.logic.conversion import convert_with, resolved_type
from quarterdeck.operators.nodegroup.logic.express import Open, express
from quarterdeck.operators.nodegroup.logic.roundtrip import MAX_SIZE
from quarterdeck.operators.nodegroup.logic.shape import fit
from quarterdeck.operators.nodegroup.logic.validity import is_valid, violations
from quarterdeck.operators.nodegroup.types import VERSIONS

Json = dict[str, Any]
thorough = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def convert(document: Json, target: str, permanent: tuple[str, ...] = ()) -> Json:
    before = copy.deepcopy(document)
    converted: Json = convert_with(document, target, lambda: permanent)
    assert document == before, "the input was changed"
    short = shortcut(document, target, permanent)
    if short is not None:
        assert short == converted, "the short way leads somewhere else"
    return converted


def shortcut(document: Json, target: str, permanent: tuple[str, ...] = ()) -> Json | None:
    """What `express` makes of a document; the annotation must be the same to the letter."""
    found = express(json.dumps(document).encode(), document["apiVersion"], target)
    if isinstance(found, Open):
        found = found.settle(resolved_type(found.name, permanent))
    return json.loads(found) if found is not None else None


def memory_of(document: Json) -> Any:
    return json.loads(document["metadata"]["annotations"][names.CONVERSION_DATA])


def without_memory(document: Json) -> Json:
    cleaned = copy.deepcopy(document)
    annotations = cleaned["metadata"].get("annotations", {})
    annotations.pop(names.CONVERSION_DATA, None)
    if not annotations:
        cleaned["metadata"].pop("annotations", None)
    return cleaned


@thorough
@given(v1_groups, old_versions)
def test_v1_over_an_old_version_is_the_identity_and_leaves_no_annotation(group: Json, old: str) -> None:
    assert is_valid(group), violations(group)
    assert convert(convert(group, old), names.V1) == group


@thorough
@given(v1_groups)
def test_v1_over_both_old_versions_is_the_identity_apart_from_the_annotation(group: Json) -> None:
    for first, second in ((names.V1ALPHA1, names.V1ALPHA2), (names.V1ALPHA2, names.V1ALPHA1)):
        back = convert(convert(convert(group, first), second), names.V1)
        assert without_memory(back) == group


@thorough
@given(st.one_of(a1_groups, a2_groups), st.sampled_from(names.VERSIONS))
def test_an_old_object_over_any_version_comes_back_apart_from_the_annotation(group: Json, over: str) -> None:
    assume(group["apiVersion"] != over)
    back = convert(convert(group, over, ("listed",)), group["apiVersion"], ("listed",))
    assert without_memory(back) == without_memory(group)


@thorough
@given(v1_groups, old_versions)
def test_the_old_form_fits_its_schema_and_holds_no_field_the_schema_does_not_know(
    group: Json, old: str
) -> None:
    converted = convert(group, old)
    assert fit(old, converted) is converted


@thorough
@given(v1_groups, old_versions)
def test_the_short_way_there_and_back_is_taken_unless_docker_is_in_the_way(group: Json, old: str) -> None:
    converted = shortcut(group, old)
    if converted is None:
        assert old == names.V1ALPHA1
        assert "docker" in group["spec"]["cri"]
        return
    assert converted == convert(group, old)
    cri = group["spec"].get("cri", {})
    if "containerdV2" in cri and cri["type"] != "ContainerdV2":
        return  # settings of a runtime that was not chosen: possible, and rare
    assert shortcut(converted, names.V1) == group


@thorough
@given(v1_groups, old_versions, st.data())
def test_an_edit_in_the_old_version_wins(group: Json, old: str, data: st.DataObject) -> None:
    edited = convert(group, old)
    edit = data.draw(
        st.sampled_from(
            [
                ("nodeTemplate", {"labels": {"edited": "yes"}}),
                ("kubelet", {"maxPods": 77}),
                ("chaos", {"mode": "Disabled", "period": "9h"}),
                ("disruptions", {"approvalMode": "Manual"}),
            ]
        )
    )
    edited["spec"][edit[0]] = edit[1]
    back = convert(edited, names.V1)
    for key, value in edit[1].items():
        assert back["spec"][edit[0]][key] == value


@thorough
@given(v1_groups, old_versions, st.data())
def test_what_was_removed_in_the_old_version_does_not_come_back(
    group: Json, old: str, data: st.DataObject
) -> None:
    edited = convert(group, old)
    removable = sorted(edited["spec"].keys() - {"nodeType", "docker"})
    assume(removable)
    removed = data.draw(st.sampled_from(removable))
    del edited["spec"][removed]
    spec = convert(edited, names.V1)["spec"]
    if removed == "cri" and "docker" in edited["spec"]:  # v1alpha1 keeps Docker's settings elsewhere
        assert spec["cri"]["docker"] == edited["spec"]["docker"]
    else:
        assert removed not in spec


@thorough
@given(v1_groups, old_versions, st.sampled_from(names.OLD_CRI_TYPES))
def test_a_runtime_chosen_in_the_old_version_wins(group: Json, old: str, chosen: str) -> None:
    edited = convert(group, old)
    present = edited["spec"].get("cri", {}).get("type")
    assume(present is not None and present != chosen)
    edited["spec"]["cri"]["type"] = chosen
    assert convert(edited, names.V1)["spec"]["cri"]["type"] == chosen


def group(**spec: Any) -> Json:
    return {
        "apiVersion": names.V1,
        "kind": names.KIND,
        "metadata": {"name": "foo"},
        "spec": {"nodeType": "Static", **spec},
    }


def test_the_annotation_is_compact_json_with_sorted_keys_and_paths() -> None:
    given_group = group(
        nodeType="CloudPermanent",
        cri={"type": "ContainerdV2", "containerdV2": {"maxConcurrentDownloads": 5}},
        kubelet={"maxPods": 10, "resourceReservation": {"mode": "Off"}},
    )
    converted = convert(given_group, names.V1ALPHA1)
    assert converted["spec"] == {
        "nodeType": "Hybrid",
        "cri": {"type": "Containerd", "containerd": {"maxConcurrentDownloads": 5}},
        "kubelet": {"maxPods": 10},
    }
    assert converted["metadata"]["annotations"][names.CONVERSION_DATA] == (
        '{"deckhouse.io/v1":[{"path":"/spec/cri/containerd","was":{"maxConcurrentDownloads":5}},'
        '{"path":"/spec/cri/containerdV2","value":{"maxConcurrentDownloads":5}},'
        '{"path":"/spec/cri/type","value":"ContainerdV2","was":"Containerd"},'
        '{"path":"/spec/kubelet/resourceReservation","value":{"mode":"Off"}},'
        '{"path":"/spec/nodeType","value":"CloudPermanent","was":"Hybrid"}]}'
    )


def test_settings_edited_in_the_old_version_stay_settings_of_containerd_v2() -> None:
    converted = convert(group(cri={"type": "ContainerdV2", "containerdV2": {}}), names.V1ALPHA2)
    converted["spec"]["cri"]["containerd"] = {"maxConcurrentDownloads": 9}
    back = convert(converted, names.V1)
    assert back["spec"]["cri"] == {"type": "ContainerdV2", "containerdV2": {"maxConcurrentDownloads": 9}}


def test_settings_removed_in_the_old_version_leave_bare_containerd_v2() -> None:
    source = group(cri={"type": "ContainerdV2", "containerdV2": {"maxConcurrentDownloads": 5}})
    converted = convert(source, names.V1ALPHA2)
    del converted["spec"]["cri"]["containerd"]
    assert convert(converted, names.V1)["spec"]["cri"] == {"type": "ContainerdV2"}


@pytest.mark.parametrize(
    "value",
    [
        "not json",
        "[]",
        "null",
        '{"deckhouse.io/v1":{}}',
        '{"deckhouse.io/v1":[7]}',
        '{"deckhouse.io/v1":[{"path":7}]}',
        '{"deckhouse.io/v1":[{"path":"spec"}]}',
        '{"deckhouse.io/v1":[{"path":""}]}',
        "[" * 100_000,
    ],
)
def test_an_annotation_that_makes_no_sense_is_dropped(value: str) -> None:
    document = group()
    document["apiVersion"] = names.V1ALPHA2
    document["metadata"]["annotations"] = {names.CONVERSION_DATA: value}
    assert convert(document, names.V1) == group()


def crafted(*entries: Json, spec: Json | None = None) -> Json:
    document = group(**(spec or {}))
    document["apiVersion"] = names.V1ALPHA2
    value = json.dumps({names.V1: list(entries)})
    document["metadata"]["annotations"] = {names.CONVERSION_DATA: value}
    return document


@pytest.mark.parametrize(
    "entry",
    [
        {"path": "/spec/gpu", "value": {"sharing": "Nonsense"}},
        {"path": "/spec/gpu", "value": {}},
        {"path": "/spec/gpu", "value": 7},
        {"path": "/spec/staticInstances", "value": {"count": -1}},
        {"path": "/spec/cloudInstances", "value": {"minPerZone": 1, "maxPerZone": 1, "classReference": {}}},
        {"path": "/spec/nodeType", "was": "Static", "value": "Nowhere"},
        {"path": "/spec/nodeType", "was": "Static"},
        {"path": "/metadata/name", "was": "foo", "value": "other"},
        {"path": "/apiVersion", "value": "v9"},
        {"path": "/", "value": 1},
    ],
)
def test_a_crafted_annotation_cannot_bring_in_what_the_schema_forbids(entry: Json) -> None:
    assert convert(crafted(entry), names.V1) == group()


def test_unknown_fields_in_a_crafted_annotation_are_pruned() -> None:
    entry = {"path": "/spec/update", "value": {"maxConcurrent": 2, "unknown": True}}
    assert convert(crafted(entry), names.V1) == group(update={"maxConcurrent": 2})


def test_a_group_that_breaks_the_v1_schema_anyway_still_gets_its_fields_back() -> None:
    source = group(cloudInstances={"minPerZone": 1, "maxPerZone": 1, "classReference": {}}, update={})
    assert violations(source)
    assert convert(convert(source, names.V1ALPHA1), names.V1) == source


def test_data_beyond_the_limit_is_not_stored() -> None:
    big = group(staticInstances={"labelSelector": {"matchLabels": {"a": "x" * MAX_SIZE}}})
    assert "annotations" not in convert(big, names.V1ALPHA1)["metadata"]


def test_removing_the_annotation_loses_the_data_by_choice() -> None:
    converted = convert(group(nodeType="CloudPermanent", update={"maxConcurrent": 3}), names.V1ALPHA1)
    del converted["metadata"]["annotations"]
    assert convert(converted, names.V1) == group(nodeType="CloudStatic")


def test_v1alpha1_remembers_what_v1_cannot_hold() -> None:
    document = group(kubernetesVersion="1.33", docker={"manage": False})
    document["apiVersion"] = names.V1ALPHA1
    converted = convert(document, names.V1)
    assert converted["spec"] == {"nodeType": "Static", "cri": {"type": "Docker", "docker": {"manage": False}}}
    paths = [entry["path"] for entry in memory_of(converted)[names.V1ALPHA1]]
    assert paths == ["/spec/cri", "/spec/kubernetesVersion"]
    assert without_memory(convert(converted, names.V1ALPHA1)) == document


def known_paths(schema: Any, path: str = "") -> set[str]:
    found = {path}
    for key, child in schema.get("properties", {}).items():
        found |= known_paths(child, f"{path}.{key}")
    return found | (known_paths(schema["items"], f"{path}[]") if "items" in schema else set())


def test_the_list_of_lost_fields_is_what_the_schemas_say() -> None:
    from quarterdeck.operators.nodegroup.logic.mapping import LOST

    new = known_paths(schema_of(VERSIONS[names.V1]))
    for version in (names.V1ALPHA1, names.V1ALPHA2):
        missing = new - known_paths(schema_of(VERSIONS[version]))
        listed = {f".{'.'.join(parent)}.{key}" for parent, keys in LOST.items() for key in keys}
        unlisted = {path for path in missing if not any(path.startswith(lost) for lost in listed)}
        assert all(path.startswith(".spec.cri.") for path in unlisted), unlisted
