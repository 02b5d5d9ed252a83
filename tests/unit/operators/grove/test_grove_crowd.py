"""Looks at large sets: how often, and at what."""

from __future__ import annotations

from quarterdeck.api import Key, ObjectMeta
from quarterdeck.api.k8s import Service
from quarterdeck.operators.grove.controllers.crowd import Crowds
from quarterdeck.operators.grove.controllers.settled import SetPlans, SettledChildren
from quarterdeck.operators.grove.logic.templatehash import clique_hashes

from .grovekit import clique, pcs

SET = Key("default", "sample")


def look(crowds: Crowds, *, changes: int, children: int) -> float:
    """The pause after a look that some changes have led to."""
    for _ in range(changes):
        crowds.changed(SET)
    crowds.looked(SET, children)
    return crowds.changed(SET)


def test_a_single_change_does_not_wait_for_others() -> None:
    crowds = Crowds(shortest=0.03)
    assert crowds.changed(SET) == 0.03
    assert look(crowds, changes=2, children=5000) == 0.03


def test_a_set_in_a_crowd_is_left_alone_for_longer_the_more_children_it_has() -> None:
    crowds = Crowds(shortest=0.03)
    assert look(crowds, changes=100, children=10) == 0.03
    assert look(crowds, changes=100, children=400) == 0.4
    assert look(crowds, changes=100, children=5000) == 1.0, "never for longer than that"


def test_a_set_is_looked_at_soon_again_when_the_crowd_is_gone() -> None:
    crowds = Crowds(shortest=0.03)
    look(crowds, changes=100, children=400)
    assert look(crowds, changes=1, children=400) == 0.03
    look(crowds, changes=100, children=400)
    crowds.forget(SET)
    assert crowds.changed(SET) == 0.03


def _service(version: str = "1", **labels: str) -> Service:
    metadata = ObjectMeta(name="web", namespace="default", uid="u", resource_version=version, labels=labels)
    return Service(metadata=metadata)


def test_a_child_is_settled_until_it_or_what_is_wanted_changes() -> None:
    settled, wanted, other = SettledChildren(), _service(), _service(app="b")
    assert not settled.is_settled("set", _service(), wanted)
    settled.settle("set", _service(), wanted)
    assert settled.is_settled("set", _service(), wanted)
    assert not settled.is_settled("set", _service("2"), wanted), "somebody has touched it"
    assert not settled.is_settled("set", _service(), other), "something else is wanted"
    assert not settled.is_settled("another", _service(), wanted)
    settled.forget("set")
    assert not settled.is_settled("set", _service(), wanted)


def test_what_is_missing_or_not_settled_is_left_to_do() -> None:
    settled, wanted = SettledChildren(), _service()
    assert settled.others("set", [wanted], []) == [wanted]
    assert settled.others("set", [wanted], [_service()]) == [wanted]
    settled.settle("set", _service(), wanted)
    assert settled.others("set", [wanted], [_service()]) == []
    assert settled.others("set", [wanted], []) == [wanted], "it is gone"


def test_a_plan_lasts_as_long_as_its_set_does_not_change() -> None:
    plans, one = SetPlans(), pcs(clique("a", 2))
    hashes = clique_hashes(one)
    first = plans.of(one, hashes)
    assert plans.of(one, hashes) is first
    relabelled = one.evolve(metadata=one.metadata.evolve(labels={"app": "other"}))
    assert plans.of(relabelled, hashes) is not first
    changed = one.evolve(metadata=one.metadata.evolve(generation=one.metadata.generation + 1))
    assert plans.of(changed, hashes) is not first
    plans.forget(one.metadata.uid)
    assert plans.of(one, hashes) is not first
