"""Sets of completion indexes, and how long after a failure no new pod is made."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.api import encode
from quarterdeck.cluster.job.backoff import NO_FAILURES, Failures, JobSettings, remaining
from quarterdeck.cluster.job.index import NO_INDEXES, IndexSet
from quarterdeck.cluster.job.podstate import PodState
from quarterdeck.runtime.cache.entry import EntryFactory

INDEXES = st.sets(st.integers(0, 40))


@pytest.mark.parametrize(
    ("indexes", "text"),
    [((), ""), ((3,), "3"), ((0, 1), "0,1"), ((0, 1, 2, 4), "0-2,4"), ((1, 3, 4, 6, 7, 8), "1,3,4,6-8")],
)
def test_the_text_is_that_of_the_status(indexes: tuple[int, ...], text: str) -> None:
    assert str(IndexSet.of(indexes)) == text
    assert IndexSet.parse(text, 100) == IndexSet.of(indexes)


def test_indexes_beyond_the_number_of_completions_are_left_out() -> None:
    assert str(IndexSet.parse("0-2,4,6-9", 8)) == "0-2,4,6,7"
    assert IndexSet.parse("9", 8) == NO_INDEXES


def test_text_that_makes_no_sense_is_left_out() -> None:
    assert str(IndexSet.parse("0,x,2-y,4", 10)) == "0,4"


@given(INDEXES, INDEXES)
def test_it_behaves_like_a_set(left: set[int], right: set[int]) -> None:
    one, two = IndexSet.of(left), IndexSet.of(right)
    assert len(one) == len(left)
    assert (one | two) == IndexSet.of(left | right)
    assert one.common(two) == len(left & right)
    assert [index for index in range(42) if index in one] == sorted(left)
    assert list(one.missing(30)) == [index for index in range(30) if index not in left]
    assert IndexSet.parse(str(one), 100) == one


def ended(at: int) -> PodState:
    state = {"terminated": {"exitCode": 1, "finishedAt": f"1970-01-01T00:{at // 60:02}:{at % 60:02}Z"}}
    status = {"containerStatuses": [{"name": "c", "state": state}]}
    return PodState(EntryFactory().make(encode({"metadata": {"name": "p"}, "status": status})))


def test_failures_add_up_until_a_success() -> None:
    two = NO_FAILURES.after([], [ended(10), ended(5)])
    assert two == Failures(2, 10.0)
    assert two.after([], []) == two
    assert two.after([], [ended(30)]) == Failures(3, 30.0)
    assert two.after([ended(20)], [ended(30), ended(15)]) == Failures(1, 30.0)
    assert two.after([ended(20)], [ended(15)]) == NO_FAILURES


def test_the_wait_doubles_up_to_a_limit() -> None:
    settings = JobSettings()
    waits = [remaining(Failures(number, 100.0), 100.0, settings) for number in range(9)]
    assert waits == [0, 10, 20, 40, 80, 160, 320, 600, 600]
    assert remaining(Failures(10_000, 100.0), 100.0, settings) == 600
    assert remaining(Failures(2, 100.0), 115.0, settings) == 5
    assert remaining(Failures(2, 100.0), 130.0, settings) == 0
