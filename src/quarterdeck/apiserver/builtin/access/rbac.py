"""Role, ClusterRole and their bindings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.kind import BuiltinStrategy, section
from quarterdeck.apiserver.metadata import (
    invalid_json,
    path_segment_errors,
    subdomain_errors,
    validate_label_selector,
)
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, invalid, not_supported, required

GROUP: Final = "rbac.authorization.k8s.io"


class _RbacStrategy(BuiltinStrategy):
    metadata_checks = 4
    allows_create_on_update = True

    def name_errors(self, name: str, *, prefix: bool = False) -> list[str]:
        return path_segment_errors(name)  # upstream checks a prefix like a name


class RoleStrategy(_RbacStrategy):
    namespaced = True

    def default(self, obj: Json) -> None:
        obj.setdefault("rules", None)  # shown even when there are none

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        obj["rules"] = obj.get("rules") or None  # an empty list is stored as none

    def prepare_update(self, obj: Json, old: Json, ctx: WriteContext) -> None:
        self.prepare_create(obj, ctx)

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        errors: list[FieldError] = []
        for index, rule in enumerate(obj.get("rules") or ()):
            errors += _validate_rule(rule, f"rules[{index}]", namespaced=self.namespaced)
        return errors

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return self.validate_create(obj, ctx)


class ClusterRoleStrategy(RoleStrategy):
    namespaced = False

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        errors = super().validate_create(obj, ctx)
        aggregation = obj.get("aggregationRule")
        if aggregation is not None:
            path = "aggregationRule.clusterRoleSelectors"
            selectors = aggregation.get("clusterRoleSelectors") or ()
            if not selectors:
                text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
                errors.append(required(path, text))
            for index, selector in enumerate(selectors):
                errors += validate_label_selector(selector, f"{path}[{index}]")
        return errors


def _validate_rule(rule: Mapping[str, Any], field: str, *, namespaced: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    if not rule.get("verbs"):
        errors.append(required(f"{field}.verbs", "verbs must contain at least one value"))
    if urls := rule.get("nonResourceURLs"):
        path = f"{field}.nonResourceURLs"
        if namespaced:
            errors.append(invalid_json(path, urls, "namespaced rules cannot apply to non-resource URLs"))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(invalid_json(path, urls, text))
        return errors
    if not rule.get("apiGroups"):
        text = "resource rules must supply at least one api group"
        errors.append(required(f"{field}.apiGroups", text))
    if not rule.get("resources"):
        text = "resource rules must supply at least one resource"
        errors.append(required(f"{field}.resources", text))
    return errors


class RoleBindingStrategy(_RbacStrategy):
    kinds: Sequence[str] = ("Role", "ClusterRole")

    def default(self, obj: Json) -> None:
        reference = section(obj, "roleRef")
        if not reference.get("apiGroup"):
            reference["apiGroup"] = GROUP
        for subject in obj.get("subjects") or ():
            if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
                subject["apiGroup"] = GROUP

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        errors: list[FieldError] = []
        reference = obj.get("roleRef") or {}
        if (group := reference.get("apiGroup") or "") != GROUP:
            errors.append(not_supported("roleRef.apiGroup", group, (GROUP,)))
        if (kind := reference.get("kind") or "") not in self.kinds:
            errors.append(not_supported("roleRef.kind", kind, self.kinds))
        if name := reference.get("name"):
            errors += [invalid("roleRef.name", name, text) for text in path_segment_errors(name)]
        else:
            errors.append(required("roleRef.name"))
        for index, subject in enumerate(obj.get("subjects") or ()):
            namespaced = "Role" in self.kinds
            errors += _validate_subject(subject, f"subjects[{index}]", namespaced=namespaced)
        return errors

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        errors = self.validate_create(obj, ctx)
        new, before = _go_reference(obj), _go_reference(old)
        if new != before:
            errors.append(invalid_json("roleRef", new, "cannot change roleRef"))
        return errors


class ClusterRoleBindingStrategy(RoleBindingStrategy):
    kinds = ("ClusterRole",)


def _go_reference(binding: Json) -> Json:
    reference = binding.get("roleRef") or {}
    return {
        "APIGroup": reference.get("apiGroup") or "",
        "Kind": reference.get("kind") or "",
        "Name": reference.get("name") or "",
    }


def _validate_subject(subject: Mapping[str, Any], field: str, *, namespaced: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    name, kind, group = subject.get("name") or "", subject.get("kind") or "", subject.get("apiGroup") or ""
    if not name:
        errors.append(required(f"{field}.name"))
    if kind == "ServiceAccount":
        if name:
            errors += [invalid(f"{field}.name", name, text) for text in subdomain_errors(name)]
        if group:
            errors.append(not_supported(f"{field}.apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            errors.append(required(f"{field}.namespace"))
    elif kind in ("User", "Group"):
        if group != GROUP:
            errors.append(not_supported(f"{field}.apiGroup", group, (GROUP,)))
    else:
        errors.append(not_supported(f"{field}.kind", kind, ("ServiceAccount", "User", "Group")))
    return errors
