"""What is refused when a policy, a binding or a webhook configuration is written."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from world import rule

from quarterdeck.apiserver.admission import policy_errors

Json = dict[str, Any]

CONSTRAINTS = {
    "resourceRules": [rule()],
    "namespaceSelector": {},
    "objectSelector": {},
    "matchPolicy": "Equivalent",
}
VALIDATING: Json = {
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "p"},
    "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": CONSTRAINTS,
        "validations": [{"expression": "true"}],
    },
}
MUTATING: Json = {
    "kind": "MutatingAdmissionPolicy",
    "metadata": {"name": "p"},
    "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": CONSTRAINTS,
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}],
        "reinvocationPolicy": "Never",
    },
}
BINDING: Json = {
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "b"},
    "spec": {"policyName": "p", "validationActions": ["Deny"]},
}
MESSAGE = 'spec.validations[0].messageExpression: Invalid value: "1"'
UNDECLARED = "undeclared reference to '{}' (in container '')"


def errors(base: Json, **spec: Any) -> list[str]:
    obj = copy.deepcopy(base)
    obj["spec"].update(spec)
    return [str(error) for error in policy_errors(obj)]


def compile_error(place: str, source: str, problem: str, column: int = 1) -> str:
    return (
        f'{place}: Invalid value: "{source}": compilation failed: ERROR: <input>:1:{column}: {problem}\n'
        f" | {source}\n | {'.' * (column - 1)}^"
    )


@pytest.mark.parametrize("base", [VALIDATING, MUTATING, BINDING])
def test_good_configurations_pass(base: Json) -> None:
    assert errors(base) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"validations": [{"expression": "nope == 1"}]},
            [compile_error("spec.validations[0].expression", "nope == 1", UNDECLARED.format("nope"))],
        ),
        (
            {"validations": [{"expression": "object.metadata"}]},
            [
                (
                    'spec.validations[0].expression: Invalid value: "object.metadata": '
                    "must evaluate to bool but got dyn"
                )
            ],
        ),
        (
            {"validations": [{"expression": "params == null"}]},
            [compile_error("spec.validations[0].expression", "params == null", UNDECLARED.format("params"))],
        ),
        (
            {
                "validations": [
                    {"expression": "true", "messageExpression": "authorizer.path('/').check('get').reason()"}
                ]
            },
            [
                compile_error(
                    "spec.validations[0].messageExpression",
                    "authorizer.path('/').check('get').reason()",
                    UNDECLARED.format("authorizer"),
                )
            ],
        ),
        (
            {"validations": [{"expression": "true", "messageExpression": "1"}]},
            [f"{MESSAGE}: must evaluate to string but got int"],
        ),
        (
            {"validations": [{"expression": " ", "message": " ", "reason": "Unauthorized"}]},
            [
                "spec.validations[0].expression: Required value: expression is not specified",
                'spec.validations[0].message: Invalid value: " ": must be non-empty if specified',
                (
                    'spec.validations[0].reason: Unsupported value: "Unauthorized": '
                    'supported values: "Forbidden", "Invalid", "RequestEntityTooLarge"'
                ),
            ],
        ),
        (
            {"validations": [{"expression": "true", "message": "a\nb"}]},
            ['spec.validations[0].message: Invalid value: "a\\nb": must not contain line breaks'],
        ),
        (
            {"validations": []},
            [
                (
                    "spec.validations: Required value: "
                    "validations or auditAnnotations must contain at least one item"
                ),
                (
                    "spec.auditAnnotations: Required value: "
                    "validations or auditAnnotations must contain at least one item"
                ),
            ],
        ),
        (
            {"auditAnnotations": [{"key": "k", "valueExpression": "1"}]},
            [
                (
                    'spec.auditAnnotations[0].valueExpression: Invalid value: "1": '
                    "must evaluate to one of [string null_type] but got int"
                )
            ],
        ),
        (
            {
                "variables": [{"name": "a", "expression": "1"}],
                "validations": [{"expression": "variables.b == 1"}],
            },
            [compile_error("spec.validations[0].expression", "variables.b == 1", "undefined field 'b'", 10)],
        ),
        (
            {"variables": [{"name": "a-b", "expression": "1"}, {"name": "in", "expression": " "}]},
            [
                'spec.variables[0].name: Invalid value: "a-b": must be a valid CEL identifier',
                'spec.variables[1].name: Invalid value: "in": must be a valid CEL identifier',
                "spec.variables[1].expression: Required value: expression is not specified",
            ],
        ),
        (
            {"matchConditions": [{"name": "m", "expression": "variables.a == 1"}]},
            [
                compile_error(
                    "spec.matchConditions[0].expression", "variables.a == 1", UNDECLARED.format("variables")
                )
            ],
        ),
        (
            {
                "matchConditions": [
                    {"name": "", "expression": "1"},
                    {"name": "a", "expression": ""},
                    {"name": "a", "expression": "true"},
                ]
            },
            [
                'spec.matchConditions[0].expression: Invalid value: "1": must evaluate to bool but got int',
                "spec.matchConditions[0].name: Required value",
                "spec.matchConditions[1].expression: Required value",
                'spec.matchConditions[2].name: Duplicate value: "a"',
            ],
        ),
        (
            {"failurePolicy": "Foo", "matchConstraints": None},
            [
                'spec.failurePolicy: Unsupported value: "Foo": supported values: "Fail", "Ignore"',
                "spec.matchConstraints: Required value",
            ],
        ),
        (
            {"matchConstraints": {**CONSTRAINTS, "resourceRules": []}},
            ["spec.matchConstraints.resourceRules: Required value"],
        ),
        (
            {"paramKind": {"apiVersion": "a/b/c", "kind": ""}},
            [
                'spec.paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
                "spec.paramKind.kind: Required value",
            ],
        ),
    ],
)
def test_validating_policies(spec: Json, expected: list[str]) -> None:
    assert errors(VALIDATING, **spec) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"mutations": []}, ["spec.mutations: Required value: mutations must contain at least one item"]),
        ({"mutations": [{}]}, ["spec.mutations[0].patchType: Required value"]),
        (
            {"mutations": [{"patchType": "Foo"}]},
            [
                (
                    'spec.mutations[0].patchType: Unsupported value: "Foo": '
                    'supported values: "ApplyConfiguration", "JSONPatch"'
                )
            ],
        ),
        (
            {"mutations": [{"patchType": "JSONPatch"}]},
            ["spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch"],
        ),
        (
            {
                "mutations": [
                    {
                        "patchType": "JSONPatch",
                        "jsonPatch": {"expression": "[]"},
                        "applyConfiguration": {"expression": "Object{}"},
                    }
                ]
            },
            [
                (
                    'spec.mutations[0].jsonPatch.expression: Invalid value: "[]": '
                    "must evaluate to list(JSONPatch) but got list(dyn)"
                ),
                (
                    'spec.mutations[0].applyConfiguration: Invalid value: "{applyConfiguration}": '
                    "must not be specified when patchType is JSONPatch"
                ),
            ],
        ),
        (
            {"mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": '"x"'}}]},
            [
                (
                    'spec.mutations[0].applyConfiguration.expression: Invalid value: "\\"x\\"": '
                    "must evaluate to Object but got string"
                )
            ],
        ),
        ({"reinvocationPolicy": None}, ["spec.reinvocationPolicy: Required value"]),
        (
            {"matchConstraints": {**CONSTRAINTS, "resourceRules": [rule(operations=["DELETE"])]}},
            [
                (
                    'spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE": '
                    'supported values: "*", "CONNECT", "CREATE", "UPDATE"'
                )
            ],
        ),
    ],
)
def test_mutating_policies(spec: Json, expected: list[str]) -> None:
    assert errors(MUTATING, **spec) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"policyName": ""}, ["spec.policyName: Required value"]),
        (
            {"validationActions": []},
            ["spec.validationActions: Required value: at least one validation action is required"],
        ),
        ({"validationActions": ["Deny", "Deny"]}, ['spec.validationActions[1]: Duplicate value: "Deny"']),
        (
            {"validationActions": ["Deny", "Warn"]},
            [
                (
                    'spec.validationActions: Invalid value: ["Deny","Warn"]: must not contain both Deny '
                    "and Warn (repeating the same validation failure information in the API response and "
                    "headers "
                    "serves no purpose)"
                )
            ],
        ),
        (
            {"paramRef": {"parameterNotFoundAction": "Deny"}},
            ["spec.paramRef: Required value: one of name or selector must be specified"],
        ),
        (
            {"paramRef": {"name": "a", "selector": {}}},
            [
                "spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
                "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive",
                "spec.paramRef.parameterNotFoundAction: Required value",
            ],
        ),
        (
            {
                "matchResources": {
                    **CONSTRAINTS,
                    "resourceRules": [rule("*", "b", "*/*", operations=["CREATE", "*"])],
                }
            },
            [
                (
                    'spec.matchResources.resourceRules[0].operations: Invalid value: ["CREATE","*"]: '
                    "if '*' is present, must not specify other operations"
                ),
                (
                    'spec.matchResources.resourceRules[0].resources: Invalid value: ["*","b","*/*"]: '
                    "if '*/*' is present, must not specify other resources"
                ),
                (
                    'spec.matchResources.resourceRules[0].resources: Invalid value: ["*","b","*/*"]: '
                    "if '*' is present, must not specify other resources without subresources"
                ),
            ],
        ),
    ],
)
def test_bindings(spec: Json, expected: list[str]) -> None:
    assert errors(BINDING, **spec) == expected


def test_match_conditions_of_webhooks_are_compiled() -> None:
    hook = {"matchConditions": [{"name": "m", "expression": "variables.a"}]}
    obj = {"kind": "ValidatingWebhookConfiguration", "webhooks": [hook]}
    place = "webhooks[0].matchConditions[0].expression"
    expected = compile_error(place, "variables.a", UNDECLARED.format("variables"))
    assert [str(error) for error in policy_errors(obj)] == [expected]


def test_unchanged_conditions_are_not_checked_again() -> None:
    hook = {"matchConditions": [{"name": "m", "expression": "gone()"}]}
    obj = {"kind": "MutatingWebhookConfiguration", "webhooks": [hook]}
    assert policy_errors(obj)
    assert policy_errors(obj, copy.deepcopy(obj)) == []


def test_other_kinds_are_not_looked_at() -> None:
    assert policy_errors({"kind": "ConfigMap"}) == []
