"""Webhook configurations and admission policies.

Made by ``make kubernetes``: do not edit. What a newer server adds survives as unknown fields.
"""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api.marker import Atomic, Int32, Int64, ListMap, ListSet, Required
from quarterdeck.api.meta import Condition, LabelSelector
from quarterdeck.api.model import UNSET, Maybe, Model, Seq, omitempty
from quarterdeck.api.resource import Resource

__all__ = [
    "ApplyConfiguration",
    "AuditAnnotation",
    "ExpressionWarning",
    "JSONPatch",
    "MatchCondition",
    "MatchResources",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicyBindingSpec",
    "MutatingAdmissionPolicySpec",
    "MutatingWebhook",
    "MutatingWebhookConfiguration",
    "Mutation",
    "NamedRuleWithOperations",
    "ParamKind",
    "ParamRef",
    "RuleWithOperations",
    "ServiceReference",
    "TypeChecking",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicyBindingSpec",
    "ValidatingAdmissionPolicySpec",
    "ValidatingAdmissionPolicyStatus",
    "ValidatingWebhook",
    "ValidatingWebhookConfiguration",
    "Validation",
    "Variable",
    "WebhookClientConfig",
]


class ServiceReference(Model):
    namespace: Annotated[str, Required()] = omitempty("")
    name: Annotated[str, Required()] = omitempty("")
    path: Maybe[str] = UNSET
    port: Annotated[Maybe[int], Int32] = UNSET


class WebhookClientConfig(Model):
    url: Maybe[str] = UNSET
    service: Maybe[ServiceReference] = UNSET
    ca_bundle: Maybe[bytes] = UNSET


class RuleWithOperations(Model):
    operations: Annotated[Seq[str], Atomic()] = omitempty(())
    api_groups: Annotated[Seq[str], Atomic()] = omitempty(())
    api_versions: Annotated[Seq[str], Atomic()] = omitempty(())
    resources: Annotated[Seq[str], Atomic()] = omitempty(())
    scope: Maybe[str] = UNSET


class MatchCondition(Model):
    name: Annotated[str, Required()] = omitempty("")
    expression: Annotated[str, Required()] = omitempty("")


class MutatingWebhook(Model):
    name: Annotated[str, Required()] = omitempty("")
    client_config: Annotated[WebhookClientConfig, Required()] = omitempty(WebhookClientConfig())
    rules: Annotated[Seq[RuleWithOperations], Atomic()] = omitempty(())
    failure_policy: Maybe[str] = UNSET
    match_policy: Maybe[str] = UNSET
    namespace_selector: Maybe[LabelSelector] = UNSET
    object_selector: Maybe[LabelSelector] = UNSET
    side_effects: Annotated[Maybe[str], Required()] = UNSET
    timeout_seconds: Annotated[Maybe[int], Int32] = UNSET
    admission_review_versions: Annotated[Seq[str], Atomic(), Required()] = omitempty(())
    reinvocation_policy: Maybe[str] = UNSET
    match_conditions: Annotated[Seq[MatchCondition], ListMap("name")] = omitempty(())


class MutatingWebhookConfiguration(
    Resource,
    group="admissionregistration.k8s.io",
    version="v1",
    plural="mutatingwebhookconfigurations",
    scope="Cluster",
):
    webhooks: Annotated[Seq[MutatingWebhook], ListMap("name")] = omitempty(())


class ValidatingWebhook(Model):
    name: Annotated[str, Required()] = omitempty("")
    client_config: Annotated[WebhookClientConfig, Required()] = omitempty(WebhookClientConfig())
    rules: Annotated[Seq[RuleWithOperations], Atomic()] = omitempty(())
    failure_policy: Maybe[str] = UNSET
    match_policy: Maybe[str] = UNSET
    namespace_selector: Maybe[LabelSelector] = UNSET
    object_selector: Maybe[LabelSelector] = UNSET
    side_effects: Annotated[Maybe[str], Required()] = UNSET
    timeout_seconds: Annotated[Maybe[int], Int32] = UNSET
    admission_review_versions: Annotated[Seq[str], Atomic(), Required()] = omitempty(())
    match_conditions: Annotated[Seq[MatchCondition], ListMap("name")] = omitempty(())


class ValidatingWebhookConfiguration(
    Resource,
    group="admissionregistration.k8s.io",
    version="v1",
    plural="validatingwebhookconfigurations",
    scope="Cluster",
):
    webhooks: Annotated[Seq[ValidatingWebhook], ListMap("name")] = omitempty(())


class ParamKind(Model, rules=[Atomic()]):
    api_version: str = omitempty("")
    kind: str = omitempty("")


class NamedRuleWithOperations(Model, rules=[Atomic()]):
    resource_names: Annotated[Seq[str], Atomic()] = omitempty(())
    operations: Annotated[Seq[str], Atomic()] = omitempty(())
    api_groups: Annotated[Seq[str], Atomic()] = omitempty(())
    api_versions: Annotated[Seq[str], Atomic()] = omitempty(())
    resources: Annotated[Seq[str], Atomic()] = omitempty(())
    scope: Maybe[str] = UNSET


