"""Dividing a resource between queues."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.scheduler.model.fairshare import Claim, divide


def claim(
    name: str, request: float, quota: float = 0, weight: float = 1, limit: float = -1, **more: Any
) -> Claim:
    return Claim(name=name, quota=quota, limit=limit, weight=weight, request=request, **more)


def test_nobody_gets_more_than_it_asks_for() -> None:
    assert divide(10, [claim("a", 2, 4), claim("b", 6, 6)]) == {"a": 2, "b": 6}


def test_quotas_are_granted_even_beyond_the_total() -> None:
    assert divide(4, [claim("a", 10, 3), claim("b", 10, 3)]) == {"a": 3, "b": 3}


def test_an_unlimited_quota_is_the_total() -> None:
    assert divide(10, [claim("a", 7, -1), claim("b", 10)]) == {"a": 7, "b": 3}


def test_what_is_over_quota_goes_by_weight() -> None:
    assert divide(12, [claim("a", 20, 2, 1), claim("b", 20, 2, 3)]) == {"a": 4, "b": 8}


def test_weight_zero_gets_nothing_over_quota() -> None:
    assert divide(10, [claim("a", 10, 2, 0), claim("b", 3, 2)]) == {"a": 2, "b": 3}


def test_a_limit_caps_the_share_and_leaves_the_rest_to_others() -> None:
    assert divide(10, [claim("a", 10, 2, limit=3), claim("b", 10, 2)]) == {"a": 3, "b": 7}


def test_higher_priority_takes_what_is_over_quota_first() -> None:
    shares = divide(10, [claim("a", 6, 2, priority=200), claim("b", 10, 2)])
    assert shares == {"a": 6, "b": 4}


def test_what_one_leaves_is_divided_in_another_round() -> None:
    shares = divide(9, [claim("a", 1), claim("b", 10), claim("c", 10)])
    assert shares == {"a": 1, "b": 4, "c": 4}


def test_units_are_whole_and_the_largest_remainder_gets_the_rest() -> None:
    assert divide(10, [claim("a", 10, weight=1), claim("b", 10, weight=2)]) == {"a": 3, "b": 7}


def test_equal_remainders_go_to_the_older_queue_then_by_name() -> None:
    assert divide(3, [claim("a", 9, created=2.0), claim("b", 9, created=1.0)]) == {"a": 1, "b": 2}
    assert divide(3, [claim("b", 9), claim("a", 9)]) == {"a": 2, "b": 1}


def test_parts_of_a_unit_may_be_asked_for() -> None:
    assert divide(3, [claim("a", 0.5), claim("b", 10)]) == {"a": 0.5, "b": 2.5}


def test_past_use_lowers_the_weight() -> None:
    assert divide(10, [claim("a", 10, usage=0.5), claim("b", 10)]) == {"a": 3, "b": 7}
    assert divide(10, [claim("a", 10, usage=0.5), claim("b", 10)], k=0.0) == {"a": 5, "b": 5}


def test_use_beyond_measure_gets_nothing() -> None:
    assert divide(10, [claim("a", 10, usage=5.0), claim("b", 4)]) == {"a": 0, "b": 4}


@pytest.mark.parametrize("total", [0, 0.0])
def test_nothing_to_divide_leaves_the_quotas(total: float) -> None:
    assert divide(total, [claim("a", 5, 2), claim("b", 5)]) == {"a": 2, "b": 0}


claims = st.lists(
    st.builds(
        claim,
        st.sampled_from("abcdefgh"),
        st.integers(0, 30),
        st.sampled_from([-1, 0, 1, 2, 5, 8]),
        st.sampled_from([0, 1, 1, 2, 5]),
        st.sampled_from([-1, -1, 0, 3, 10]),
        priority=st.sampled_from([100, 100, 200]),
        created=st.integers(0, 3).map(float),
    ),
    unique_by=lambda each: each.name,
)


@given(st.integers(0, 40), claims)
def test_shares_respect_requests_limits_and_the_total(total: int, given_claims: list[Claim]) -> None:
    shares = divide(total, given_claims)
    granted = sum(min(total if each.quota == -1 else each.quota, each.requestable) for each in given_claims)
    assert sum(shares.values()) <= max(total, granted) + 1e-9
    for each in given_claims:
        assert 0 <= shares[each.name] <= each.requestable + 1
        if each.weight == 0:
            assert shares[each.name] == min(total if each.quota == -1 else each.quota, each.requestable)


@given(st.integers(0, 40), claims, st.randoms())
def test_the_order_of_queues_does_not_matter(
    total: int, given_claims: list[Claim], chance: random.Random
) -> None:
    mixed = list(given_claims)
    chance.shuffle(mixed)
    assert divide(total, mixed) == divide(total, given_claims)
