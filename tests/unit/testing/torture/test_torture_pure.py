"""What torture decides without doing anything: seeds, workloads, pictures, oracles, plans, reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from quarterdeck.errors import ConfigError
from quarterdeck.testing.torture import (
    ORACLES,
    PATTERNS,
    Finding,
    Perturbation,
    Report,
    Seed,
    WritePoint,
    as_html,
    as_json,
    as_junit,
    as_text,
    changes_of,
    oracle,
    read_workload,
    schema_of,
    tampering,
    usual_workload,
)
from quarterdeck.testing.torture.picture import StoredObject, learn, take_picture
from quarterdeck.testing.torture.plan import seeds_of
from quarterdeck.testing.torture.reference import Outcome, Write, learn_reference
from quarterdeck.testing.torture.shrink import without_an_edit, without_the_rest

Json = dict[str, Any]
SAMPLE: Json = {
    "apiVersion": "example.com/v1",
    "kind": "Widget",
    "metadata": {"name": "a", "namespace": "default"},
    "spec": {"replicas": 2, "mode": "fast", "size": "10Gi", "items": ["x"]},
}


@pytest.mark.parametrize(
    "text",
    [
        "undisturbed",
        "kill@create,statefulsets.apps,1",
        "refuse:409@update,widgets.example.com/status,2",
        "stale:0begin@2+kill@delete,pods,3",
        "stale:create,pods,1@4",
        "miss@1",
        "field:spec.replicas.1@0~0",
        "occupy:configmaps/default/x~0,3",
    ],
)
def test_a_seed_is_read_as_it_was_written(text: str) -> None:
    assert str(Seed.parse(text)) == text


@pytest.mark.parametrize("text", ["burn@0", "kill@create,pods", "kill@create,pods,x", "kill@0~a"])
def test_a_seed_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        Seed.parse(text)


def test_a_workload_is_read_with_the_object_created_last_in_mind() -> None:
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    steps = [{"create": {}}, {"edit": {"spec": {"replicas": 3}}}, {"create": "c.yaml"}, {"delete": {}}]
    workload = read_workload(steps, SAMPLE, lambda each: other if each == "c.yaml" else {})
    assert [each.label for each in workload.steps] == [
        "create Widget a",
        'edit Widget a {"spec":{"replicas":3}}',
        "create ConfigMap c",
        "delete ConfigMap c",
    ]


@pytest.mark.parametrize(
    "steps", [None, [], [{"paint": 1}], [{"create": {}, "delete": {}}], [{"create": {"a": 1}}]]
)
def test_a_workload_of_something_else_is_refused(steps: object) -> None:
    with pytest.raises(ConfigError, match="workload"):
        read_workload(steps, SAMPLE, lambda name: {})


def stored(resource: str, name: str, uid: str, **fields: Any) -> StoredObject:
    metadata = {"name": name, "namespace": "default", "uid": uid, "resourceVersion": uid[-1], "generation": 3}
    kinds = {"widgets.example.com": ("example.com/v1", "Widget"), "configmaps": ("v1", "ConfigMap")}
    api_version, kind = kinds.get(resource, ("v1", "Pod"))
    metadata |= fields.pop("metadata", {})
    return StoredObject(resource, {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields})


def uid(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012}"


def test_a_picture_leaves_out_what_the_server_and_chance_decide() -> None:
    def state(first: int) -> list[StoredObject]:
        owner = {"kind": "Widget", "name": "a", "uid": uid(first)}
        return [
            stored("widgets.example.com", "a", uid(first), status={"observedGeneration": 3}),
            stored(
                "configmaps",
                f"a-{first}",
                uid(first + 1),
                metadata={"generateName": "a-", "ownerReferences": [owner]},
                data={"at": f"2030-01-0{first}T00:00:00Z", "who": uid(first)},
            ),
            stored("pods", "old", uid(99)),
        ]

    own = {"widgets.example.com default/a", "configmaps default/a-*"}
    one, other = (take_picture(state(first), own, {uid(99)}) for first in (1, 5))
    assert one == other
    assert sorted(one.objects) == ["configmaps default/a-*", "widgets.example.com default/a"]


def test_an_object_that_was_made_again_under_its_generated_name_is_the_same() -> None:
    own = {"configmaps default/a-*"}
    first = stored("configmaps", "a-b2x9z", uid(1), metadata={"generateName": "a-"}, data={"x": "1"})
    again = stored("configmaps", "a-b2x9z", uid(2), data={"x": "1"})
    other = stored("configmaps", "a-config", uid(2), data={"x": "1"})
    one, two, three = (take_picture([each], own, ()) for each in (first, again, other))
    assert one == two
    assert one != three


def test_an_owner_that_is_gone_is_a_difference() -> None:
    def state(owner: str) -> list[StoredObject]:
        reference = {"kind": "Widget", "name": "a", "uid": owner}
        return [
            stored("widgets.example.com", "a", uid(1)),
            stored("configmaps", "c", uid(2), metadata={"ownerReferences": [reference]}),
        ]

    own = {"configmaps default/c"}
    right, wrong = (take_picture(state(owner), own, ()) for owner in (uid(1), uid(7)))
    (difference,) = learn(right, right).differences(wrong)
    assert difference.path == "metadata.ownerReferences.0.uid"


def test_what_differs_between_two_undisturbed_runs_does_not_count() -> None:
    def picture(**data: str) -> Any:
        return take_picture([stored("configmaps", "c", uid(2), data=data)], {"configmaps default/c"}, ())

    expectation = learn(picture(password="a", user="u"), picture(password="b", user="u"))
    assert expectation.differences(picture(password="c", user="u")) == []
    (difference,) = expectation.differences(picture(password="c", user="v"))
    assert (difference.path, difference.expected, difference.found) == ("data.user", "u", "v")


def test_objects_whose_names_differ_are_counted() -> None:
    def picture(*names: str) -> Any:
        return take_picture([stored("pods", each, uid(place)) for place, each in enumerate(names)], (), ())

    expectation = learn(picture("a-1", "a-2"), picture("a-3", "a-4"))
    assert expectation.differences(picture("a-5", "a-6")) == []
    (difference,) = expectation.differences(picture("a-5"))
    assert (difference.expected, difference.found) == (2, 1)


def test_a_status_that_is_behind_is_told() -> None:
    late = stored("widgets.example.com", "a", uid(1), status={"observedGeneration": 2})
    condition = {"type": "Ready", "status": "True", "observedGeneration": 2}
    older = stored("widgets.example.com", "a", uid(1), status={"conditions": [condition]})
    fine = stored("widgets.example.com", "a", uid(1), status={"observedGeneration": 3})
    assert [len(oracle.behind(0, each)) for each in (late, older, fine)] == [1, 1, 0]


def test_only_a_claim_about_the_latest_spec_is_one() -> None:
    ready = {"type": "Ready", "status": "True"}

    def claim(**status: Any) -> str:
        return oracle.claim_of(stored("widgets.example.com", "a", uid(1), status=status))

    assert claim(conditions=[ready]) == "condition Ready is True"
    assert claim(phase="Running") == "phase is Running"
    assert claim(conditions=[ready], observedGeneration=2) == ""
    assert claim(conditions=[{**ready, "status": "False"}]) == ""


def test_an_object_of_somebody_else_must_stay_as_it_is() -> None:
    before = stored("configmaps", "c", uid(1), data={"a": "1"})
    changed = stored("configmaps", "c", uid(1), data={"a": "2"})
    replaced = stored("configmaps", "c", uid(2), data={"a": "1"})
    assert oracle.touched(0, before, before) == []
    for after in (changed, replaced, None):
        (problem,) = oracle.touched(0, before, after)
        assert problem.oracle == "foreign"


def test_words_of_a_program_that_ended() -> None:
    assert "panic: boom" in oracle.last_words("starting\npanic: boom\n\ngoroutine 1 [running]:\nmain.go:3")
    assert oracle.has_panicked("panic: boom")
    assert not oracle.has_panicked("Traceback (most recent call last):\nValueError: logged and tried again")
    assert "ValueError: x" in oracle.last_words("Traceback (most recent call last):\n  File\nValueError: x\n")
    assert "without a word" in oracle.last_words("")


def test_what_is_spoiled_in_a_child() -> None:
    replicas = stored("deployments.apps", "d", uid(1), spec={"replicas": 2})
    secret = stored("secrets", "s", uid(1), data={"b": "eA==", "a": "eA=="})
    assert tampering.edit_of(replicas) == {"spec": {"replicas": 3}}
    assert tampering.edit_of(secret) == {"data": {"a": "c3BvaWxlZA=="}}
    assert tampering.edit_of(stored("pods", "p", uid(1), spec={})) == {}


SCHEMA: Json = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["mode"],
            "properties": {
                "replicas": {"type": "integer", "minimum": 1, "maximum": 3},
                "mode": {"type": "string", "enum": ["fast", "slow"]},
                "size": {"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+Gi$"},
                "items": {"type": "array", "items": {"type": "string"}},
                "paused": {"type": "boolean"},
                "template": {"type": "object", "properties": {"deep": {"type": "integer"}}},
            },
        }
    },
}


def test_valid_changes_of_each_field_and_the_way_back() -> None:
    changes = changes_of(SCHEMA, SAMPLE)
    valid = {name: (each.there, each.back) for name, each in changes.items() if each.is_valid}
    assert valid == {
        "spec.replicas.1": ({"spec": {"replicas": 3}}, {"spec": {"replicas": 2}}),
        "spec.replicas.2": ({"spec": {"replicas": 1}}, {"spec": {"replicas": 2}}),
        "spec.replicas.3": ({"spec": {"replicas": None}}, {"spec": {"replicas": 2}}),
        "spec.mode.1": ({"spec": {"mode": "slow"}}, {"spec": {"mode": "fast"}}),
        "spec.size.1": ({"spec": {"size": "20Gi"}}, {"spec": {"size": "10Gi"}}),
        "spec.size.2": ({"spec": {"size": None}}, {"spec": {"size": "10Gi"}}),
        "spec.items.1": ({"spec": {"items": ["x", "xx"]}}, {"spec": {"items": ["x"]}}),
        "spec.items.2": ({"spec": {"items": []}}, {"spec": {"items": ["x"]}}),
        "spec.items.3": ({"spec": {"items": None}}, {"spec": {"items": ["x"]}}),
        "spec.paused.1": ({"spec": {"paused": True}}, {"spec": {"paused": None}}),
    }
    invalid = {next(iter(each.there["spec"].items())) for each in changes.values() if not each.is_valid}
    assert ("replicas", 0) in invalid
    assert ("mode", "no value of this field") in invalid


def test_the_schema_is_that_of_the_samples_version() -> None:
    def version(name: str, schema: Json) -> Json:
        return {"name": name, "schema": {"openAPIV3Schema": schema}}

    definition = {
        "spec": {
            "group": "example.com",
            "names": {"kind": "Widget"},
            "versions": [version("v2", {"type": "string"}), version("v1", SCHEMA)],
        }
    }
    assert schema_of([{"kind": "Role"}, definition], SAMPLE) == SCHEMA
    assert schema_of([], SAMPLE) == {}


def outcome_of_a_run() -> Outcome:
    widget = stored("widgets.example.com", "a", uid(1))
    child = stored("configmaps", "c", uid(2), data={"a": "1"})
    writes = [
        Write(0, WritePoint("create", "configmaps", 1), "configmaps default/c", 201),
        Write(0, WritePoint("update", "widgets.example.com/status", 1), "widgets.example.com default/a", 200),
    ]
    states = [[widget, child], []]
    return Outcome(states=states, writes=writes, watched={"widgets.example.com"}, seconds=[1.0, 1.0])


def test_every_write_is_a_moment_to_be_killed_at_and_every_pattern_comes_early() -> None:
    workload = usual_workload(SAMPLE).kept((0, 1))
    reference = learn_reference(outcome_of_a_run(), outcome_of_a_run())
    seeds = [str(each) for each in seeds_of(workload, reference, changes_of(SCHEMA, SAMPLE))]
    assert len(seeds) == len(set(seeds))
    assert [each for each in sorted(seeds) if each.startswith("kill")] == [
        "kill@create,configmaps,1",
        "kill@update,widgets.example.com/status,1",
    ]
    assert {"delete-child:configmaps/default/c@0", "occupy:configmaps/default/c~0,1"} <= set(seeds)
    patterns = [Seed.parse(each).pattern for each in seeds]
    assert len(set(patterns[:16])) == 16
    only = seeds_of(workload, reference, {}, patterns=["kill"], seed=3)
    assert {each.pattern for each in only} == {"kill"}


def test_shorter_runs_keep_what_matters() -> None:
    workload = usual_workload(SAMPLE, [{"spec": {}}, {"spec": {}}])
    found = Seed((Perturbation("delete-child", "configmaps/default/c", None, 2),))
    shorter = without_the_rest(found, len(workload.steps), 2)
    assert shorter.steps == (0, 1, 2)
    (without,) = without_an_edit(shorter, workload)
    assert str(without) == "delete-child:configmaps/default/c@1~0,2"


def test_a_report_in_every_form() -> None:
    finding = Finding(
        "kill@create,pods,1", "kill", "state", "it <broke> & stayed", ("create Widget a",), ("a: b",), 2, True
    )
    report = Report(planned=3, runs=2, by_pattern={"kill": 2}, findings=[finding])
    assert "again: torture --replay kill@create,pods,1 -- x" in as_text(report, "torture --replay %s -- x")
    assert json.loads(as_json(report))["findings"][0]["seed"] == "kill@create,pods,1"
    suite = ElementTree.fromstring(as_junit(report))
    (failure,) = suite.iter("failure")
    assert failure.get("message") == "it <broke> & stayed"
    assert "it &lt;broke&gt; &amp; stayed" in as_html(report)


def test_the_page_explains_every_pattern_and_oracle() -> None:
    page = (Path(__file__).parents[4] / "docs" / "torture.md").read_text()
    assert [line for line in PATTERNS if f"| `{line}` | {PATTERNS[line]} |" not in page] == []
    assert [name for name in ORACLES if f"| `{name}` |" not in page] == []
