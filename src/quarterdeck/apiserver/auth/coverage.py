"""Whether the rules somebody holds cover the rules they want to grant.

A rule is a product: its verbs for its resources of its groups, for its names. Three short lists make millions
of permissions, so they are not looked at one by one: values that the same held rules allow are one class, and
a class is covered as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, product

from .rule import PolicyRule, path_covers

#: at most so many missing permissions are listed in a message
_SHOWN = 10_000
#: values of one member of a rule, by the held rules that allow them: one bit for each rule
_Classes = Mapping[int, list[str]]


def uncovered(owned: Sequence[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """What of `wanted` is not within `owned`, as rules of one verb, resource, name or path each.

    In the order of their members, as far as they are shown.
    """
    held = _Held(owned)
    found: list[PolicyRule] = []
    for rule in wanted:
        found += islice(held.missing(rule), _SHOWN - len(found))
    return found


class _Held:
    """Rules as bits: for every value the set of rules that allow it."""

    def __init__(self, rules: Sequence[PolicyRule]) -> None:
        self._rules = rules
        self._verbs = _bits(rule.verbs for rule in rules)
        self._groups = _bits(rule.groups for rule in rules)
        self._resources = _bits(rule.resources for rule in rules)
        self._names = _bits(rule.names for rule in rules)
        self._nameless = sum(1 << index for index, rule in enumerate(rules) if not rule.names)
        self._paths = [(1 << index, rule.paths) for index, rule in enumerate(rules) if rule.paths]

    def missing(self, rule: PolicyRule) -> Iterator[PolicyRule]:
        verbs = _classes(rule.verbs, self._for_verb)
        groups = _classes(rule.groups, self._for_group)
        resources = _classes(rule.resources, self._for_resource)
        names = _classes(rule.names, self._for_name) if rule.names else {self._nameless: [""]}
        orders = [_order(values) for values in (rule.groups, rule.resources, rule.verbs, rule.names or ("",))]
        for group, resource, verb, name in _open_products((groups, resources, verbs, names), orders):
            yield PolicyRule(
                verbs=(verb,), groups=(group,), resources=(resource,), names=(name,) if rule.names else ()
            )
        paths = _classes(rule.paths, self._for_path)
        for path, verb in _open_products((paths, verbs), [_order(rule.paths), _order(rule.verbs)]):
            yield PolicyRule(verbs=(verb,), paths=(path,))

    def _for_verb(self, verb: str) -> int:
        return self._verbs.get(verb, 0) | self._verbs.get("*", 0)

    def _for_group(self, group: str) -> int:
        return self._groups.get(group, 0) | self._groups.get("*", 0)

    def _for_resource(self, resource: str) -> int:
        found = self._resources.get(resource, 0) | self._resources.get("*", 0)
        _, slash, subresource = resource.partition("/")
        return found | self._resources.get(f"*/{subresource}", 0) if slash and subresource else found

    def _for_name(self, name: str) -> int:
        return self._names.get(name, 0) | self._nameless

    def _for_path(self, path: str) -> int:
        # upstream asks the same of both halves; a rule with names never covers a path
        found = sum(bit for bit, patterns in self._paths if any(path_covers(each, path) for each in patterns))
        return found & self._nameless


def _bits(members: Iterable[Sequence[str]]) -> dict[str, int]:
    bits: dict[str, int] = {}
    for index, values in enumerate(members):
        for value in values:
            bits[value] = bits.get(value, 0) | 1 << index
    return bits


def _classes(values: Iterable[str], allowed_by: Callable[[str], int]) -> _Classes:
    classes: dict[int, list[str]] = {}
    for value in values:
        classes.setdefault(allowed_by(value), []).append(value)
    return classes


def _order(values: Sequence[str]) -> dict[str, int]:
    return {value: index for index, value in reversed(list(enumerate(values)))}


def _open_products(
    members: Sequence[_Classes], orders: Sequence[Mapping[str, int]]
) -> Iterator[tuple[str, ...]]:
    """The combinations of one value of each member that no single rule allows, in the order of the values."""
    combinations = (
        combination
        for classes in product(*(each.items() for each in members))
        if not _common(bits for bits, _ in classes)
        for combination in product(*(values for _, values in classes))
    )
    shown = list(islice(combinations, _SHOWN))
    shown.sort(key=lambda combination: [order[v] for order, v in zip(orders, combination, strict=True)])
    return iter(shown)


def _common(masks: Iterable[int]) -> int:
    common = -1
    for mask in masks:
        common &= mask
    return common
