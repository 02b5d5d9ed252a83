"""Hashes of pod templates: what makes an update, and what says the same in other words."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import from_dict, to_dict
from quarterdeck.operators.grove.logic.templatehash import clique_hash, clique_hashes, generation_hash
from quarterdeck.operators.grove.types import CliqueTemplate, PodCliqueSet, PodCliqueSpec

from .grovekit import pod_spec


def template(spec: dict[str, Any] | None = None, **fields: Any) -> CliqueTemplate:
    """A clique of one container, with more in its pod spec."""
    document = to_dict(CliqueTemplate(name="c", spec=PodCliqueSpec(pod_spec=pod_spec())))
    document["spec"]["podSpec"] |= spec or {}
    return from_dict({**document, **fields}, CliqueTemplate)


def hashed(spec: dict[str, Any] | None = None, priority: str = "", **fields: Any) -> str:
    return clique_hash(template(spec, **fields), priority)


def test_the_hash_is_the_same_in_every_release() -> None:
    """A hash that changed with a release would restart every pod on upgrade."""
    assert hashed() == "5c7ddddff57dd66c66d8"
    assert hashed(priority="high") == "566d4996475dcb7cfdbf"


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeName": ""},
        {"nodeName": None},
        {"tolerations": []},
        {"nodeSelector": {}},
        {"affinity": {"nodeAffinity": {}}},
        {"securityContext": {"sysctls": []}},
    ],
    ids=str,
)
def test_leaving_out_and_saying_nothing_are_the_same(spec: dict[str, Any]) -> None:
    assert hashed(spec) == hashed()


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeName": "n"},
        {"hostNetwork": False},
        {"terminationGracePeriodSeconds": 0},
        {"tolerations": [{}]},
        {"tolerations": [{"key": "a"}]},
        {"nodeSelector": {"a": "b"}},
    ],
    ids=str,
)
def test_whatever_is_said_makes_another_hash(spec: dict[str, Any]) -> None:
    assert hashed(spec) != hashed()


def test_labels_annotations_and_priority_count() -> None:
    plain = hashed()
    others = [hashed(labels={"a": "b"}), hashed(annotations={"a": "b"}), hashed(priority="high")]
    assert len({plain, *others}) == 4


def test_the_order_of_keys_does_not_count_and_that_of_lists_does() -> None:
    assert hashed({"nodeSelector": {"a": "1", "b": "2"}}) == hashed({"nodeSelector": {"b": "2", "a": "1"}})
    one, other = {"key": "a"}, {"key": "b"}
    assert hashed({"tolerations": [one, other]}) != hashed({"tolerations": [other, one]})


def test_a_hash_can_stand_in_a_label() -> None:
    assert set(hashed()) <= set("bcdfghjklmnpqrstvwxz2456789")
    assert 0 < len(hashed()) <= 20


def a_set(*names: str, priority: str = "") -> PodCliqueSet:
    cliques = [{**to_dict(template()), "name": name} for name in names]
    document = {
        "metadata": {"name": "s"},
        "spec": {"template": {"cliques": cliques, "priorityClassName": priority}},
    }
    return PodCliqueSet.from_dict(document)


def test_a_set_hashes_each_clique_by_name_with_its_priority() -> None:
    assert clique_hashes(a_set("a", "b", priority="high")) == dict.fromkeys(
        ("a", "b"), hashed(priority="high")
    )


def test_a_set_has_another_hash_with_another_clique_or_priority() -> None:
    sets = [a_set("a"), a_set("a", "b"), a_set("a", priority="high")]
    assert len({generation_hash(each) for each in sets}) == 3
    assert generation_hash(a_set("a")) == generation_hash(a_set("b"))
