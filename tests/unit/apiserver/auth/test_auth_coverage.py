"""What rules somebody lacks: exactly the permissions that no single held rule allows, however many."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.apiserver.auth.coverage import uncovered
from quarterdeck.apiserver.auth.rule import PolicyRule

VERBS = st.sampled_from(["get", "list", "*"])
GROUPS = st.sampled_from(["", "apps", "*"])
RESOURCES = st.sampled_from(["pods", "pods/log", "*/log", "nodes", "*"])
NAMES = st.sampled_from(["a", "b"])
PATHS = st.sampled_from(["/x", "/x/y", "/x*", "/z/*", "*"])


def members(values: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(values, max_size=3, unique=True).map(tuple)


RULES = st.one_of(
    st.builds(
        PolicyRule,
        verbs=members(VERBS),
        groups=members(GROUPS),
        resources=members(RESOURCES),
        names=members(NAMES),
    ),
    st.builds(PolicyRule, verbs=members(VERBS), paths=members(PATHS)),
)


def permissions(rule: PolicyRule) -> Iterator[PolicyRule]:
    for group in rule.groups:
        for resource in rule.resources:
            for verb in rule.verbs:
                chosen: list[tuple[str, ...]] = [(name,) for name in rule.names] or [()]
                for names in chosen:
                    yield PolicyRule(verbs=(verb,), groups=(group,), resources=(resource,), names=names)
    for path in rule.paths:
        for verb in rule.verbs:
            yield PolicyRule(verbs=(verb,), paths=(path,))


def allows(held: PolicyRule, wanted: PolicyRule) -> bool:
    if not held.allows_verb(wanted.verbs[0]):
        return False
    if wanted.paths:
        return not held.names and held.allows_path(wanted.paths[0])
    if held.names and (not wanted.names or wanted.names[0] not in held.names):
        return False
    resource, _, subresource = wanted.resources[0].partition("/")
    return held.allows_resource(wanted.groups[0], resource, subresource)


@given(st.lists(RULES, max_size=4), RULES)
def test_what_is_missing_is_what_no_held_rule_allows(owned: list[PolicyRule], wanted: PolicyRule) -> None:
    assert uncovered(owned, [wanted]) == [
        each for each in permissions(wanted) if not any(allows(held, each) for held in owned)
    ]


def test_millions_of_permissions_are_covered_or_missing_as_one() -> None:
    many = tuple(f"n{index}" for index in range(1000))
    wanted = PolicyRule(verbs=many, groups=many, resources=many, names=many)
    everything = PolicyRule(verbs=("*",), groups=("*",), resources=("*",))
    assert uncovered([everything], [wanted]) == []
    almost = PolicyRule(verbs=many[1:], groups=many, resources=many, names=many)
    missing = uncovered([almost], [wanted, wanted])
    assert {rule.verbs for rule in missing} == {("n0",)}
    assert len(missing) < 100_000
