"""A round trip loses nothing, edits win, nothing removed comes back."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from quarterdeck.api.schema import schema_of
from quarterdeck.operators.nodegroup import names
from quarterdeck.operators.nodegroup.logic.conversion import convert_with
from quarterdeck.operators.nodegroup.logic.roundtrip import MAX_SIZE
from quarterdeck.operators.nodegroup.logic.shape import fit
from quarterdeck.operators.nodegroup.logic.validity import violations
from quarterdeck.operators.nodegroup.types import VERSIONS

from .groupstrategy import (
    a1_groups,
    a1_sections,
    a2_groups,
    a2_sections,
    old_versions,
    status,
    v1_groups,
    v1_sections,
    v1_status,
)

Json = dict[str, Any]
thorough = settings(max_examples=120)


def convert(document: Json, target: str, permanent: tuple[str, ...] = ()) -> Json:
    before = copy.deepcopy(document)
    converted: Json = convert_with(document, target, lambda: permanent)
    assert document == before, "the input was changed"
    return converted


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
    assert violations(group) == set()
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
@given(st.one_of(a1_groups, a2_groups), st.permutations(names.VERSIONS))
def test_an_old_object_over_all_versions_comes_back_apart_from_the_annotation(
    group: Json, way: list[str]
) -> None:
    found = group
    for version in (*way, group["apiVersion"]):
        if version != found["apiVersion"]:
            found = convert(found, version, ("listed",))
    assert without_memory(found) == without_memory(group)


@thorough
@given(v1_groups, old_versions)
def test_the_old_form_fits_its_schema_and_holds_no_field_the_schema_does_not_know(
    group: Json, old: str
) -> None:
    converted = convert(group, old)
    assert fit(old, converted) is converted


@st.composite
def edits(draw: st.DrawFn, document: Json, other: Json) -> set[str]:
    """Change `document` as a user may: take sections of another group, or remove something, however deep."""
    spec, touched = document["spec"], set()
    for _ in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            section = draw(st.sampled_from(sorted(other["spec"])))
            spec[section] = other["spec"][section]
            touched.add(section)
            continue
        place, steps = spec, []
        while True:
            keys = sorted(place.keys() - ({"nodeType"} if place is spec else set()))
            if not keys:
                break
            steps.append(draw(st.sampled_from(keys)))
            child = place[steps[-1]]
            if not isinstance(child, dict) or not child or draw(st.booleans()):
                del place[steps[-1]]
                touched.add(steps[0])
                break
            place = child
    return touched


@thorough
@given(v1_groups, old_versions, st.data())
def test_edits_in_the_old_version_win_and_nothing_removed_comes_back(
    group: Json, old: str, data: st.DataObject
) -> None:
    edited = convert(group, old)
    other = data.draw(a1_groups if old == names.V1ALPHA1 else a2_groups)
    touched = data.draw(edits(edited, other))
    new = convert(edited, names.V1)
    again = convert(new, old)
    assert without_memory(again) == without_memory(edited), "an edit got lost, or something came back"
    if "nodeType" in touched:
        return  # fields that do not go with the new type are given up
    untouched = new["spec"].keys() - touched - ({"cri"} if "docker" in touched else set())
    assert {key: new["spec"][key] for key in untouched} == {
        key: value for key, value in group["spec"].items() if key in untouched
    }
    lost_for_good = group["spec"].keys() - new["spec"].keys()
    assert lost_for_good <= touched, "more than the edit is missing"
    assert new.get("status") == group.get("status")


# most groups have no runtime, or the chosen one already: with some seeds nearly all
@settings(thorough, suppress_health_check=[*HealthCheck])
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


def used_paths(value: Any, path: str = "") -> set[str]:
    found = {path}
    if isinstance(value, dict):
        for key, child in value.items():
            found |= used_paths(child, f"{path}.{key}")
    for child in value if isinstance(value, list) else ():
        found |= used_paths(child, f"{path}[]")
    return found


def paths_drawn(strategy: Any, path: str) -> set[str]:
    """The paths that a strategy uses below `path`, always the same ones."""
    seen: set[str] = set()

    @settings(thorough, derandomize=True, max_examples=150)
    @given(strategy)
    def look(part: Any) -> None:
        seen.update(used_paths(part, path))

    look()
    return seen


@pytest.mark.parametrize(
    ("version", "sections", "group_status"),
    [
        (names.V1, v1_sections, v1_status),
        (names.V1ALPHA2, a2_sections, status),
        (names.V1ALPHA1, a1_sections, status),
    ],
    ids=["v1", "v1alpha2", "v1alpha1"],
)
def test_generated_groups_use_every_field_of_their_version(
    version: str, sections: Json, group_status: Json
) -> None:
    seen = {".spec", ".spec.nodeType", ".status"}
    for root, parts in ((".spec", sections), (".status", group_status)):
        for name, strategy in parts.items():
            seen |= paths_drawn(strategy, f"{root}.{name}")
    schema = schema_of(VERSIONS[version])["properties"]
    wanted = known_paths(schema["spec"], ".spec") | known_paths(schema["status"], ".status")
    assert wanted <= seen, wanted - seen


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
