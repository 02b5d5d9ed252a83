"""Which subgroups a PodGroup may have.

The first violation wins and is the only one told. Order matters to users who match on texts: names and
parents of each subgroup in list order, then missing parents, then cycles, then minimums. A name that is
wrong comes first because nothing else can be said about a group whose parts cannot be told apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from quarterdeck.api import UNSET, value_or
from quarterdeck.operators.kai.types import PodGroupSpec, SubGroup
from quarterdeck.wire.gostyle import quote

EXCLUSIVE: Final = "minMember and minSubGroup are mutually exclusive"
_CYCLE: Final = "cycle detected in subgroups"


def violation(spec: PodGroupSpec) -> str:
    """What is wrong with the subgroups of a PodGroup; empty if nothing is."""
    groups = spec.sub_groups
    return _of_tree(groups) or _of_both_minimums(spec) or _of_child_minimums(groups) or _of_root_minimum(spec)


def mixed_case(spec: PodGroupSpec) -> list[str]:
    """Names of subgroups, and of parents, that are not lowercase; each once, in list order."""
    used = (name for group in spec.sub_groups for name in (group.name, value_or(group.parent, "")))
    return [name for name in dict.fromkeys(used) if name != name.lower()]


def _of_both_minimums(spec: PodGroupSpec) -> str:
    if not spec.min_member or spec.min_member < 0 or spec.min_sub_group is UNSET:
        return ""
    return (
        f"{EXCLUSIVE}: set minMember ({spec.min_member}) to schedule a fixed number of pods, "
        "or set minSubGroup to require a minimum number of child SubGroups, but not both"
    )


def _of_tree(groups: Sequence[SubGroup]) -> str:
    parents: dict[str, str | None] = {}
    for group in groups:
        name, parent = group.name, group.parent
        if name != name.lower():
            return f"subgroup name {quote(name)} must be lowercase"
        if parent is UNSET:
            above = None
        elif parent != parent.lower():
            return f"parent of subgroup {quote(name)}: subgroup name {quote(parent)} must be lowercase"
        else:
            above = parent
        if name in parents:
            return f"duplicate subgroup name {name}"
        parents[name] = above
    for name, above in parents.items():
        if above is not None and above not in parents:
            return f"parent {above} of {name} was not found"
    return _CYCLE if _has_cycle(parents) else ""


def _has_cycle(parents: Mapping[str, str | None]) -> bool:
    """Whether the way up from some subgroup never ends."""
    ends: dict[str | None, bool] = {None: True}
    for start in parents:
        path = []
        name: str | None = start
        while name is not None and name not in ends:
            ends[name] = False  # until the way up was seen to end
            path.append(name)
            name = parents[name]
        if not ends[name]:
            return True
        for each in path:
            ends[each] = True
    return False


def _of_child_minimums(groups: Sequence[SubGroup]) -> str:
    limited = [group for group in groups if group.min_sub_group is not UNSET]
    if not limited:
        return ""
    children = Counter(group.parent for group in groups if group.parent is not UNSET)
    for group in sorted(limited, key=lambda each: each.name):
        wanted = value_or(group.min_sub_group, 0)
        who, count = f"subgroup {quote(group.name)}: ", children[group.name]
        if group.min_member is not UNSET:
            return f"{who}{EXCLUSIVE}"
        if not count:
            return f"{who}minSubGroup cannot be set on a leaf SubGroup (no child SubGroups)"
        if problem := _of_minimum(wanted, count):
            return f"{who}{problem}"
    return ""


def _of_root_minimum(spec: PodGroupSpec) -> str:
    if spec.min_sub_group is UNSET:
        return ""
    roots = sum(group.parent is UNSET for group in spec.sub_groups)
    return _of_minimum(spec.min_sub_group, roots)


def _of_minimum(wanted: int, children: int) -> str:
    if wanted <= 0:
        return "minSubGroup must be greater than 0"
    if wanted > children:
        return f"minSubGroup ({wanted}) exceeds the number of direct child SubGroups ({children})"
    return ""
