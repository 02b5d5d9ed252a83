"""The roles and bindings every server starts with, and the aggregation of ClusterRoles.

The objects are those a fresh upstream server makes (`data/resources.json`), with one difference: `admin`,
`edit` and `view` come with the rules that upstream's controller would put into them a moment later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any, Final

import msgspec

from quarterdeck.api.jsonobject import Json

from .rbac import GROUP
from .rule import PolicyRule, parse_rules

_KINDS: Final = {
    "clusterroles": "ClusterRole",
    "clusterrolebindings": "ClusterRoleBinding",
    "roles": "Role",
    "rolebindings": "RoleBinding",
}

Document = Mapping[str, Any]


class BootstrapObject(msgspec.Struct, frozen=True):
    """One object to create at the first start; namespaced ones live in kube-system and kube-public."""

    resource: str
    namespace: str
    name: str
    document: Json


def bootstrap_objects() -> list[BootstrapObject]:
    """Fresh documents, roles before the bindings that name them. Blocking: reads a file."""
    data = files("quarterdeck.apiserver").joinpath("data", "resources.json").read_bytes()
    recorded = msgspec.json.decode(data)["bootstrap"]
    for role, rules in settle(recorded["clusterroles"]):
        role["rules"] = rules
    return [
        BootstrapObject(
            resource,
            document["metadata"].get("namespace", ""),
            document["metadata"]["name"],
            {"apiVersion": f"{GROUP}/v1", "kind": kind, **document},
        )
        for resource, kind in _KINDS.items()
        for document in recorded[resource]
    ]


def node_rules() -> tuple[PolicyRule, ...]:
    """What every node may do, as the ClusterRole system:node says. Blocking: reads a file."""
    roles = {each.name: each.document for each in bootstrap_objects() if each.resource == "clusterroles"}
    return parse_rules(roles["system:node"]["rules"])


def settle(roles: Iterable[Document]) -> list[tuple[Any, list[Json]]]:
    """ClusterRoles whose rules are not what their aggregationRule gathers, and the rules they should have.

    Roles gathered may themselves gather: the answer holds once it has been applied to all.
    """
    by_name = {role["metadata"]["name"]: role for role in roles}
    original = {name: role.get("rules") or [] for name, role in by_name.items()}
    gathering = [role for role in by_name.values() if _gather(role, by_name, original) is not None]
    # What a gathering role had does not count: roles that gather from each other would pass it round.
    rules: dict[str, list[Json]] = {**original, **{role["metadata"]["name"]: [] for role in gathering}}
    for _ in range(len(gathering) + 1):  # rules travel one role per pass at least
        is_stable = True
        for role in gathering:
            name = role["metadata"]["name"]
            gathered = _gather(role, by_name, rules)
            if gathered is not None and gathered != rules[name]:
                rules[name] = gathered
                is_stable = False
        if is_stable:
            break
    return [
        (role, rules[name]) for role in gathering if rules[name := role["metadata"]["name"]] != original[name]
    ]


def _gather(
    role: Document, by_name: Mapping[str, Document], rules: Mapping[str, list[Json]]
) -> list[Json] | None:
    """The rules of all selected roles in order of name, each once.

    None for a role that gathers nothing, or whose selector cannot be read.
    """
    if not role.get("aggregationRule"):
        return None
    gathered: list[Json] = []
    for selector in role["aggregationRule"].get("clusterRoleSelectors") or ():
        for name in sorted(by_name):
            labels = by_name[name]["metadata"].get("labels") or {}
            is_selected = selects(selector, labels)
            if is_selected is None:
                return None
            if is_selected and name != role["metadata"]["name"]:
                gathered += (rule for rule in rules[name] if rule not in gathered)
    return gathered


def selects(selector: Document, labels: Mapping[str, str]) -> bool | None:
    """Whether a LabelSelector matches; the empty one matches all, an unknown operator gives None."""
    matches = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    for requirement in selector.get("matchExpressions") or ():
        value, values = labels.get(requirement["key"]), requirement.get("values") or ()
        match requirement.get("operator"):
            case "In":
                matches = matches and value in values
            case "NotIn":
                matches = matches and value not in values
            case "Exists":
                matches = matches and value is not None
            case "DoesNotExist":
                matches = matches and value is None
            case _:
                return None
    return matches
