"""Counters, gauges and histograms, and the text they become."""

from __future__ import annotations

import math

import pytest

from quarterdeck.runtime.metrics import Registry
from quarterdeck.runtime.metrics.registry import Gauge, Histogram, format_number


def test_a_histogram_counts_a_value_up_to_and_with_its_bound() -> None:
    registry = Registry()
    seconds = registry.histogram("seconds", "How long.", ["of"], buckets=[1, 2]).labelled("x")
    for value in (0.5, 1, 1.5, 3):
        seconds.observe(value)
    assert registry.expose().decode() == (
        "# HELP seconds How long.\n# TYPE seconds histogram\n"
        'seconds_bucket{of="x",le="1"} 2\nseconds_bucket{of="x",le="2"} 3\n'
        'seconds_bucket{of="x",le="+Inf"} 4\nseconds_sum{of="x"} 6\nseconds_count{of="x"} 4\n'
    )
    assert registry.value("seconds", "x") == seconds.count == 4


def test_a_histogram_takes_over_what_another_has_counted() -> None:
    one, two = Histogram([1]), Histogram([1])
    one.observe(0.5)
    two.observe(0.25)
    two.observe(5)
    one.absorb(two)
    assert (one.counts, one.sum, one.count) == ([2, 1], 5.75, 3)


def test_a_gauge_goes_up_and_down() -> None:
    gauge = Gauge()
    gauge.inc()
    gauge.inc(3)
    gauge.dec()
    assert gauge.value == 3
    gauge.dec(2)
    assert gauge.value == 1


def test_without_labels_there_are_no_brackets_and_a_histogram_keeps_its_bounds() -> None:
    registry = Registry()
    registry.counter("things_total", "Things.").labelled().inc()
    registry.histogram("size", "Sizes.", buckets=[1]).labelled().observe(2)
    lines = registry.expose().decode().splitlines()
    assert "things_total 1" in lines
    assert 'size_bucket{le="1"} 0' in lines
    assert "size_sum 2" in lines


def test_families_without_children_are_left_out_and_the_rest_is_sorted() -> None:
    registry = Registry()
    assert registry.expose() == b""
    registry.gauge("nobody", "x", ["a"])
    both = registry.gauge("both", "x", ["a"])
    both.labelled("2").set(2)
    both.labelled("1").set(1)
    assert [line for line in registry.expose().decode().splitlines() if line[0] != "#"] == [
        'both{a="1"} 1',
        'both{a="2"} 2',
    ]
    assert [family.name for family in registry.families] == ["both", "nobody"]
    assert registry.family("both") is both
    both.remove("1")
    both.remove("never there")
    assert [values for values, _ in both.items()] == [("2",)]
    both.clear()
    assert list(both.items()) == []


def test_the_number_of_labels_is_checked() -> None:
    family = Registry().counter("c", "x", ["a", "b"])
    with pytest.raises(ValueError, match="got 1 values"):
        family.labelled("x")


@pytest.mark.parametrize("buckets", [[2, 1], [1, 1]])
def test_buckets_must_ascend(buckets: list[float]) -> None:
    with pytest.raises(ValueError, match="must ascend"):
        Registry().histogram("h", "x", buckets=buckets)


def test_what_refreshes_values_may_end() -> None:
    registry = Registry()
    gauge = registry.gauge("g", "x").labelled()
    end = registry.before_expose(gauge.inc)
    registry.expose()
    end()
    end()
    registry.expose()
    assert gauge.value == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (math.nan, "NaN"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (0, "0"),
        (999999, "999999"),
        (-999999, "-999999"),
        (1000000, "1e+06"),
        (-1000000, "-1e+06"),
        (1234567.5, "1.2345675e+06"),
        (999999.5, "999999.5"),
        (-0.5, "-0.5"),
        (1e300, "1e+300"),
        (-2.5e20, "-2.5e+20"),
    ],
)
def test_numbers_are_written_as_go_writes_them(value: float, text: str) -> None:
    assert format_number(value) == text
