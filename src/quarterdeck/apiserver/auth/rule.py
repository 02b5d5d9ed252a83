"""Policy rules: what one rule of a Role allows, and how rules are printed.

Pure values and functions; who holds which rules is decided in `rbac`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from quarterdeck.wire import gostyle


class PolicyRule(msgspec.Struct, frozen=True):
    """One entry of `rules` of a Role or ClusterRole, members in the order they were written."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    def allows_verb(self, verb: str) -> bool:
        return verb in self.verbs or "*" in self.verbs

    def allows_resource(self, group: str, resource: str, subresource: str) -> bool:
        """Whether the rule is about the resource; names are a separate question."""
        if group not in self.groups and "*" not in self.groups:
            return False
        combined = f"{resource}/{subresource}" if subresource else resource
        if combined in self.resources or "*" in self.resources:
            return True
        return bool(subresource) and f"*/{subresource}" in self.resources

    def allows_name(self, name: str) -> bool:
        return not self.names or name in self.names

    def allows_path(self, path: str) -> bool:
        return any(path_covers(pattern, path) for pattern in self.paths)

    def to_text(self) -> str:
        """`{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`, empty members left out."""
        members = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.paths),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        return "{" + ", ".join(f"{key}:{quoted_list(values)}" for key, values in members if values) + "}"


FULL_AUTHORITY = (
    PolicyRule(verbs=("*",), groups=("*",), resources=("*",)),
    PolicyRule(verbs=("*",), paths=("*",)),
)


def quoted_list(values: Iterable[str]) -> str:
    """A list of strings as Go's `%q` prints it: `["a" "b"]`."""
    return "[" + " ".join(gostyle.quote(value) for value in values) + "]"


def parse_rules(rules: Sequence[Mapping[str, Any]] | None) -> tuple[PolicyRule, ...]:
    """The `rules` of a Role document."""
    return tuple(
        PolicyRule(
            verbs=tuple(rule.get("verbs") or ()),
            groups=tuple(rule.get("apiGroups") or ()),
            resources=tuple(rule.get("resources") or ()),
            names=tuple(rule.get("resourceNames") or ()),
            paths=tuple(rule.get("nonResourceURLs") or ()),
        )
        for rule in rules or ()
    )


def describe(atoms: Sequence[PolicyRule]) -> list[str]:
    """Atoms as sorted lines of text, those that differ only in the verb joined."""
    lines: list[str] = []
    joined: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for atom in atoms:
        if atom.paths:
            lines.append(atom.to_text())
        else:
            joined.setdefault((atom.groups[0], atom.resources[0], atom.names), []).extend(atom.verbs)
    lines += (
        PolicyRule(verbs=tuple(verbs), groups=(group,), resources=(resource,), names=names).to_text()
        for (group, resource, names), verbs in joined.items()
    )
    return sorted(set(lines))


def path_covers(pattern: str, path: str) -> bool:
    """Whether a path in a rule, which may end in `*`, is about a path."""
    return pattern == path or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))
