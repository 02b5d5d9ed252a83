"""Role-based access control: who may do what, answered from an index of the four RBAC kinds.

`Authorizer` holds no objects, only what it needs of them: the rules of each role and, for each
subject, the bindings that name it. `apply_change` keeps the index current; every change drops the
answers remembered so far, so an answer never outlives the roles it came from.

An answer is remembered per user and per (verb, resource, namespace), not per object name: a rule
either holds for every name or lists its names, so the few rules that match everything but the
name are kept and the name is compared at the end. A repeated question costs about a microsecond.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

import msgspec

from quarterdeck.apiserver.status import StatusError
from quarterdeck.wire import gostyle

from .attributes import AccessAttributes, forbidden_error
from .rule import PolicyRule, parse_rules
from .user import UserInfo, service_account_username

GROUP: Final = "rbac.authorization.k8s.io"
RESOURCES: Final = frozenset({"roles", "clusterroles", "rolebindings", "clusterrolebindings"})
_USERS_KEPT: Final = 4096
_ANSWERS_KEPT: Final = 4096


class AccessDecision(msgspec.Struct, frozen=True):
    """The answer; `reason` says which binding allowed it, or which roles could not be found."""

    allowed: bool
    reason: str = ""


class RuleSet(msgspec.Struct, frozen=True):
    """All rules a user holds in a namespace, and the (kind, name) of bound roles that do not exist."""

    rules: tuple[PolicyRule, ...]
    missing: tuple[tuple[str, str], ...]

    @property
    def error(self) -> str:
        """What is missing, as one text; "" when nothing is."""
        return aggregate([_missing_role(kind, name) for kind, name in self.missing])


class _Binding(msgspec.Struct, frozen=True):
    """A RoleBinding or ClusterRoleBinding; each subject is (key, how the reason names it)."""

    role: tuple[str, str]
    subjects: tuple[tuple[str, str], ...]
    description: str


#: rules that match all but the name, in order; the last may hold for every name (None)
_Candidates = tuple[tuple[frozenset[str] | None, AccessDecision], ...]
_ALLOWED: Final = AccessDecision(True)
_UNHEARD: Final = AccessDecision(False)


class _Grants:
    """What one user (name and groups) was found to hold; thrown away on any change of roles."""

    __slots__ = ("by_namespace", "is_master", "paths", "resources")

    def __init__(self, is_master: bool) -> None:
        self.is_master = is_master
        self.by_namespace: dict[str, tuple[list[tuple[PolicyRule, AccessDecision]], AccessDecision]] = {}
        self.resources: dict[tuple[str, str, str, str, str], tuple[_Candidates, AccessDecision]] = {}
        self.paths: dict[tuple[str, str], AccessDecision] = {}


class OtherAuthorizer(Protocol):
    """Another authorizer beside roles."""

    def authorize(self, attributes: AccessAttributes) -> AccessDecision: ...


class Authorizer:
    """Answers access questions.

    `allow_all` is the development switch: every question is answered yes, identities and the
    index stay as they are.
    """

    def __init__(self, *, allow_all: bool = False) -> None:
        self.allow_all = allow_all
        self._roles: dict[tuple[str, str], tuple[PolicyRule, ...]] = {}  # (namespace or "", name)
        self._bindings: dict[tuple[str, str], _Binding] = {}
        self._by_subject: dict[tuple[str, str], set[str]] = {}  # (namespace or "", subject) -> binding names
        self._grants: dict[tuple[str, tuple[str, ...]], _Grants] = {}
        self._other: OtherAuthorizer | None = None

    def ask_also(self, other: OtherAuthorizer) -> None:
        """Whom to ask what no role allows."""
        self._other = other

    def authorize(self, attributes: AccessAttributes) -> AccessDecision:
        """Whether the request may go on. Never raises; `forbidden_error` turns a no into a 403."""
        if self.allow_all:
            return _ALLOWED
        decision = self._by_roles(attributes)
        if decision.allowed or self._other is None:
            return decision
        other = self._other.authorize(attributes)
        if other.allowed or not decision.reason:
            return other
        return AccessDecision(False, f"{other.reason}\n{decision.reason}") if other.reason else decision

    def _by_roles(self, attributes: AccessAttributes) -> AccessDecision:
        user = attributes.user
        grants = self._grants.get((user.name, user.groups))
        if grants is None:
            grants = self._remember(user)
        if grants.is_master:
            return _ALLOWED
        if not attributes.is_resource:
            path_key = (attributes.verb, attributes.path)
            return grants.paths.get(path_key) or self._ask_path(grants, user, path_key)
        key = (
            attributes.verb,
            attributes.group,
            attributes.resource,
            attributes.subresource,
            attributes.namespace,
        )
        candidates, refusal = grants.resources.get(key) or self._ask_resource(grants, user, key)
        for names, decision in candidates:
            if names is None or attributes.object_name in names:
                return decision
        return refusal

    def check(self, attributes: AccessAttributes) -> None:
        """Raise the 403 unless the request is allowed."""
        decision = self.authorize(attributes)
        if not decision.allowed:
            raise self.forbidden_error(attributes, decision)

    def forbidden_error(
        self, attributes: AccessAttributes, decision: AccessDecision | None = None
    ) -> StatusError:
        """The 403 for a refused question."""
        return forbidden_error(attributes, (decision or self.authorize(attributes)).reason)

    def rules_for(self, user: UserInfo, namespace: str) -> RuleSet:
        """All rules of a user: cluster-wide ones, then those of `namespace` unless it is ""."""
        rules, missing = self._resolve(user, namespace)
        return RuleSet(tuple(rule for rule, _ in rules), tuple(missing))

    def role_rules(self, kind: str, name: str, namespace: str) -> tuple[PolicyRule, ...] | None:
        """The rules a roleRef stands for in a binding of `namespace`; None when there is no such role."""
        if kind == "Role" and namespace:
            return self._roles.get((namespace, name))
        return self._roles.get(("", name)) if kind == "ClusterRole" else None

    def apply_change(self, resource: str, namespace: str, name: str, obj: Mapping[str, Any] | None) -> None:
        """Take over a role or binding as it is now; `obj` None means that it is gone."""
        key = (namespace, name)
        if resource in ("roles", "clusterroles"):
            if obj is None:
                self._roles.pop(key, None)
            else:
                rules = parse_rules(obj.get("rules"))
                if self._roles.get(key) == rules:
                    return  # labels and annotations say nothing about access
                self._roles[key] = rules
        elif resource in ("rolebindings", "clusterrolebindings"):
            binding = None if obj is None else _parse_binding(namespace, name, obj)
            old = self._bindings.get(key)
            if old == binding:
                return
            for subject, _ in old.subjects if old else ():
                self._by_subject[namespace, subject].discard(name)
                if not self._by_subject[namespace, subject]:
                    del self._by_subject[namespace, subject]
            if binding is None:
                del self._bindings[key]
            else:
                self._bindings[key] = binding
                for subject, _ in binding.subjects:
                    self._by_subject.setdefault((namespace, subject), set()).add(name)
        else:
            raise ValueError(f"{resource} is not an RBAC resource")
        self._grants.clear()

    def _remember(self, user: UserInfo) -> _Grants:
        if len(self._grants) >= _USERS_KEPT:
            self._grants.clear()
        grants = self._grants[user.name, user.groups] = _Grants(user.is_master)
        return grants

    def _ask_resource(
        self, grants: _Grants, user: UserInfo, key: tuple[str, str, str, str, str]
    ) -> tuple[_Candidates, AccessDecision]:
        verb, group, resource, subresource, namespace = key
        rules, refusal = self._rules_in(grants, user, namespace)
        candidates: list[tuple[frozenset[str] | None, AccessDecision]] = []
        for rule, decision in rules:
            if rule.allows_verb(verb) and rule.allows_resource(group, resource, subresource):
                candidates.append((frozenset(rule.names) if rule.names else None, decision))
                if not rule.names:
                    break
        if len(grants.resources) >= _ANSWERS_KEPT:
            grants.resources.clear()
        answer = grants.resources[key] = (tuple(candidates), refusal)
        return answer

    def _ask_path(self, grants: _Grants, user: UserInfo, key: tuple[str, str]) -> AccessDecision:
        verb, path = key
        rules, refusal = self._rules_in(grants, user, "")
        found = (decision for rule, decision in rules if rule.allows_verb(verb) and rule.allows_path(path))
        if len(grants.paths) >= _ANSWERS_KEPT:
            grants.paths.clear()
        decision = grants.paths[key] = next(found, refusal)
        return decision

    def _rules_in(
        self, grants: _Grants, user: UserInfo, namespace: str
    ) -> tuple[list[tuple[PolicyRule, AccessDecision]], AccessDecision]:
        """All rules of a user in a namespace with the answer each gives, and the answer when none matches."""
        known = grants.by_namespace.get(namespace)
        if known is not None:
            return known
        rules, missing = self._resolve(user, namespace)
        errors = [_missing_role(kind, name) for kind, name in missing]
        refusal = AccessDecision(False, f"RBAC: {aggregate(errors)}") if errors else _UNHEARD
        if len(grants.by_namespace) >= _ANSWERS_KEPT:
            grants.by_namespace.clear()
        grants.by_namespace[namespace] = rules, refusal
        return rules, refusal

    def _resolve(
        self, user: UserInfo, namespace: str
    ) -> tuple[list[tuple[PolicyRule, AccessDecision]], list[tuple[str, str]]]:
        """The rules of a user, cluster-wide ones first, and the roles that its bindings name in vain."""
        keys = [_user_key(user.name), *(_group_key(group) for group in user.groups)]
        rules: list[tuple[PolicyRule, AccessDecision]] = []
        missing: list[tuple[str, str]] = []
        for scope in ("", namespace) if namespace else ("",):
            names: set[str] = set()
            for key in keys:
                names |= self._by_subject.get((scope, key), frozenset())
            for name in sorted(names):
                binding = self._bindings[scope, name]
                held = self.role_rules(*binding.role, scope)
                if held is None:
                    missing.append(binding.role)
                    continue
                subject = next(text for key, text in binding.subjects if key in keys)
                decision = AccessDecision(True, f"RBAC: allowed by {binding.description} to {subject}")
                rules += ((rule, decision) for rule in held)
        return rules, missing


def aggregate(errors: Iterable[str]) -> str:
    """Error texts as Go's aggregate prints them: repeated ones once, in brackets when many, "" when none."""
    distinct = list(dict.fromkeys(errors))
    return "[" + ", ".join(distinct) + "]" if len(distinct) > 1 else "".join(distinct)


