"""Admission policies: validating and mutating, with parameters, variables and conditions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quarterdeck.apiserver.admission.attributes import Attributes
from quarterdeck.apiserver.admission.chain import AdmissionChain
from quarterdeck.apiserver.status import StatusError
from quarterdeck.apiserver.webhookclient import WebhookClient

from .world import ALICE, World, rule

Json = dict[str, Any]


class Policies:
    """A chain with policies; `run` sends one write through it."""

    def __init__(self) -> None:
        self.world = World()
        self.chain = AdmissionChain(self.world, WebhookClient())

    def validating(
        self, *validations: Json, name: str = "p", bindings: tuple[Json, ...] = ({},), **spec: Any
    ) -> Policies:
        whole = {"matchConstraints": {"resourceRules": [rule()]}, "validations": list(validations), **spec}
        self.chain.apply_change("validatingadmissionpolicies", name, {"spec": whole})
        for index, binding in enumerate(bindings):
            bound = {"policyName": name, "validationActions": ["Deny"], **binding}
            self.chain.apply_change("validatingadmissionpolicybindings", f"b{index}-{name}", {"spec": bound})
        return self

    def mutating(
        self, *mutations: Json, name: str = "p", binding: Json | None = None, **spec: Any
    ) -> Policies:
        whole = {
            "matchConstraints": {"resourceRules": [rule()]},
            "mutations": list(mutations),
            "reinvocationPolicy": "Never",
            **spec,
        }
        self.chain.apply_change("mutatingadmissionpolicies", name, {"spec": whole})
        bound = {"policyName": name, **(binding or {})}
        self.chain.apply_change("mutatingadmissionpolicybindings", f"b-{name}", {"spec": bound})
        return self

    def run(self, attributes: Attributes | None = None) -> Attributes:
        attributes = attributes or self.world.request()

        async def both() -> None:
            await self.chain.mutate(attributes)
            await self.chain.validate(attributes)

        asyncio.run(both())
        return attributes

    def refused(self, attributes: Attributes | None = None) -> Json:
        with pytest.raises(StatusError) as raised:
            self.run(attributes)
        return raised.value.to_status()

    def why(self, attributes: Attributes | None = None) -> str:
        """What a refusal says after the names of policy and binding."""
        message: str = self.refused(attributes)["message"]
        return message.partition(" denied request: ")[2]


def apply(expression: str) -> Json:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patch(expression: str) -> Json:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def test_a_false_expression_denies_the_write() -> None:
    status = Policies().validating({"expression": "false"}).refused()
    text = "ValidatingAdmissionPolicy 'p' with binding 'b0-p' denied request: failed expression: false"
    assert status == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f'configmaps "x" is forbidden: {text}',
        "reason": "Invalid",
        "details": {"name": "x", "kind": "configmaps", "causes": [{"message": text}]},
        "code": 422,
    }


def test_a_true_expression_and_an_unbound_policy_let_it_pass() -> None:
    Policies().validating({"expression": "object.metadata.name == 'x'"}).run()
    Policies().validating({"expression": "false"}, bindings=()).run()


@pytest.mark.parametrize(
    ("validation", "text"),
    [
        ({"message": " mine "}, "mine"),
        ({"message": "mine", "messageExpression": "'name ' + object.metadata.name"}, "name x"),
        ({"message": "mine", "messageExpression": "'a' + string(object.nope)"}, "mine"),
        ({"message": "mine", "messageExpression": "'a\\nb'"}, "mine"),
        ({"messageExpression": "'  '"}, "failed expression: false"),
    ],
)
def test_messages(validation: Json, text: str) -> None:
    assert Policies().validating({"expression": "false", **validation}).why() == text


@pytest.mark.parametrize(
    ("reason", "code"), [("Forbidden", 403), ("Invalid", 422), ("RequestEntityTooLarge", 413)]
)
def test_reasons_decide_the_code(reason: str, code: int) -> None:
    status = Policies().validating({"expression": "false", "reason": reason}).refused()
    assert (status["reason"], status["code"]) == (reason, code)


def test_an_expression_that_fails_denies_or_is_ignored() -> None:
    why = Policies().validating({"expression": "object.nope == 1"}).why()
    assert why == "expression 'object.nope == 1' resulted in error: no such key: nope"
    Policies().validating({"expression": "object.nope == 1"}, failurePolicy="Ignore").run()


def test_an_expression_that_costs_too_much_fails() -> None:
    ten = "[1,2,3,4,5,6,7,8,9,10]"
    expression = f"{ten}.all(a,{ten}.all(b,{ten}.all(c,{ten}.all(d,{ten}.all(e,{ten}.all(f,true))))))"
    why = Policies().validating({"expression": expression}).why()
    assert why.endswith("resulted in error: operation cancelled: actual cost limit exceeded")


def test_warn_tells_the_client_and_audit_nobody() -> None:
    policies = Policies().validating(
        {"expression": "false", "message": "w"}, bindings=({"validationActions": ["Warn", "Audit"]},)
    )
    policies.run()
    assert policies.world.warnings == [
        "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b0-p': w"
    ]


def test_the_first_denial_by_name_is_reported_and_all_warnings_given() -> None:
    policies = Policies()
    policies.validating({"expression": "false", "message": "second"}, name="q")
    policies.validating({"expression": "false", "message": "first"}, name="p")
    policies.validating(
        {"expression": "false", "message": "w"}, name="r", bindings=({"validationActions": ["Warn"]},)
    )
    assert policies.why() == "first"
    assert len(policies.world.warnings) == 1


def test_variables_are_composed_and_evaluated_only_when_used() -> None:
    policies = Policies().validating(
        {"expression": "true || variables.broken", "messageExpression": "variables.b"},
        {"expression": "variables.b == 'q'", "messageExpression": "variables.b"},
        variables=[
            {"name": "a", "expression": "object.metadata.name"},
            {"name": "b", "expression": "string(variables.a) + 'z'"},
            {"name": "broken", "expression": "object.nope == 1"},
        ],
    )
    assert policies.why() == "xz"


def test_a_variable_that_fails_says_which() -> None:
    policies = Policies().validating(
        {"expression": "variables.a == 'q'"}, variables=[{"name": "a", "expression": "object.nope"}]
    )
    assert policies.why() == (
        "expression 'variables.a == 'q'' resulted in error: "
        'composited variable "a" fails to evaluate: no such key: nope'
    )


def test_expressions_see_request_namespace_and_old_object() -> None:
    facts = (
        "[request.operation, request.kind.kind, request.resource.resource, request.name, request.namespace, "
        "request.userInfo.username, string(request.dryRun), string(has(request.subResource)), "
        "string(request.options.kind), namespaceObject.metadata.labels['team'], "
        "namespaceObject.status.phase, "
        "string(oldObject == null)].join(',')"
    )
    why = Policies().validating({"expression": "false", "messageExpression": facts}).why()
    assert why == "CREATE,ConfigMap,configmaps,x,team,alice,false,false,CreateOptions,a,Active,true"


def test_cluster_scoped_objects_have_no_namespace_object() -> None:
    nodes = {"resourceRules": [rule("nodes")]}
    policies = Policies().validating({"expression": "namespaceObject == null"}, matchConstraints=nodes)
    policies.run(policies.world.request(resource="nodes"))


def test_the_authorizer_answers_for_the_user_and_for_service_accounts() -> None:
    policies = Policies().validating(
        {"expression": "authorizer.requestResource.check('get').allowed()", "message": "get"},
        {
            "expression": "authorizer.serviceAccount('team','bot').group('apps').resource('deployments')"
            ".subresource('scale').namespace('team').name('d').check('update').allowed()",
            "message": "update",
        },
        {"expression": "authorizer.path('/healthz').check('get').reason() == 'because'", "message": "path"},
    )
    policies.world.allowed_verbs = {"get"}
    assert policies.why() == "update"
    own, bot, path = policies.world.questions
    assert (own.user.name, own.resource, own.namespace, own.name) == ("alice", "configmaps", "team", "x")
    assert bot.user.name == "system:serviceaccount:team:bot"
    assert (bot.group, bot.resource, bot.subresource, bot.name) == ("apps", "deployments", "scale", "d")
    assert (path.is_resource, path.path) == (False, "/healthz")


def test_conditions_skip_a_policy() -> None:
    condition = [{"name": "c", "expression": "has(object.data)"}]
    policies = Policies().validating({"expression": "false"}, matchConditions=condition)
    policies.run()
    assert policies.refused(policies.world.request(obj={"metadata": {"name": "x"}, "data": {}}))


def test_one_false_condition_outweighs_errors() -> None:
    broken = {"name": "a", "expression": "object.nope == 1"}
    other = {"name": "b", "expression": "object.nape == 1"}
    never = {"name": "c", "expression": "false"}
    Policies().validating({"expression": "false"}, matchConditions=[broken, never]).run()
    Policies().validating({"expression": "false"}, matchConditions=[broken], failurePolicy="Ignore").run()
    assert Policies().validating({"expression": "false"}, matchConditions=[broken, other]).why() == (
        "[expression 'object.nope == 1' resulted in error: no such key: nope, "
        "expression 'object.nape == 1' resulted in error: no such key: nape]"
    )


def test_audit_annotations_that_fail_deny() -> None:
    good = [{"key": "k", "valueExpression": "'v'"}]
    bad = [{"key": "k", "valueExpression": "string(object.nope)"}]
    Policies().validating(auditAnnotations=good).run()
    assert Policies().validating(auditAnnotations=bad).why() == (
        "expression 'string(object.nope)' resulted in error: no such key: nope"
    )


def test_bindings_narrow_a_policy_down() -> None:
    policies = Policies().validating(
        {"expression": "false"},
        bindings=({"matchResources": {"objectSelector": {"matchLabels": {"a": "b"}}}},),
    )
    policies.run()
    labelled = {"metadata": {"name": "x", "labels": {"a": "b"}}}
    assert policies.refused(policies.world.request(obj=labelled))


CONFIG = {"apiVersion": "v1", "kind": "ConfigMap"}
SHOW = {
    "expression": "false",
    "messageExpression": "params == null ? 'none' : string(params.kind + ' ' + params.data.v)",
}


def with_params(reference: Json | None, **spec: Any) -> Policies:
    binding = {"paramRef": reference} if reference is not None else {}
    policies = Policies().validating(SHOW, paramKind=CONFIG, bindings=(binding,), **spec)
    for name, value in (("p1", "one"), ("p2", "two")):
        metadata = {"name": name, "namespace": "team", "labels": {"p": "y"}}
        policies.world.add("", "configmaps", {"metadata": metadata, "data": {"v": value}})
    return policies


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ({"name": "p1", "namespace": "team"}, "ConfigMap one"),
        ({"name": "p2"}, "ConfigMap two"),
        ({"selector": {"matchLabels": {"p": "y"}}}, "ConfigMap one"),
        (None, "none"),
    ],
)
def test_parameters_by_name_and_selector(reference: Json | None, text: str) -> None:
    action = {"parameterNotFoundAction": "Deny"}
    assert with_params({**reference, **action} if reference else None).why() == text


def test_every_selected_parameter_is_evaluated() -> None:
    policies = with_params({"selector": {}, "parameterNotFoundAction": "Deny"})
    spec = {"expression": "params.data.v != 'two'", "message": "two is bad"}
    policies.validating(spec, paramKind=CONFIG, bindings=({"paramRef": {"selector": {}}},))
    assert policies.why() == "two is bad"


def test_missing_parameters_deny_or_allow() -> None:
    missing = {"name": "none"}
    assert with_params({**missing, "parameterNotFoundAction": "Deny"}).why() == (
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    )
    with_params({**missing, "parameterNotFoundAction": "Allow"}).run()
    with_params({**missing, "parameterNotFoundAction": "Deny"}, failurePolicy="Ignore").run()


def test_parameters_that_cannot_be_configured() -> None:
    namespaced = Policies().validating(
        {"expression": "false"},
        paramKind={"apiVersion": "v1", "kind": "Node"},
        bindings=({"paramRef": {"name": "n", "namespace": "team"}},),
    )
    assert namespaced.why() == (
        "failed to configure binding: "
        "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
    )
    unknown = Policies().validating(
        {"expression": "false"}, paramKind={"apiVersion": "foo.io/v1", "kind": "Foo"}
    )
    assert unknown.refused()["message"] == (
        "configmaps \"x\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: "
        "failed to configure policy: "
        "failed to find resource referenced by paramKind: 'foo.io/v1, Kind=Foo'"
    )


def test_apply_configurations_are_merged() -> None:
    policies = Policies().mutating(
        apply("Object{metadata: Object.metadata{labels: {'a': object.metadata.name}}}")
    )
    labelled = {"metadata": {"name": "x", "labels": {"z": "1"}}}
    attributes = policies.run(policies.world.request(obj=labelled))
    assert attributes.object is not None
    assert attributes.object["metadata"]["labels"] == {"a": "x", "z": "1"}


def test_json_patches_are_applied_with_escaped_keys_and_objects() -> None:
    policies = Policies().mutating(
        patch("[JSONPatch{op: 'add', path: '/metadata/labels', value: Object.metadata.labels{a: 'b'}}]"),
        patch("[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a.b/c'), value: 'd'}]"),
    )
    attributes = policies.run()
    assert attributes.object is not None
    assert attributes.object["metadata"]["labels"] == {"a": "b", "a.b/c": "d"}


def test_mutations_run_in_order() -> None:
    policies = Policies().mutating(
        apply("Object{data: {'a': '1'}}"),
        patch("[JSONPatch{op: 'add', path: '/data/b', value: object.data.a}]"),
    )
    attributes = policies.run()
    assert attributes.object is not None
    assert attributes.object["data"] == {"a": "1", "b": "1"}


def test_a_failed_test_operation_leaves_the_object_alone() -> None:
    policies = Policies().mutating(
        patch(
            "[JSONPatch{op: 'test', path: '/metadata/name', value: 'y'}, "
            "JSONPatch{op: 'add', path: '/data', value: {'a': 'b'}}]"
        )
    )
    attributes = policies.run()
    assert attributes.object is not None
    assert "data" not in attributes.object


@pytest.mark.parametrize(
    ("mutation", "text"),
    [
        (
            apply("Object{metadata: Object.spec{labels: {'a': 'b'}}}"),
            (
                'type mismatch: unexpected type name "Object.spec", expected "Object.metadata", '
                "which matches field name path from root Object type"
            ),
        ),
        (
            apply("Object{zzz: 1}"),
            (
                "error applying patch: failed to convert patch object to typed object: "
                ".zzz: field not declared in schema"
            ),
        ),
        (
            apply("Object{data: {'a': object.nope}}"),
            "expression 'Object{data: {'a': object.nope}}' resulted in error: no such key: nope",
        ),
        (
            patch("[JSONPatch{op: 'add', path: '/a/b', value: 'c'}]"),
            'JSON Patch: add operation does not apply: doc is missing path: "/a/b": missing value',
        ),
        (patch("[JSONPatch{op: 'foo', path: '/a'}]"), "JSON Patch: Unexpected kind: foo"),
    ],
)
def test_mutations_that_fail_refuse_or_are_ignored(mutation: Json, text: str) -> None:
    status = Policies().mutating(mutation).refused()
    message = f"policy 'p' with binding 'b-p' denied request: {text}"
    assert status["message"] == message
    assert (status["code"], status["reason"]) == (403, "Invalid")
    assert status["details"] == {"name": "x", "kind": "configmaps", "causes": [{"message": message}]}
    Policies().mutating(mutation, failurePolicy="Ignore").run()


def test_a_patch_that_breaks_the_object_is_an_internal_error() -> None:
    status = Policies().mutating(patch("[JSONPatch{op: 'add', path: '/data', value: {'a': 1}}]")).refused()
    assert status["message"] == (
        "Internal error occurred: "
        "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
    )


def test_a_policy_that_asks_for_it_runs_again_after_a_later_change() -> None:
    count = "string(has(object.data) ? object.data.size() : 0)"
    policies = Policies()
    policies.mutating(apply(f"Object{{data: {{'a': {count}}}}}"), name="a", reinvocationPolicy="IfNeeded")
    policies.mutating(apply("Object{data: {'b': '1'}}"), name="b")
    attributes = policies.run()
    assert attributes.object is not None
    assert attributes.object["data"] == {"a": "2", "b": "1"}


def test_mutating_policies_use_conditions_variables_and_params() -> None:
    policies = Policies().mutating(
        apply("Object{data: {'a': variables.v + string(params.data.v)}}"),
        paramKind=CONFIG,
        binding={"paramRef": {"name": "p1", "parameterNotFoundAction": "Deny"}},
        variables=[{"name": "v", "expression": "string(object.metadata.name)"}],
        matchConditions=[{"name": "c", "expression": "has(object.metadata.labels)"}],
    )
    policies.world.add(
        "", "configmaps", {"metadata": {"name": "p1", "namespace": "team"}, "data": {"v": "1"}}
    )
    assert "data" not in (policies.run().object or {})
    labelled = policies.world.request(obj={"metadata": {"name": "x", "labels": {"a": "b"}}})
    assert (policies.run(labelled).object or {})["data"] == {"a": "x1"}


def test_removed_policies_do_nothing() -> None:
    policies = Policies().validating({"expression": "false"})
    assert policies.chain.needs_admission("", "configmaps", "", "CREATE", ALICE)
    policies.chain.apply_change("validatingadmissionpolicybindings", "b0-p", None)
    assert not policies.chain.needs_admission("", "configmaps", "", "CREATE", ALICE)
    policies.run()


def test_configurations_of_admission_pass_no_admission() -> None:
    policies = Policies().validating({"expression": "false"}, matchConstraints={"resourceRules": [rule("*")]})
    for resource in ("validatingadmissionpolicies", "mutatingwebhookconfigurations"):
        assert not policies.chain.needs_admission(
            "admissionregistration.k8s.io", resource, "", "CREATE", ALICE
        )
