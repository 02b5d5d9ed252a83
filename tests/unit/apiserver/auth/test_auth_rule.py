"""Rules: what they allow, and whether some cover others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.apiserver.auth.coverage import uncovered
from quarterdeck.apiserver.auth.rule import FULL_AUTHORITY, PolicyRule, describe, parse_rules


def rule(groups: str, resources: str, verbs: str, names: str = "") -> PolicyRule:
    return PolicyRule(
        groups=tuple(groups.split("|")),
        resources=tuple(resources.split("|")),
        verbs=tuple(verbs.split("|")),
        names=tuple(names.split("|")) if names else (),
    )


@pytest.mark.parametrize(
    ("resources", "asked", "allowed"),
    [
        ("pods", ("pods", ""), True),
        ("pods", ("pods", "log"), False),
        ("pods/log", ("pods", "log"), True),
        ("pods/log", ("pods", ""), False),
        ("*", ("pods", "log"), True),
        ("*/log", ("pods", "log"), True),
        ("*/log", ("pods", ""), False),
        ("*/log", ("pods", "logs"), False),
        ("pods/*", ("pods", "log"), False),
        ("*/*", ("pods", "log"), False),
    ],
)
def test_resources_and_subresources_match_separately(
    resources: str, asked: tuple[str, str], allowed: bool
) -> None:
    assert rule("", resources, "get").allows_resource("", *asked) is allowed


def test_groups_match_exactly_or_by_star() -> None:
    assert rule("apps", "*", "get").allows_resource("apps", "x", "")
    assert not rule("apps", "*", "get").allows_resource("", "x", "")
    assert rule("*", "*", "get").allows_resource("anything", "x", "")


@pytest.mark.parametrize(
    ("pattern", "path", "allowed"),
    [
        ("/healthz", "/healthz", True),
        ("/healthz", "/healthz/", False),
        ("/healthz/*", "/healthz/etcd", True),
        ("/healthz/*", "/healthz", False),
        ("/heal*", "/healthz", True),
        ("*", "/", True),
        ("/a**", "/ab", True),
    ],
)
def test_paths_match_exactly_or_by_prefix(pattern: str, path: str, allowed: bool) -> None:
    assert PolicyRule(verbs=("get",), paths=(pattern,)).allows_path(path) is allowed


def test_a_missing_member_is_an_empty_one() -> None:
    assert parse_rules([{"verbs": ["get"], "resources": None}]) == (PolicyRule(verbs=("get",)),)
    assert parse_rules(None) == ()


def test_the_text_of_missing_rules_joins_verbs_only() -> None:
    owned = [rule("", "pods", "get"), rule("", "secrets", "get", "one")]
    wanted = [
        rule("", "pods", "get|list|watch"),
        rule("apps|", "deployments|pods/log", "get|list"),
        rule("", "secrets", "get", "one|two"),
        rule("", "secrets", "list", "one|two"),
        PolicyRule(verbs=("get", "post"), paths=("/a",)),
    ]
    assert describe(uncovered(owned, wanted)) == [
        '{APIGroups:[""], Resources:["deployments"], Verbs:["get" "list"]}',
        '{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}',
        '{APIGroups:[""], Resources:["pods/log"], Verbs:["get" "list"]}',
        '{APIGroups:[""], Resources:["secrets"], ResourceNames:["one"], Verbs:["list"]}',
        '{APIGroups:[""], Resources:["secrets"], ResourceNames:["two"], Verbs:["get" "list"]}',
        '{APIGroups:["apps"], Resources:["deployments"], Verbs:["get" "list"]}',
        '{APIGroups:["apps"], Resources:["pods/log"], Verbs:["get" "list"]}',
        '{NonResourceURLs:["/a"], Verbs:["get"]}',
        '{NonResourceURLs:["/a"], Verbs:["post"]}',
    ]


@pytest.mark.parametrize(
    ("own", "wanted", "is_covered"),
    [
        (rule("", "pods", "*"), rule("", "pods", "get|x"), True),
        (rule("", "pods", "get"), rule("", "pods", "*"), False),
        (rule("*", "*", "get"), rule("apps", "a/b", "get"), True),
        (rule("", "*/scale", "get"), rule("", "a/scale", "get"), True),
        (rule("", "*/scale", "get"), rule("", "*/scale", "get"), True),
        (rule("", "a/scale", "get"), rule("", "*/scale", "get"), False),
        (rule("", "pods", "get", "a"), rule("", "pods", "get"), False),
        (rule("", "pods", "get", "a"), rule("", "pods", "get", "a"), True),
        (rule("", "pods", "get"), rule("", "pods", "get", "a"), True),
        (PolicyRule(verbs=("get",), paths=("/a*",)), PolicyRule(verbs=("get",), paths=("/ab",)), True),
        (PolicyRule(verbs=("get",), paths=("/a*",)), PolicyRule(verbs=("get",), paths=("/ab*",)), True),
        (PolicyRule(verbs=("get",), paths=("/a",)), PolicyRule(verbs=("get",), paths=("*",)), False),
    ],
)
def test_coverage(own: PolicyRule, wanted: PolicyRule, is_covered: bool) -> None:
    assert (not uncovered([own], [wanted])) is is_covered


def _words(*words: str) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(words), min_size=1, max_size=3, unique=True).map(tuple)


resource_rules = st.builds(
    PolicyRule,
    verbs=_words("get", "list", "*"),
    groups=_words("", "apps", "*"),
    resources=_words("pods", "pods/log", "*/log", "*", "deployments"),
    names=st.one_of(st.just(()), _words("a", "b")),
)


@given(st.lists(resource_rules, max_size=4))
def test_everyone_covers_what_they_hold_and_full_authority_covers_all(rules: list[PolicyRule]) -> None:
    assert uncovered(rules, rules) == []
    assert uncovered(FULL_AUTHORITY, rules) == []


@given(st.lists(resource_rules, max_size=3), resource_rules, st.sampled_from(["a", "b", "c", ""]))
def test_what_is_covered_allows_no_more(owned: list[PolicyRule], wanted: PolicyRule, name: str) -> None:
    """Any question that a covered rule answers with yes, the owner's rules answer with yes too."""
    if uncovered(owned, [wanted]):
        return
    for verb in ("get", "list", "update"):
        for group in ("", "apps", "batch"):
            for resource, sub in (("pods", ""), ("pods", "log"), ("deployments", ""), ("x", "log")):

                def allows(rule: PolicyRule) -> bool:
                    return (
                        rule.allows_verb(verb)  # noqa: B023 - called right below
                        and rule.allows_resource(group, resource, sub)  # noqa: B023
                        and rule.allows_name(name)
                    )

                if allows(wanted):
                    assert any(map(allows, owned))
