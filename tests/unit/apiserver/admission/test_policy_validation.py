"""Which expressions are refused when a policy or a webhook configuration is written."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from quarterdeck.apiserver.builtin.access.policyvalidation import policy_errors

from .world import rule

Json = dict[str, Any]

VALIDATING: Json = {
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "p"},
    "spec": {"matchConstraints": {"resourceRules": [rule()]}, "validations": [{"expression": "true"}]},
}
MUTATING: Json = {
    "kind": "MutatingAdmissionPolicy",
    "metadata": {"name": "p"},
    "spec": {
        "matchConstraints": {"resourceRules": [rule()]},
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}],
    },
}
VALIDATION = "spec.validations[0].expression"
MESSAGE = "spec.validations[0].messageExpression"


def errors(base: Json, **spec: Any) -> list[str]:
    obj = copy.deepcopy(base)
    obj["spec"].update(spec)
    return [str(error) for error in policy_errors(obj)]


def compile_error(place: str, source: str, problem: str, column: int = 1) -> str:
    return (
        f'{place}: Invalid value: "{source}": compilation failed: ERROR: <input>:1:{column}: {problem}\n'
        f" | {source}\n | {'.' * (column - 1)}^"
    )


def undeclared(place: str, source: str, name: str) -> str:
    return compile_error(place, source, f"undeclared reference to '{name}' (in container '')")


@pytest.mark.parametrize("base", [VALIDATING, MUTATING])
def test_good_expressions_pass(base: Json) -> None:
    assert errors(base) == []


@pytest.mark.parametrize(
    ("validation", "expected"),
    [
        ({"expression": "nope == 1"}, undeclared(VALIDATION, "nope == 1", "nope")),
        ({"expression": "params == null"}, undeclared(VALIDATION, "params == null", "params")),
        ({"expression": "variables.a == 1"}, undeclared(VALIDATION, "variables.a == 1", "variables")),
        (
            {"expression": "object.metadata"},
            f'{VALIDATION}: Invalid value: "object.metadata": must evaluate to bool but got dyn',
        ),
        (
            {"expression": "true", "messageExpression": "1"},
            f'{MESSAGE}: Invalid value: "1": must evaluate to string but got int',
        ),
        (
            {"expression": "true", "messageExpression": "authorizer.path('/').check('get').reason()"},
            undeclared(MESSAGE, "authorizer.path('/').check('get').reason()", "authorizer"),
        ),
        (
            {"expression": "namespaceObject.kind == 'x'"},
            compile_error(VALIDATION, "namespaceObject.kind == 'x'", "undefined field 'kind'", 16),
        ),
    ],
)
def test_validations(validation: Json, expected: str) -> None:
    assert errors(VALIDATING, validations=[validation]) == [expected]


def test_blank_expressions_are_not_compiled() -> None:
    assert errors(VALIDATING, validations=[{"expression": " "}], variables=[{"name": "a"}]) == []


def test_params_are_known_where_the_policy_has_a_kind_for_them() -> None:
    spec = {"expression": "params == null", "messageExpression": "string(params.a)"}
    assert errors(VALIDATING, validations=[spec], paramKind={"apiVersion": "v1", "kind": "ConfigMap"}) == []


def test_variables_are_known_after_they_are_declared_and_have_types() -> None:
    one = [{"name": "a", "expression": "1"}]
    assert errors(VALIDATING, variables=one, validations=[{"expression": "variables.a == 1"}]) == []
    assert errors(VALIDATING, variables=one, validations=[{"expression": "variables.b == 1"}]) == [
        compile_error(VALIDATION, "variables.b == 1", "undefined field 'b'", 10)
    ]
    assert errors(VALIDATING, variables=one, validations=[{"expression": "variables.a == 'q'"}]) == [
        compile_error(
            VALIDATION,
            "variables.a == 'q'",
            "found no matching overload for '_==_' applied to '(int, string)'",
            13,
        )
    ]
    backwards = [{"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "1"}]
    assert errors(VALIDATING, variables=backwards) == [
        compile_error("spec.variables[0].expression", "variables.b", "undefined field 'b'", 10)
    ]


def test_audit_annotations_are_text_or_null() -> None:
    assert errors(VALIDATING, auditAnnotations=[{"key": "k", "valueExpression": "null"}]) == []
    assert errors(VALIDATING, auditAnnotations=[{"key": "k", "valueExpression": "1"}]) == [
        (
            'spec.auditAnnotations[0].valueExpression: Invalid value: "1": '
            "must evaluate to one of [string null_type] but got int"
        )
    ]


def test_conditions_know_no_variables() -> None:
    spec = {
        "variables": [{"name": "a", "expression": "1"}],
        "matchConditions": [{"name": "m", "expression": "variables.a == 1"}],
    }
    expected = [undeclared("spec.matchConditions[0].expression", "variables.a == 1", "variables")]
    assert errors(VALIDATING, **spec) == expected
    assert errors(MUTATING, **spec) == expected


@pytest.mark.parametrize(
    ("mutation", "expected"),
    [
        (
            {"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}},
            'jsonPatch.expression: Invalid value: "[]": must evaluate to list(JSONPatch) but got list(dyn)',
        ),
        (
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "1"}},
            'applyConfiguration.expression: Invalid value: "1": must evaluate to Object but got int',
        ),
    ],
)
def test_mutations(mutation: Json, expected: str) -> None:
    assert errors(MUTATING, mutations=[mutation]) == [f"spec.mutations[0].{expected}"]


def test_match_conditions_of_webhooks_are_compiled() -> None:
    hook = {"matchConditions": [{"name": "m", "expression": "variables.a"}]}
    obj = {"kind": "ValidatingWebhookConfiguration", "webhooks": [hook]}
    place = "webhooks[0].matchConditions[0].expression"
    assert [str(error) for error in policy_errors(obj)] == [undeclared(place, "variables.a", "variables")]


def test_unchanged_conditions_are_not_checked_again() -> None:
    hook = {"matchConditions": [{"name": "m", "expression": "gone()"}]}
    obj = {"kind": "MutatingWebhookConfiguration", "webhooks": [hook]}
    assert policy_errors(obj)
    assert policy_errors(obj, copy.deepcopy(obj)) == []


def test_other_kinds_are_not_looked_at() -> None:
    assert policy_errors({"kind": "ConfigMap"}) == []
