"""How a webhook is registered: names and rules that follow from the kind, unless they are given."""

from __future__ import annotations

import pytest

from quarterdeck.api import GroupVersionKind, Resource
from quarterdeck.api.k8s import Deployment, Namespace, Pod
from quarterdeck.runtime.webhook.registration import WebhookRule, WebhookSettings, make_settings, rule_for


class Widget(Resource, group="example.com", version="v1"):
    pass


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Widget, "vwidget.example.com"),
        (Deployment, "vdeployment.apps.k8s.io"),
        (Pod, "vpod.core.k8s.io"),
        (GroupVersionKind("example.com", "v1", "Gadget"), "vgadget.example.com"),
    ],
    ids=str,
)
def test_the_name_has_three_parts_whatever_the_group(
    kind: type[Resource] | GroupVersionKind, name: str
) -> None:
    assert make_settings(kind, "v", {}).name == name


def test_a_given_name_is_kept() -> None:
    assert make_settings(Widget, "v", {"name": "mine.example.com"}).name == "mine.example.com"


def test_the_rule_of_a_kind_is_its_writes() -> None:
    expected = WebhookRule(("example.com",), ("v1",), ("widgets",), ("CREATE", "UPDATE"), "Namespaced")
    assert make_settings(Widget, "v", {}).rules == (expected,)


def test_other_operations_go_into_the_rule() -> None:
    (rule,) = make_settings(Namespace, "v", {"operations": ("DELETE",)}).rules
    assert rule == WebhookRule(("",), ("v1",), ("namespaces",), ("DELETE",), "Cluster")


def test_given_rules_win() -> None:
    rules = (WebhookRule(("a",), ("v1",), ("as",)),)
    assert make_settings(Widget, "v", {"rules": rules, "operations": ("DELETE",)}).rules == rules


def test_a_kind_without_a_class_has_no_rule_of_its_own() -> None:
    assert rule_for(GroupVersionKind("example.com", "v1", "Gadget"), ("CREATE",)) == ()


def test_without_a_kind_nothing_is_assumed() -> None:
    assert make_settings(None, "v", {}) == WebhookSettings(name="", rules=())


def test_the_defaults_are_the_careful_ones() -> None:
    made = make_settings(Widget, "v", {})
    assert (made.failure_policy, made.match_policy, made.side_effects) == ("Fail", "Equivalent", "None")
    assert (made.timeout, made.reinvocation, made.review_versions) == (10, "Never", ("v1",))
