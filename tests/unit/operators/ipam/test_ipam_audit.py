"""The table against a list: what counts as a difference, and what is only late."""

from __future__ import annotations

import msgspec

from quarterdeck.api import Key
from quarterdeck.operators.ipam.logic.audit import Difference, differences
from quarterdeck.operators.ipam.logic.facts import Member
from quarterdeck.operators.ipam.logic.network import Network, parse
from quarterdeck.operators.ipam.logic.poolstate import PoolState

from .ipamstrategy import member

ONE, OTHER = parse("10.0.0.0/28"), parse("10.0.0.16/28")


def at(version: int, network: Network | None = ONE, uid: str = "u") -> Member:
    return msgspec.structs.replace(member("a", network), uid=uid, version=version)


def state(*members: Member) -> PoolState:
    made = PoolState(Key("default", "p"))
    for each in members:
        made.add_member(each)
    return made


def test_what_both_have_alike_is_no_difference() -> None:
    assert differences(state(at(5)), [at(5)], 9) == set()


def test_what_only_the_list_has_is_missing_in_the_ledger() -> None:
    assert differences(state(), [at(5)], 9) == {Difference("u", at(5))}


def test_another_network_in_the_list_counts_if_the_list_is_as_new() -> None:
    assert differences(state(at(5)), [at(5, OTHER)], 9) == {Difference("u", at(5, OTHER))}
    assert differences(state(at(5)), [at(6, OTHER)], 9) == {Difference("u", at(6, OTHER))}


def test_another_network_in_an_older_list_is_old_news() -> None:
    assert differences(state(at(5)), [at(4, OTHER)], 9) == set()


def test_a_newer_version_with_the_same_network_is_no_difference() -> None:
    assert differences(state(at(5)), [at(6)], 9) == set()


def test_a_network_that_cannot_be_read_differs_from_one_that_can() -> None:
    assert differences(state(at(5)), [at(5, None)], 9) == {Difference("u", at(5, None))}


def test_what_the_list_no_longer_has_is_gone_if_the_list_is_as_new() -> None:
    assert differences(state(at(5)), [], 5) == {Difference("u", None)}
    assert differences(state(at(5)), [], 6) == {Difference("u", None)}


def test_what_is_younger_than_the_list_is_not_missed_in_it() -> None:
    assert differences(state(at(5)), [], 4) == set()


def test_each_subnet_is_judged_by_itself() -> None:
    known = state(at(1, uid="same"), at(1, uid="gone"), at(9, uid="young"))
    found = differences(known, [at(1, uid="same"), at(2, OTHER, uid="new")], 5)
    assert found == {Difference("gone", None), Difference("new", at(2, OTHER, uid="new"))}
