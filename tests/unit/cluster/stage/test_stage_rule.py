"""Stages, compiled: whom they concern, when, with what weight."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from quarterdeck.cluster.stage.error import StageError
from quarterdeck.cluster.stage.rule import Finalizers, StageRule, choose, compiled

POD: dict[str, Any] = {
    "metadata": {"labels": {"app": "x"}, "annotations": {"delay": "90s", "weight": "5"}},
    "status": {"phase": "Pending"},
}


def rule(name: str = "s", selector: Any = None, **spec: Any) -> StageRule:
    reference = {"apiGroup": "v1", "kind": "Pod"}
    document = {
        "metadata": {"name": name},
        "spec": {"resourceRef": reference, "selector": selector or {}, **spec},
    }
    found = compiled(msgspec.json.encode(document))
    assert found is not None
    return found


def asking(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "concerns"),
    [
        ({}, True),
        ({"matchLabels": {"app": "x"}}, True),
        ({"matchLabels": {"app": "y"}}, False),
        ({"matchAnnotations": {"delay": "90s"}}, True),
        (asking(".status.phase", "In", "Running", "Pending"), True),
        (asking(".status.phase", "NotIn", "Running"), True),
        (asking(".status.phase", "NotIn", "Pending"), False),
        (asking(".status.podIP", "Exists"), False),
        (asking(".status.podIP", "DoesNotExist"), True),
        (asking(".status.conditions.[].type", "In", "Ready"), False),
        (asking(".status.conditions.[].type", "NotIn", "Ready"), True),
        ({"matchExpressions": [{"jq": {"key": ".status.phase", "operator": "Exists"}}]}, True),
    ],
)
def test_selectors(selector: Any, concerns: bool) -> None:
    assert rule(selector=selector).concerns(POD) is concerns


def test_a_stage_without_a_selector_concerns_nobody() -> None:
    assert compiled(b'{"metadata":{"name":"s"},"spec":{"resourceRef":{"kind":"Pod"}}}') is None


@pytest.mark.parametrize(
    ("delay", "least", "most"),
    [
        (None, 0, 0),
        ({}, 0, 0),
        ({"durationMilliseconds": 1500}, 1.5, 1.5),
        ({"durationMilliseconds": 1000, "jitterDurationMilliseconds": 5000}, 1, 5),
        ({"durationMilliseconds": 5000, "jitterDurationMilliseconds": 1000}, 1, 1),
        ({"durationFrom": {"expressionFrom": ".metadata.annotations.delay"}}, 90, 90),
        ({"durationMilliseconds": 7000, "durationFrom": {"jq": {"expression": ".metadata.none"}}}, 7, 7),
        ({"durationFrom": {"expressionFrom": '"1970-01-01T00:02:00Z"'}}, 20, 20),
        ({"durationFrom": {"expressionFrom": '"1970-01-01T00:00:01Z"'}}, 0, 0),
    ],
)
def test_delays(delay: Any, least: float, most: float) -> None:
    more = {"delay": delay} if delay is not None else {}
    found = [rule(**more).delay(POD, 100.0, random.Random(seed)) for seed in range(20)]
    assert least <= min(found) <= max(found) <= most
    assert len(set(found)) > 1 if most > least else True


def test_the_weight_decides_among_several() -> None:
    never, often = rule("never"), rule("often", weight=1)
    dice = random.Random(1)
    assert {choose([never, often], POD, dice).name for _ in range(20)} == {"often"}
    said = rule("said", weightFrom={"expressionFrom": ".metadata.annotations.weight"})
    assert {choose([never, said], POD, dice).name for _ in range(20)} == {"said"}
    assert {choose([never, rule("other")], POD, dice).name for _ in range(40)} == {"never", "other"}


def test_finalizers_are_added_removed_and_emptied() -> None:
    assert Finalizers(("c", "a"), ("b",)).change(["a", "b"]) == ["a", "c"]
    assert Finalizers(empties=True).change(["a"]) == []


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"selector": {"matchExpressions": [{"cel": {"expression": "true"}}]}}, "cel is not available"),
        ({"selector": asking(".a", "Intersection", "b")}, "operator 'Intersection' is not one of"),
        ({"weightFrom": {"cel": {"expression": "1"}}}, "cel is not available"),
        ({"steps": [{"apply": {"template": "a: b"}}]}, "apply is not available"),
        ({"next": {"statusPatchAs": {"username": "me"}}}, "statusPatchAs is not available"),
        ({"next": {"patches": [{"subresource": "scale"}]}}, "subresource 'scale' is not available"),
        ({"next": {"statusTemplate": "{{ uuidv4 }}"}}, "function 'uuidv4' is not available"),
    ],
)
def test_what_is_not_there_is_refused_by_name(spec: Any, complaint: str) -> None:
    with pytest.raises(StageError, match=complaint):
        rule(**spec)
