"""The Node authorizer: what a kubelet may do, and which objects are its business.

A node (`system:node:NAME` in system:nodes) reads the Secrets, ConfigMaps, claims and volumes of the pods
bound to it, its own Node and lease, and what every node needs (`rules`). What it may write is narrowed
further by the admission plugin NodeRestriction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from .attributes import AccessAttributes, field_requirements
from .rbac import AccessDecision
from .rule import PolicyRule
from .user import node_identity

_LEASES: Final = "kube-node-lease"
_OWN_VERBS: Final = ("get", "create", "update", "patch", "delete")
_ALLOWED: Final = AccessDecision(True)
_NO_OPINION: Final = AccessDecision(False)


class NodeRelations(Protocol):
    """Which objects belong to a node."""

    def is_related(self, node: str, resource: str, namespace: str, name: str) -> bool:
        """Whether a pod bound to the node leads to the object, or the object names the node."""
        ...


class NodeAuthorizer:
    """Answers for nodes; has no opinion about anybody else."""

    def __init__(self, relations: NodeRelations, rules: Sequence[PolicyRule]) -> None:
        """`rules` are those of the ClusterRole system:node."""
        self._relations = relations
        self._rules = rules

    def authorize(self, attributes: AccessAttributes) -> AccessDecision:
        node = node_identity(attributes.user)
        if node is None:
            return _NO_OPINION
        if not node:
            return AccessDecision(False, f'unknown node for user "{attributes.user.name}"')
        if attributes.is_resource:
            decision = self._about(node, attributes)
            if decision is not None:
                return decision
        return _ALLOWED if self._follows_rules(attributes) else _NO_OPINION

    def _follows_rules(self, attributes: AccessAttributes) -> bool:
        return any(
            rule.allows_verb(attributes.verb)
            and (
                rule.allows_resource(attributes.group, attributes.resource, attributes.subresource)
                if attributes.is_resource
                else rule.allows_path(attributes.path)
            )
            for rule in self._rules
        )

    def _about(self, node: str, attributes: AccessAttributes) -> AccessDecision | None:
        """Resources of which a node sees only its own; None for all others."""
        match attributes.group, attributes.resource:
            case "", ("secrets" | "configmaps"):
                return self._read(node, attributes)
            case "", "persistentvolumeclaims":
                if attributes.subresource == "status":
                    return self._update_status(node, attributes)
                return self._get(node, attributes)
            case "", "persistentvolumes":
                return self._get(node, attributes)
            case ("resource.k8s.io", "resourceclaims") | ("storage.k8s.io", "volumeattachments"):
                return self._get(node, attributes)
            case "", "serviceaccounts":
                if attributes.verb == "get" and not attributes.subresource:
                    return self._read(node, attributes)
                return self._create_token(node, attributes)
            case "coordination.k8s.io", "leases":
                return _lease(node, attributes)
            case "storage.k8s.io", "csinodes":
                return _csi_node(node, attributes)
            case "resource.k8s.io", "resourceslices":
                return self._slice(node, attributes)
            case "", "nodes":
                return _node(node, attributes)
            case "", "pods":
                return self._pod(node, attributes)
        return None

    def _related(self, node: str, attributes: AccessAttributes) -> AccessDecision:
        name = attributes.object_name
        if not name:
            return AccessDecision(False, "No Object name found")
        if self._relations.is_related(node, attributes.resource, attributes.namespace, name):
            return _ALLOWED
        return AccessDecision(False, f"no relationship found between node '{node}' and this object")

    def _get(self, node: str, attributes: AccessAttributes) -> AccessDecision:
        if attributes.verb != "get":
            return AccessDecision(False, "can only get individual resources of this type")
        if attributes.subresource:
            return AccessDecision(False, "cannot get subresource")
        return self._related(node, attributes)

    def _read(self, node: str, attributes: AccessAttributes) -> AccessDecision:
        if attributes.verb not in ("get", "list", "watch"):
            return AccessDecision(False, "can only read resources of this type")
        if attributes.subresource:
            return AccessDecision(False, "cannot read subresource")
        if not attributes.namespace:
            return AccessDecision(False, "can only read namespaced object of this type")
        return self._related(node, attributes)

    def _update_status(self, node: str, attributes: AccessAttributes) -> AccessDecision:
        if attributes.verb not in ("update", "patch"):
            return AccessDecision(False, "can only get/update/patch this type")
        return self._related(node, attributes)

    def _create_token(self, node: str, attributes: AccessAttributes) -> AccessDecision:
        if attributes.verb != "create" or not attributes.name:
            return AccessDecision(False, "can only create tokens for individual service accounts")
        if attributes.subresource != "token":
            return AccessDecision(False, "can only create token subresource of serviceaccount")
        return self._related(node, attributes)

    def _slice(self, node: str, attributes: AccessAttributes) -> AccessDecision:
        if attributes.subresource:
            return AccessDecision(False, "cannot authorize ResourceSlice subresources")
        match attributes.verb:
            case "create":
                return _ALLOWED
            case "get" | "update" | "patch" | "delete":
                return self._related(node, attributes)
            case "watch" | "list" | "deletecollection":
                if _selects(attributes, node):
                    return _ALLOWED
                why = "can only list/watch/deletecollection resourceslices with nodeName field selector"
                return AccessDecision(False, why)
        return AccessDecision(
            False,
            "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, "
            "patch, delete, deletecollection",
        )

    def _pod(self, node: str, attributes: AccessAttributes) -> AccessDecision:
        verb = attributes.verb
        match attributes.subresource:
            case "":
                if verb == "get":
                    return self._get(node, attributes)
                if verb in ("list", "watch"):
                    if _selects(attributes, node):
                        return _ALLOWED
                    if attributes.object_name:
                        return self._related(node, attributes)
                    return AccessDecision(False, "can only list/watch pods with spec.nodeName field selector")
                if verb in ("create", "delete"):
                    return _ALLOWED
            case "status" if verb in ("update", "patch"):
                return _ALLOWED
            case "eviction" if verb == "create":
                return _ALLOWED
        return _NO_OPINION


def _selects(attributes: AccessAttributes, node: str) -> bool:
    requirements = field_requirements(attributes.field_selector) or ()
    return any(
        field == "spec.nodeName" and operator != "!=" and value == node
        for field, operator, value in requirements
    )


def _lease(node: str, attributes: AccessAttributes) -> AccessDecision:
    if attributes.verb not in _OWN_VERBS:
        return AccessDecision(False, "can only get, create, update, patch, or delete a node lease")
    if attributes.namespace != _LEASES:
        return AccessDecision(False, f'can only access leases in the "{_LEASES}" system namespace')
    if attributes.verb != "create" and attributes.name != node:
        return AccessDecision(False, "can only access node lease with the same name as the requesting node")
    return _ALLOWED


def _csi_node(node: str, attributes: AccessAttributes) -> AccessDecision:
    if attributes.verb not in _OWN_VERBS:
        return AccessDecision(False, "can only get, create, update, patch, or delete a CSINode")
    if attributes.subresource:
        return AccessDecision(False, "cannot authorize CSINode subresources")
    if attributes.verb != "create" and attributes.name != node:
        return AccessDecision(False, "can only access CSINode with the same name as the requesting node")
    return _ALLOWED


def _node(node: str, attributes: AccessAttributes) -> AccessDecision:
    verb, asked = attributes.verb, attributes.object_name
    if attributes.subresource == "status":
        return _ALLOWED if verb in ("update", "patch") else _NO_OPINION
    if attributes.subresource:
        return _NO_OPINION
    if verb in ("create", "update", "patch"):
        return _ALLOWED
    if verb not in ("get", "list", "watch"):
        return _NO_OPINION
    if asked == node:
        return _ALLOWED
    if not asked:
        return AccessDecision(False, f"node '{node}' cannot read all nodes, only its own Node object")
    return AccessDecision(False, f"node '{node}' cannot read '{asked}', only its own Node object")
