"""Kubernetes libraries: properties and details beyond the conformance table."""

from __future__ import annotations

import ipaddress
from contextlib import suppress
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.cel import DYN, CelRuntimeError, Environment
from quarterdeck.cel.error import EvalError
from quarterdeck.cel.library import network, quantity, semver, url
from quarterdeck.cel.value.gotime import (
    format_rfc3339,
    parse_duration,
    parse_rfc3339,
    parse_wordy_duration,
)
from quarterdeck.cel.value.pattern import compile_pattern
from quarterdeck.cel.value.value import Duration


def run(expression: str, **bindings: Any) -> Any:
    return Environment(dict.fromkeys(bindings, DYN)).compile(expression).evaluate(bindings, cost_limit=None)


NUMBERS = st.decimals(-(10**12), 10**12, places=6, allow_nan=False, allow_infinity=False)
SUFFIXES: dict[str, int | Fraction] = {
    "": 1,
    "m": Fraction(1, 1000),
    "k": 1000,
    "M": 10**6,
    "Ki": 1024,
    "Gi": 2**30,
}


@given(NUMBERS, st.sampled_from(sorted(SUFFIXES)))
def test_quantities_are_exact(number: Any, suffix: str) -> None:
    parsed = quantity.parse(f"{number:f}{suffix}")
    exact = Fraction(number) * SUFFIXES[suffix]
    if suffix.endswith("i"):
        exact = max(min(exact, Fraction(2**63 - 1)), Fraction(1 - 2**63))
    assert abs(parsed.value - exact) < Fraction(1, 10**9)


@given(NUMBERS, NUMBERS)
def test_adding_and_subtracting_a_quantity_cancel(a: Any, b: Any) -> None:
    assert run("quantity(a).add(quantity(b)).sub(quantity(b)) == quantity(a)", a=f"{a:f}", b=f"{b:f}") is True


@pytest.mark.parametrize("text", ["1e99999999999", "9" * 500, "1e5000Ki", "-" * 50, "1" + "0" * 3000 + "m"])
def test_absurd_quantities_are_answered_quickly(text: str) -> None:
    assert run("isQuantity(q)", q=text) in (True, False)


@given(st.ip_addresses())
def test_addresses_print_in_canonical_form(address: Any) -> None:
    if getattr(address, "ipv4_mapped", None) is not None or getattr(address, "scope_id", None):
        return
    assert str(network.parse_ip(address.exploded)) == str(address)
    assert run("ip.isCanonical(a)", a=str(address)) is True


@given(st.ip_addresses(v=4), st.integers(0, 32), st.ip_addresses(v=4))
def test_a_network_contains_what_python_says(base: Any, bits: int, other: Any) -> None:
    expected = other in ipaddress.ip_network(f"{base}/{bits}", strict=False)
    assert run("cidr(c).containsIP(a)", c=f"{base}/{bits}", a=str(other)) is expected


@given(st.text("0123456789abcdef:.%/", max_size=20))
def test_any_text_is_an_address_or_refused(text: str) -> None:
    with suppress(EvalError):
        network.parse_ip(text)


VERSIONS = st.tuples(
    st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.sampled_from(["", "-1", "-a", "-a.1", "-2"])
)


@given(VERSIONS, VERSIONS)
def test_versions_are_totally_ordered(a: Any, b: Any) -> None:
    left, right = (semver.parse(f"{v[0]}.{v[1]}.{v[2]}{v[3]}") for v in (a, b))
    assert (left < right) + (left == right) + (left > right) == 1
    if a[:3] != b[:3]:
        assert (left < right) == (a[:3] < b[:3])


@given(st.text(max_size=30))
def test_any_text_is_a_url_or_refused_with_a_reason(text: str) -> None:
    with suppress(EvalError):
        assert url.to_url(text) == url.to_url(text)


@given(st.integers(-(1 << 62), 1 << 62))
def test_durations_are_close_after_printing(nanos: int) -> None:
    again = parse_duration(str(Duration(nanos)))
    assert again is not None
    assert abs(again - nanos) <= max(1, abs(nanos) >> 50)


@given(st.integers(-62135596800, 253402300799), st.integers(0, 999_999_999))
def test_timestamps_print_and_read_back(seconds: int, nanos: int) -> None:
    instant = seconds * 10**9 + nanos
    assert parse_rfc3339(format_rfc3339(instant, 0)) == (instant, 0)


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("3 days", 3 * 86400 * 10**9),
        ("2 weeks", 14 * 86400 * 10**9),
        ("1h", 3600 * 10**9),
        ("5 mins", 300 * 10**9),
    ],
)
def test_the_duration_format_also_takes_words(text: str, nanos: int) -> None:
    assert parse_wordy_duration(text) == nanos


@given(st.text("abé", max_size=8), st.sampled_from(["a*", "a+", "b|", "(ab)*", "a*?"]))
def test_find_all_covers_the_text_without_overlap(text: str, pattern: str) -> None:
    found = compile_pattern(pattern).find_all(text)
    assert sum(map(len, found)) <= len(text)
    assert compile_pattern(pattern).find_all(text, 2) == found[:2]


@given(st.lists(st.integers(-5, 5), max_size=6))
def test_list_functions_agree_with_python(items: list[int]) -> None:
    assert run("l.sort()", l=items) == sorted(items)
    assert run("l.reverse()", l=items) == items[::-1]
    assert run("l.distinct()", l=items) == list(dict.fromkeys(items))
    assert run("l.isSorted()", l=items) is (items == sorted(items))
    assert run("l.sum()", l=items) == sum(items)
    assert run("sets.equivalent(l, l.distinct())", l=items) is True
    assert run("l.sortBy(x, -x)", l=items) == sorted(items, reverse=True)


@given(st.text("ab,", max_size=8), st.sampled_from([",", "a", "", "ab"]))
def test_split_and_join_are_inverse(text: str, separator: str) -> None:
    assert run("s.split(sep).join(sep)", s=text, sep=separator) == text


@given(st.text(max_size=10), st.integers(-2, 12), st.integers(-2, 12))
def test_substring_agrees_with_python_inside_its_bounds(text: str, start: int, end: int) -> None:
    try:
        found = run("s.substring(a, b)", s=text, a=start, b=end)
    except CelRuntimeError:
        assert not 0 <= start <= end <= len(text)
    else:
        assert found == text[start:end]
