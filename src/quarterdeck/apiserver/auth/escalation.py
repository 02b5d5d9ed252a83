"""Nobody grants more than they hold: the check on writes of roles and bindings.

Writing a role needs every permission in it, or the verb `escalate` on it. Writing a binding needs
every permission of the bound role, or the verb `bind` on that role.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from quarterdeck.apiserver import status
from quarterdeck.apiserver.status import StatusError
from quarterdeck.wire import gostyle

from .attributes import AccessAttributes
from .coverage import uncovered
from .rbac import GROUP, Authorizer, aggregate
from .rule import FULL_AUTHORITY, PolicyRule, describe, parse_rules, quoted_list
from .user import UserInfo

Document = Mapping[str, Any]


def escalation_error(
    authorizer: Authorizer,
    user: UserInfo,
    resource: str,
    namespace: str,
    obj: Document,
    old: Document | None = None,
    *,
    request_name: str = "",
) -> StatusError | None:
    """Why `user` may not write this role or binding, or None.

    `obj` is the defaulted new object, `old` the stored one of an update. `request_name` is the name in
    the URL: empty for a POST, which a rule on `escalate` with resourceNames therefore does not cover.
    """
    if authorizer.allow_all or user.is_master or (old is not None and _changes_only_references(obj, old)):
        return None
    name = (obj.get("metadata") or {}).get("name", "")
    match resource:
        case "roles" | "clusterroles":
            question = AccessAttributes(
                user=user,
                verb="escalate",
                group=GROUP,
                version="*",
                resource=resource,
                namespace=namespace,
                name=request_name,
            )
            if authorizer.authorize(question).allowed:
                return None
            why = _grant_error(authorizer, user, resource, namespace, parse_rules(obj.get("rules")))
            if not why and (_aggregates(obj) or (old is not None and _aggregates(old))):
                # An aggregation rule can gather anything.
                missing = _grant_error(authorizer, user, resource, namespace, FULL_AUTHORITY)
                why = missing and "must have cluster-admin privileges to use the aggregationRule"
            return status.forbidden(resource, GROUP, name, why) if why else None
        case "rolebindings" | "clusterrolebindings":
            return _binding_error(authorizer, user, resource, namespace, name, obj)
        case _:
            return None


def _binding_error(
    authorizer: Authorizer, user: UserInfo, resource: str, namespace: str, name: str, obj: Document
) -> StatusError | None:
    reference = obj.get("roleRef") or {}
    kind, role = reference.get("kind", ""), reference.get("name", "")
    if kind not in ("Role", "ClusterRole"):
        return status.plain_error(f"unsupported role reference kind: {gostyle.quote(kind)}")
    roles = "roles" if kind == "Role" else "clusterroles"
    question = AccessAttributes(
        user=user,
        verb="bind",
        group=reference.get("apiGroup", ""),
        version="*",
        resource=roles,
        namespace=namespace,
        name=role,
    )
    if authorizer.authorize(question).allowed:
        return None
    if kind == "Role" and not namespace:
        return status.bad_request("Namespace parameter required.")
    rules = authorizer.role_rules(kind, role, namespace)
    if rules is None:
        return status.not_found(resource, GROUP, role)  # upstream names the resource of the request
    why = _grant_error(authorizer, user, resource, namespace, rules)
    return status.forbidden(resource, GROUP, name, why) if why else None


def _grant_error(
    authorizer: Authorizer, user: UserInfo, resource: str, namespace: str, wanted: Iterable[PolicyRule]
) -> str:
    held = authorizer.rules_for(user, namespace)
    missing = uncovered(held.rules, wanted)
    if not missing:
        return ""
    who = f"user {gostyle.quote(user.name)} (groups={quoted_list(user.groups)})"
    lines = "\n".join(describe(missing))
    text = f"{who} is attempting to grant RBAC permissions not currently held:\n{lines}"
    if held.missing:
        errors = aggregate(str(status.not_found(resource, GROUP, role)) for _, role in held.missing)
        text += f"; resolution errors: [{errors}]"
    return text


def _aggregates(role: Document) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _changes_only_references(obj: Document, old: Document) -> bool:
    """The garbage collector, which holds no such permissions, edits finalizers and owner references."""

    def comparable(document: Document) -> dict[str, Any]:
        metadata = {
            key: value
            for key, value in (document.get("metadata") or {}).items()
            if key not in ("ownerReferences", "finalizers", "selfLink", "managedFields")
        }
        return {**document, "metadata": metadata}

    return comparable(obj) == comparable(old)
