"""x-kubernetes-validations beyond the conformance table."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.cel.rule.check import RuleError, rule_json
from quarterdeck.cel.rule.rules import ABSENT, OMITTED, CompiledRules, RuleViolation


def with_rule(rule: str, properties: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    properties = properties or {"a": {"type": "integer"}}
    return {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": properties,
                "x-kubernetes-validations": [{"rule": rule, **more}],
            }
        },
    }


def violations(schema: dict[str, Any], new: Any, old: Any = ABSENT, *, ratchet: bool = True) -> list[str]:
    return [str(v) for v in CompiledRules.compile(schema).validate(new, old, ratchet=ratchet)]


def test_a_schema_without_rules_does_nothing() -> None:
    rules = CompiledRules.compile({"type": "object", "properties": {"a": {"type": "string"}}})
    assert not rules.has_rules
    assert rules.compile_errors == []
    assert rules.validate({"a": 1}) == []


def test_a_violation_carries_what_a_status_needs() -> None:
    (violation,) = CompiledRules.compile(with_rule("self.a > 1", message="too small")).validate(
        {"spec": {"a": 1}}
    )
    assert violation == RuleViolation("spec", "Invalid", OMITTED, "too small")
    assert (violation.reason, violation.body) == ("FieldValueInvalid", "Invalid value: too small")


def test_errors_are_relative_until_given_a_prefix() -> None:
    (error,) = CompiledRules.compile(with_rule("self.nope > 1")).compile_errors
    assert error.path == "properties[spec].x-kubernetes-validations[0].rule"
    assert error.value == {"rule": "self.nope > 1"}
    assert error.at("p").path == "p.properties[spec].x-kubernetes-validations[0].rule"


def test_uncorrelatable_paths_get_the_prefix_too() -> None:
    schema = {
        "type": "object",
        "properties": {
            "l": {
                "type": "array",
                "maxItems": 3,
                "items": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > oldSelf"}]},
            }
        },
    }
    (error,) = CompiledRules.compile(schema).errors("x")
    assert (
        error.message
        == "oldSelf cannot be used on the uncorrelatable portion of the schema within x.properties[l]"
    )


def test_rules_print_as_go_prints_them() -> None:
    assert rule_json({"rule": "a < b && c > d", "message": "m", "optionalOldSelf": True}) == (
        '{"Rule":"a \\u003c b \\u0026\\u0026 c \\u003e d","Message":"m","MessageExpression":"","Reason":null,'
        '"FieldPath":"","OptionalOldSelf":true}'
    )


def test_errors_of_the_root_have_no_path() -> None:
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object"}},
        "x-kubernetes-validations": [{"rule": "has(self.spec)", "message": "no spec"}],
    }
    assert violations(schema, {"metadata": {"name": "x"}}) == ["<nil>: Invalid value: no spec"]


def test_parents_report_before_children() -> None:
    schema = with_rule(
        "false",
        {"a": {"type": "integer", "x-kubernetes-validations": [{"rule": "false", "message": "inner"}]}},
        message="outer",
    )
    assert violations(schema, {"spec": {"a": 1}}) == [
        "spec: Invalid value: outer",
        "spec.a: Invalid value: 1: inner",
    ]


def test_transition_rules_wait_for_an_old_value() -> None:
    schema = with_rule("self.a >= oldSelf.a", message="grow")
    assert violations(schema, {"spec": {"a": 1}}) == []
    assert violations(schema, {"spec": {"a": 1}}, {}) == []
    assert violations(schema, {"spec": {"a": 1}}, {"spec": {"a": 2}}) == ["spec: Invalid value: grow"]


def test_null_values_are_not_validated() -> None:
    schema = with_rule(
        "true",
        {"a": {"type": "integer", "nullable": True, "x-kubernetes-validations": [{"rule": "self > 5"}]}},
    )
    assert violations(schema, {"spec": {"a": None}}) == []


def test_violations_at_unchanged_values_are_forgiven_on_update() -> None:
    schema = with_rule("self.a > 5", {"a": {"type": "integer"}, "b": {"type": "integer"}})
    bad = {"spec": {"a": 1, "b": 1}}
    assert violations(schema, bad, bad) == []
    assert violations(schema, bad, bad, ratchet=False) == ["spec: Invalid value: failed rule: self.a > 5"]
    assert violations(schema, bad, {"spec": {"a": 1, "b": 2}}) == [
        "spec: Invalid value: failed rule: self.a > 5"
    ]


def test_what_is_forgiven_can_be_warned_about() -> None:
    forgiven: list[RuleViolation] = []
    bad = {"spec": {"a": 1}}
    assert CompiledRules.compile(with_rule("self.a > 5")).validate(bad, bad, forgiven=forgiven) == []
    assert [str(v) for v in forgiven] == ["spec: Invalid value: failed rule: self.a > 5"]


def test_run_time_errors_are_not_forgiven() -> None:
    schema = with_rule("1 / self.a > 0")
    bad = {"spec": {"a": 0}}
    assert violations(schema, bad, bad) == [
        'spec: Invalid value: "object": division by zero evaluating rule: 1 / self.a > 0'
    ]


def test_map_list_elements_are_matched_by_key_for_ratcheting() -> None:
    items = {
        "type": "object",
        "required": ["n"],
        "properties": {
            "n": {"type": "string", "maxLength": 5},
            "v": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 5"}]},
        },
    }
    schema = {
        "type": "object",
        "properties": {
            "l": {
                "type": "array",
                "maxItems": 5,
                "items": items,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["n"],
            }
        },
    }
    old = {"l": [{"n": "a", "v": 1}, {"n": "b", "v": 2}]}
    new = {"l": [{"n": "b", "v": 2}, {"n": "a", "v": 3}, {"n": "c", "v": 4}]}
    assert violations(schema, new, old) == [
        "l[1].v: Invalid value: 3: failed rule: self > 5",
        "l[2].v: Invalid value: 4: failed rule: self > 5",
    ]


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("FieldValueInvalid", "spec.a: Invalid value: no"),
        ("FieldValueForbidden", "spec.a: Forbidden: no"),
        ("FieldValueRequired", "spec.a: Required value: no"),
        ("FieldValueDuplicate", "spec.a: Duplicate value"),
    ],
)
def test_reason_and_field_path_move_the_cause(reason: str, text: str) -> None:
    assert violations(
        with_rule("false", reason=reason, fieldPath=".a", message="no"), {"spec": {"a": 1}}
    ) == [text]


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("'a is ' + string(self.a)", None),
        ("'a is %d'.format([self.a])", "a is 3"),
        ("'  padded  '", "padded"),
        ("''", "fallback"),
        ("'two\\nlines'", "fallback"),
        ("['x'][9]", "fallback"),
    ],
)
def test_message_expressions_give_the_text_if_they_can(expression: str, text: str | None) -> None:
    schema = with_rule("self.a > 5", message="fallback", messageExpression=expression)
    if text is None:
        error = CompiledRules.compile(schema).compile_errors[0]
        assert error.kind == "Forbidden"
        assert error.message.startswith(
            "estimated messageExpression cost exceeds budget by factor of more than"
        )
    else:
        assert violations(schema, {"spec": {"a": 3}}) == [f"spec: Invalid value: {text}"]


def test_expensive_rules_are_refused() -> None:
    inner: dict[str, Any] = {"type": "integer"}
    for _ in range(3):
        inner = {"type": "array", "items": inner}
    errors = CompiledRules.compile(
        with_rule("self.l.all(x, x.all(y, y.all(z, z > 0)))", {"l": inner})
    ).compile_errors
    assert [e.kind for e in errors] == ["Forbidden", "Forbidden", "Forbidden"]
    assert errors[0].message == (
        "estimated rule cost exceeds budget by factor of more than 100x (try simplifying the rule, or adding "
        "maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
    assert errors[2].path == ""


def test_evaluation_stops_when_the_object_budget_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterdeck.cel.rule.rules.OBJECT_LIMIT", 500_000)
    schema = {
        "type": "object",
        "properties": {
            "l": {
                "type": "array",
                "maxItems": 400,
                "items": {"type": "integer"},
                "x-kubernetes-validations": [{"rule": "self.all(x, self.all(y, x == y || x != y))"}] * 30,
            }
        },
    }
    found = CompiledRules.compile(schema).validate({"l": list(range(100))})
    assert [v.message for v in found] == [
        "validation failed due to running out of cost budget, no further validation rules will be run"
    ]


def test_a_single_call_has_a_limit_of_its_own() -> None:
    schema = {
        "type": "object",
        "properties": {
            "l": {
                "type": "array",
                "maxItems": 700,
                "items": {"type": "integer"},
                "x-kubernetes-validations": [
                    {"rule": "self.all(x, self.all(y, x == y || x != y))", "message": "m"}
                ],
            }
        },
    }
    found = CompiledRules.compile(schema).validate({"l": list(range(500))})
    assert found[0].message == (
        "'operation cancelled: actual cost limit exceeded': no further validation rules will be run "
        "due to call cost exceeds limit for rule: m"
    )


def test_embedded_resources_show_their_metadata() -> None:
    schema = with_rule(
        "self.r.metadata.name == 'x'", {"r": {"type": "object", "x-kubernetes-embedded-resource": True}}
    )
    assert violations(schema, {"spec": {"r": {"kind": "A", "metadata": {"name": "x"}}}}) == []


def test_a_field_path_error_is_its_own_problem() -> None:
    (error,) = CompiledRules.compile(with_rule("true", fieldPath=".nope")).compile_errors
    assert error == RuleError(
        "properties[spec].x-kubernetes-validations[0].fieldPath", "Invalid", "must be a valid path", ".nope"
    )


def test_rules_are_safe_to_share_between_threads() -> None:
    from concurrent.futures import ThreadPoolExecutor

    rules = CompiledRules.compile(with_rule("self.a > 5 && [1, 2, 3].exists(x, x == self.a % 4)"))
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda n: len(rules.validate({"spec": {"a": n}})), range(200)))
    assert results == [0 if n > 5 and n % 4 in (1, 2, 3) else 1 for n in range(200)]