class MatchResources(Model, rules=[Atomic()]):
    namespace_selector: Maybe[LabelSelector] = UNSET
    object_selector: Maybe[LabelSelector] = UNSET
    resource_rules: Annotated[Seq[NamedRuleWithOperations], Atomic()] = omitempty(())
    exclude_resource_rules: Annotated[Seq[NamedRuleWithOperations], Atomic()] = omitempty(())
    match_policy: Maybe[str] = UNSET


class Validation(Model):
    expression: Annotated[str, Required()] = omitempty("")
    message: str = omitempty("")
    reason: Maybe[str] = UNSET
    message_expression: str = omitempty("")


class AuditAnnotation(Model):
    key: Annotated[str, Required()] = omitempty("")
    value_expression: Annotated[str, Required()] = omitempty("")


class Variable(Model, rules=[Atomic()]):
    name: Annotated[str, Required()] = omitempty("")
    expression: Annotated[str, Required()] = omitempty("")


class ValidatingAdmissionPolicySpec(Model):
    param_kind: Maybe[ParamKind] = UNSET
    match_constraints: Maybe[MatchResources] = UNSET
    validations: Annotated[Seq[Validation], Atomic()] = omitempty(())
    failure_policy: Maybe[str] = UNSET
    audit_annotations: Annotated[Seq[AuditAnnotation], Atomic()] = omitempty(())
    match_conditions: Annotated[Seq[MatchCondition], ListMap("name")] = omitempty(())
    variables: Annotated[Seq[Variable], ListMap("name")] = omitempty(())


class ExpressionWarning(Model):
    field_ref: Annotated[str, Required()] = omitempty("")
    warning: Annotated[str, Required()] = omitempty("")


class TypeChecking(Model):
    expression_warnings: Annotated[Seq[ExpressionWarning], Atomic()] = omitempty(())


class ValidatingAdmissionPolicyStatus(Model):
    observed_generation: Annotated[Maybe[int], Int64] = UNSET
    type_checking: Maybe[TypeChecking] = UNSET
    conditions: Annotated[Seq[Condition], ListMap("type")] = omitempty(())


class ValidatingAdmissionPolicy(
    Resource,
    group="admissionregistration.k8s.io",
    version="v1",
    plural="validatingadmissionpolicies",
    scope="Cluster",
    status=True,
):
    spec: ValidatingAdmissionPolicySpec = omitempty(ValidatingAdmissionPolicySpec())
    status: ValidatingAdmissionPolicyStatus = omitempty(ValidatingAdmissionPolicyStatus())


class ParamRef(Model, rules=[Atomic()]):
    name: str = omitempty("")
    namespace: str = omitempty("")
    selector: Maybe[LabelSelector] = UNSET
    parameter_not_found_action: Maybe[str] = UNSET


class ValidatingAdmissionPolicyBindingSpec(Model):
    policy_name: Annotated[str, Required()] = omitempty("")
    param_ref: Maybe[ParamRef] = UNSET
    match_resources: Maybe[MatchResources] = UNSET
    validation_actions: Annotated[Seq[str], ListSet(), Required()] = omitempty(())


class ValidatingAdmissionPolicyBinding(
    Resource,
    group="admissionregistration.k8s.io",
    version="v1",
    plural="validatingadmissionpolicybindings",
    scope="Cluster",
):
    spec: Annotated[ValidatingAdmissionPolicyBindingSpec, Required()] = omitempty(
        ValidatingAdmissionPolicyBindingSpec()
    )


class ApplyConfiguration(Model):
    expression: str = omitempty("")


class JSONPatch(Model):
    expression: str = omitempty("")


class Mutation(Model):
    patch_type: Annotated[str, Required()] = omitempty("")
    apply_configuration: Maybe[ApplyConfiguration] = UNSET
    json_patch: Maybe[JSONPatch] = UNSET


class MutatingAdmissionPolicySpec(Model):
    param_kind: Maybe[ParamKind] = UNSET
    match_constraints: Maybe[MatchResources] = UNSET
    variables: Annotated[Seq[Variable], Atomic()] = omitempty(())
    mutations: Annotated[Seq[Mutation], Atomic()] = omitempty(())
    failure_policy: Maybe[str] = UNSET
    match_conditions: Annotated[Seq[MatchCondition], ListMap("name")] = omitempty(())
    reinvocation_policy: str = omitempty("")


class MutatingAdmissionPolicy(
    Resource,
    group="admissionregistration.k8s.io",
    version="v1",
    plural="mutatingadmissionpolicies",
    scope="Cluster",
):
    spec: MutatingAdmissionPolicySpec = omitempty(MutatingAdmissionPolicySpec())


class MutatingAdmissionPolicyBindingSpec(Model):
    policy_name: str = omitempty("")
    param_ref: Maybe[ParamRef] = UNSET
    match_resources: Maybe[MatchResources] = UNSET


class MutatingAdmissionPolicyBinding(
    Resource,
    group="admissionregistration.k8s.io",
    version="v1",
    plural="mutatingadmissionpolicybindings",
    scope="Cluster",
):
    spec: MutatingAdmissionPolicyBindingSpec = omitempty(MutatingAdmissionPolicyBindingSpec())
