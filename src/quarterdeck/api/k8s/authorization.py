"""Who may do what: access reviews.

Made by ``make kubernetes``: do not edit. What a newer server adds survives as unknown fields.
"""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api.marker import Atomic, Required
from quarterdeck.api.meta import LabelSelectorRequirement
from quarterdeck.api.model import EMPTY_MAP, UNSET, Map, Maybe, Model, Seq, omitempty
from quarterdeck.api.resource import Resource

__all__ = [
    "FieldSelectorAttributes",
    "FieldSelectorRequirement",
    "LabelSelectorAttributes",
    "LocalSubjectAccessReview",
    "NonResourceAttributes",
    "NonResourceRule",
    "ResourceAttributes",
    "ResourceRule",
    "SelfSubjectAccessReview",
    "SelfSubjectAccessReviewSpec",
    "SelfSubjectRulesReview",
    "SelfSubjectRulesReviewSpec",
    "SubjectAccessReview",
    "SubjectAccessReviewSpec",
    "SubjectAccessReviewStatus",
    "SubjectRulesReviewStatus",
]


class FieldSelectorRequirement(Model):
    key: Annotated[str, Required()] = omitempty("")
    operator: Annotated[str, Required()] = omitempty("")
    values: Annotated[Seq[str], Atomic()] = omitempty(())


class FieldSelectorAttributes(Model):
    raw_selector: str = omitempty("")
    requirements: Annotated[Seq[FieldSelectorRequirement], Atomic()] = omitempty(())


class LabelSelectorAttributes(Model):
    raw_selector: str = omitempty("")
    requirements: Annotated[Seq[LabelSelectorRequirement], Atomic()] = omitempty(())


class ResourceAttributes(Model):
    namespace: str = omitempty("")
    verb: str = omitempty("")
    group: str = omitempty("")
    version: str = omitempty("")
    resource: str = omitempty("")
    subresource: str = omitempty("")
    name: str = omitempty("")
    field_selector: Maybe[FieldSelectorAttributes] = UNSET
    label_selector: Maybe[LabelSelectorAttributes] = UNSET


class NonResourceAttributes(Model):
    path: str = omitempty("")
    verb: str = omitempty("")


class SubjectAccessReviewSpec(Model):
    resource_attributes: Maybe[ResourceAttributes] = UNSET
    non_resource_attributes: Maybe[NonResourceAttributes] = UNSET
    user: str = omitempty("")
    groups: Annotated[Seq[str], Atomic()] = omitempty(())
    extra: Map[str, Seq[str]] = omitempty(EMPTY_MAP)
    uid: str = omitempty("")


class SubjectAccessReviewStatus(Model):
    allowed: Annotated[Maybe[bool], Required()] = UNSET
    denied: Maybe[bool] = UNSET
    reason: str = omitempty("")
    evaluation_error: str = omitempty("")


class SubjectAccessReview(
    Resource, group="authorization.k8s.io", version="v1", plural="subjectaccessreviews", scope="Cluster"
):
    spec: Annotated[SubjectAccessReviewSpec, Required()] = omitempty(SubjectAccessReviewSpec())
    status: SubjectAccessReviewStatus = omitempty(SubjectAccessReviewStatus())


class SelfSubjectAccessReviewSpec(Model):
    resource_attributes: Maybe[ResourceAttributes] = UNSET
    non_resource_attributes: Maybe[NonResourceAttributes] = UNSET


class SelfSubjectAccessReview(
    Resource, group="authorization.k8s.io", version="v1", plural="selfsubjectaccessreviews", scope="Cluster"
):
    spec: Annotated[SelfSubjectAccessReviewSpec, Required()] = omitempty(SelfSubjectAccessReviewSpec())
    status: SubjectAccessReviewStatus = omitempty(SubjectAccessReviewStatus())


class LocalSubjectAccessReview(
    Resource, group="authorization.k8s.io", version="v1", plural="localsubjectaccessreviews"
):
    spec: Annotated[SubjectAccessReviewSpec, Required()] = omitempty(SubjectAccessReviewSpec())
    status: SubjectAccessReviewStatus = omitempty(SubjectAccessReviewStatus())


class SelfSubjectRulesReviewSpec(Model):
    namespace: str = omitempty("")


class ResourceRule(Model):
    verbs: Annotated[Seq[str], Atomic(), Required()] = omitempty(())
    api_groups: Annotated[Seq[str], Atomic()] = omitempty(())
    resources: Annotated[Seq[str], Atomic()] = omitempty(())
    resource_names: Annotated[Seq[str], Atomic()] = omitempty(())


class NonResourceRule(Model):
    verbs: Annotated[Seq[str], Atomic(), Required()] = omitempty(())
    non_resource_urls: Annotated[Seq[str], Atomic()] = omitempty(())


class SubjectRulesReviewStatus(Model):
    resource_rules: Annotated[Seq[ResourceRule], Atomic(), Required()] = omitempty(())
    non_resource_rules: Annotated[Seq[NonResourceRule], Atomic(), Required()] = omitempty(())
    incomplete: Annotated[Maybe[bool], Required()] = UNSET
    evaluation_error: str = omitempty("")


class SelfSubjectRulesReview(
    Resource, group="authorization.k8s.io", version="v1", plural="selfsubjectrulesreviews", scope="Cluster"
):
    spec: Annotated[SelfSubjectRulesReviewSpec, Required()] = omitempty(SelfSubjectRulesReviewSpec())
    status: SubjectRulesReviewStatus = omitempty(SubjectRulesReviewStatus())
