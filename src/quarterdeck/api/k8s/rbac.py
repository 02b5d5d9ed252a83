"""Roles and bindings.

Made by ``make kubernetes``: do not edit. What a newer server adds survives as unknown fields.
"""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api.marker import Atomic, Required
from quarterdeck.api.meta import LabelSelector
from quarterdeck.api.model import UNSET, Maybe, Model, Seq, omitempty
from quarterdeck.api.resource import Resource

__all__ = [
    "AggregationRule",
    "ClusterRole",
    "ClusterRoleBinding",
    "PolicyRule",
    "Role",
    "RoleBinding",
    "RoleRef",
    "Subject",
]


class PolicyRule(Model):
    verbs: Annotated[Seq[str], Atomic(), Required()] = omitempty(())
    api_groups: Annotated[Seq[str], Atomic()] = omitempty(())
    resources: Annotated[Seq[str], Atomic()] = omitempty(())
    resource_names: Annotated[Seq[str], Atomic()] = omitempty(())
    non_resource_urls: Annotated[Seq[str], Atomic()] = omitempty(())


class Role(Resource, group="rbac.authorization.k8s.io", version="v1", plural="roles"):
    rules: Annotated[Seq[PolicyRule], Atomic()] = omitempty(())


class AggregationRule(Model):
    cluster_role_selectors: Annotated[Seq[LabelSelector], Atomic()] = omitempty(())


class ClusterRole(
    Resource, group="rbac.authorization.k8s.io", version="v1", plural="clusterroles", scope="Cluster"
):
    rules: Annotated[Seq[PolicyRule], Atomic()] = omitempty(())
    aggregation_rule: Maybe[AggregationRule] = UNSET


class Subject(Model, rules=[Atomic()]):
    kind: Annotated[str, Required()] = omitempty("")
    api_group: str = omitempty("")
    name: Annotated[str, Required()] = omitempty("")
    namespace: str = omitempty("")


class RoleRef(Model, rules=[Atomic()]):
    api_group: str = omitempty("")
    kind: Annotated[str, Required()] = omitempty("")
    name: Annotated[str, Required()] = omitempty("")


class RoleBinding(Resource, group="rbac.authorization.k8s.io", version="v1", plural="rolebindings"):
    subjects: Annotated[Seq[Subject], Atomic()] = omitempty(())
    role_ref: Annotated[RoleRef, Required()] = omitempty(RoleRef())


class ClusterRoleBinding(
    Resource, group="rbac.authorization.k8s.io", version="v1", plural="clusterrolebindings", scope="Cluster"
):
    subjects: Annotated[Seq[Subject], Atomic()] = omitempty(())
    role_ref: Annotated[RoleRef, Required()] = omitempty(RoleRef())
