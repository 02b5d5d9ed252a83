"""Webhook configurations and admission policies.

Fields follow k8s.io/api v0.36.3; what a newer server adds survives as unknown fields.
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
    """Reference to Service.legacy.k8s.io."""

    namespace: Annotated[str, Required()] = omitempty("")
    name: Annotated[str, Required()] = omitempty("")
    path: Maybe[str] = UNSET
    port: Annotated[Maybe[int], Int32] = UNSET


class WebhookClientConfig(Model):
    """Information to make a TLS connection with the webhook."""

    url: Maybe[str] = UNSET
    service: Maybe[ServiceReference] = UNSET
    ca_bundle: Maybe[bytes] = UNSET


class RuleWithOperations(Model):
    """Tuple of Operations and Resources."""

    operations: Annotated[Seq[str], Atomic()] = omitempty(())
    api_groups: Annotated[Seq[str], Atomic()] = omitempty(())
    api_versions: Annotated[Seq[str], Atomic()] = omitempty(())
    resources: Annotated[Seq[str], Atomic()] = omitempty(())
    scope: Maybe[str] = UNSET


class MatchCondition(Model):
    """Condition which must by fulfilled for a request to be sent to a webhook."""

    name: Annotated[str, Required()] = omitempty("")
    expression: Annotated[str, Required()] = omitempty("")


class MutatingWebhook(Model):
    """N admission webhook and the resources and operations it applies to."""

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
    Resource, group="admissionregistration.k8s.io", version="v1", scope="Cluster"
):
    """Configuration of and admission webhook that accept or reject and may change the object."""

    webhooks: Annotated[Seq[MutatingWebhook], ListMap("name")] = omitempty(())


class ValidatingWebhook(Model):
    """N admission webhook and the resources and operations it applies to."""

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
    Resource, group="admissionregistration.k8s.io", version="v1", scope="Cluster"
):
    """Configuration of and admission webhook that accept or reject and object without changing it."""

    webhooks: Annotated[Seq[ValidatingWebhook], ListMap("name")] = omitempty(())


class ParamKind(Model, rules=[Atomic()]):
    """Tuple of Group Kind and Version."""

    api_version: str = omitempty("")
    kind: str = omitempty("")


class NamedRuleWithOperations(Model, rules=[Atomic()]):
    """Tuple of Operations and Resources with ResourceNames."""

    resource_names: Annotated[Seq[str], Atomic()] = omitempty(())
    operations: Annotated[Seq[str], Atomic()] = omitempty(())
    api_groups: Annotated[Seq[str], Atomic()] = omitempty(())
    api_versions: Annotated[Seq[str], Atomic()] = omitempty(())
    resources: Annotated[Seq[str], Atomic()] = omitempty(())
    scope: Maybe[str] = UNSET


class MatchResources(Model, rules=[Atomic()]):
    """MatchResources decides whether to run the admission control policy on an object based on whether …"""

    namespace_selector: Maybe[LabelSelector] = UNSET
    object_selector: Maybe[LabelSelector] = UNSET
    resource_rules: Annotated[Seq[NamedRuleWithOperations], Atomic()] = omitempty(())
    exclude_resource_rules: Annotated[Seq[NamedRuleWithOperations], Atomic()] = omitempty(())
    match_policy: Maybe[str] = UNSET


class Validation(Model):
    """Validation specifies the CEL expression which is used to apply the validation."""

    expression: Annotated[str, Required()] = omitempty("")
    message: str = omitempty("")
    reason: Maybe[str] = UNSET
    message_expression: str = omitempty("")


class AuditAnnotation(Model):
    """How to produce an audit annotation for an API request."""

    key: Annotated[str, Required()] = omitempty("")
    value_expression: Annotated[str, Required()] = omitempty("")


class Variable(Model, rules=[Atomic()]):
    """Definition of a variable that is used for composition."""

    name: Annotated[str, Required()] = omitempty("")
    expression: Annotated[str, Required()] = omitempty("")


class ValidatingAdmissionPolicySpec(Model):
    """Specification of the desired behavior of the AdmissionPolicy."""

    param_kind: Maybe[ParamKind] = UNSET
    match_constraints: Maybe[MatchResources] = UNSET
    validations: Annotated[Seq[Validation], Atomic()] = omitempty(())
    failure_policy: Maybe[str] = UNSET
    audit_annotations: Annotated[Seq[AuditAnnotation], Atomic()] = omitempty(())
    match_conditions: Annotated[Seq[MatchCondition], ListMap("name")] = omitempty(())
    variables: Annotated[Seq[Variable], ListMap("name")] = omitempty(())


class ExpressionWarning(Model):
    """Warning information that targets a specific expression."""

    field_ref: Annotated[str, Required()] = omitempty("")
    warning: Annotated[str, Required()] = omitempty("")


class TypeChecking(Model):
    """Results of type checking the expressions in the ValidatingAdmissionPolicy."""

    expression_warnings: Annotated[Seq[ExpressionWarning], Atomic()] = omitempty(())


class ValidatingAdmissionPolicyStatus(Model):
    """Status of an admission validation policy."""

    observed_generation: Annotated[Maybe[int], Int64] = UNSET
    type_checking: Maybe[TypeChecking] = UNSET
    conditions: Annotated[Seq[Condition], ListMap("type")] = omitempty(())


class ValidatingAdmissionPolicy(
    Resource, group="admissionregistration.k8s.io", version="v1", scope="Cluster", status=True
):
    """Definition of an admission validation policy that accepts or rejects an object without changing it."""

    spec: ValidatingAdmissionPolicySpec = omitempty(ValidatingAdmissionPolicySpec())
    status: ValidatingAdmissionPolicyStatus = omitempty(ValidatingAdmissionPolicyStatus())


class ParamRef(Model, rules=[Atomic()]):
    """How to locate the params to be used as input to expressions of rules applied by a policy binding."""

    name: str = omitempty("")
    namespace: str = omitempty("")
    selector: Maybe[LabelSelector] = UNSET
    parameter_not_found_action: Maybe[str] = UNSET


class ValidatingAdmissionPolicyBindingSpec(Model):
    """Specification of the ValidatingAdmissionPolicyBinding."""

    policy_name: Annotated[str, Required()] = omitempty("")
    param_ref: Maybe[ParamRef] = UNSET
    match_resources: Maybe[MatchResources] = UNSET
    validation_actions: Annotated[Seq[str], ListSet(), Required()] = omitempty(())


class ValidatingAdmissionPolicyBinding(
    Resource, group="admissionregistration.k8s.io", version="v1", scope="Cluster"
):
    """ValidatingAdmissionPolicyBinding binds the ValidatingAdmissionPolicy with paramerized resources."""

    spec: Annotated[ValidatingAdmissionPolicyBindingSpec, Required()] = omitempty(
        ValidatingAdmissionPolicyBindingSpec()
    )


class ApplyConfiguration(Model):
    """Desired configuration values of an object."""

    expression: str = omitempty("")


class JSONPatch(Model):
    """JSON Patch."""

    expression: str = omitempty("")


class Mutation(Model):
    """Mutation specifies the CEL expression which is used to apply the Mutation."""

    patch_type: Annotated[str, Required()] = omitempty("")
    apply_configuration: Maybe[ApplyConfiguration] = UNSET
    json_patch: Maybe[JSONPatch] = UNSET


class MutatingAdmissionPolicySpec(Model):
    """Desired behavior of the admission policy."""

    param_kind: Maybe[ParamKind] = UNSET
    match_constraints: Maybe[MatchResources] = UNSET
    variables: Annotated[Seq[Variable], Atomic()] = omitempty(())
    mutations: Annotated[Seq[Mutation], Atomic()] = omitempty(())
    failure_policy: Maybe[str] = UNSET
    match_conditions: Annotated[Seq[MatchCondition], ListMap("name")] = omitempty(())
    reinvocation_policy: str = omitempty("")


class MutatingAdmissionPolicy(Resource, group="admissionregistration.k8s.io", version="v1", scope="Cluster"):
    """Definition of an admission mutation policy that mutates the object coming into admission chain."""

    spec: MutatingAdmissionPolicySpec = omitempty(MutatingAdmissionPolicySpec())


class MutatingAdmissionPolicyBindingSpec(Model):
    """Specification of the MutatingAdmissionPolicyBinding."""

    policy_name: str = omitempty("")
    param_ref: Maybe[ParamRef] = UNSET
    match_resources: Maybe[MatchResources] = UNSET


class MutatingAdmissionPolicyBinding(
    Resource, group="admissionregistration.k8s.io", version="v1", scope="Cluster"
):
    """MutatingAdmissionPolicyBinding binds the MutatingAdmissionPolicy with parametrized resources."""

    spec: MutatingAdmissionPolicyBindingSpec = omitempty(MutatingAdmissionPolicyBindingSpec())