def _user_key(name: str) -> str:
    return f"u:{name}"


def _group_key(name: str) -> str:
    return f"g:{name}"


def _missing_role(kind: str, name: str) -> str:
    if kind not in ("Role", "ClusterRole"):
        return f"unsupported role reference kind: {gostyle.quote(kind)}"
    return f"{kind.lower()}.{GROUP} {gostyle.quote(name)} not found"


def _parse_binding(namespace: str, name: str, obj: Mapping[str, Any]) -> _Binding:
    role = obj.get("roleRef") or {}
    kind, role_name = role.get("kind", ""), role.get("name", "")
    if namespace:
        binding = f"RoleBinding {gostyle.quote(f'{name}/{namespace}')}"
    else:
        binding = f"ClusterRoleBinding {gostyle.quote(name)}"
    subjects: dict[str, str] = {}
    for subject in obj.get("subjects") or ():
        entry = _parse_subject(namespace, subject)
        if entry is not None:
            subjects.setdefault(*entry)
    return _Binding(
        (kind, role_name), tuple(subjects.items()), f"{binding} of {kind} {gostyle.quote(role_name)}"
    )


def _parse_subject(binding_namespace: str, subject: Mapping[str, Any]) -> tuple[str, str] | None:
    kind, name = subject.get("kind", ""), subject.get("name", "")
    match kind:
        case "User":
            return _user_key(name), f"User {gostyle.quote(name)}"
        case "Group":
            return _group_key(name), f"Group {gostyle.quote(name)}"
        case "ServiceAccount":
            namespace = subject.get("namespace") or binding_namespace
            if not namespace:
                return None
            text = f"ServiceAccount {gostyle.quote(f'{name}/{namespace}')}"
            return _user_key(service_account_username(namespace, name)), text
        case _:
            return None
