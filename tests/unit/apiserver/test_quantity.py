"""Quantities: exact values and the text the server shows."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.apiserver.document import quantity
from quarterdeck.apiserver.document.quantity import NANO, parse


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("0", "0"),
        ("00", "0"),
        ("0m", "0"),
        ("1", "1"),
        ("1000", "1k"),
        ("1500", "1500"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("1.", "1."),
        ("-", "0"),
        ("Ki", "0"),
        ("+1", "+1"),
        ("-1", "-1"),
        ("1000m", "1"),
        ("1001m", "1001m"),
        ("1.500", "1.500"),
        ("0.500", "500m"),
        ("1024Mi", "1Gi"),
        ("100Ki", "100Ki"),
        ("512Ki", "512Ki"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("1Ki", "1Ki"),
        ("1e3", "1e3"),
        ("1000e3", "1e6"),
        ("1E", "1E"),
        ("100n", "100n"),
        ("1.0000000001", "1000000001n"),
        ("12345678901234567890", "12345678901234567890"),
        ("9999999Ei", "9223372036854775807"),
        (" 1 ", "1"),
        (2, "2"),
        (0.5, "500m"),
    ],
)
def test_canonical_text(source: object, shown: str) -> None:
    assert quantity.canonical(source) == shown


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("", "quantities must match the regular expression"),
        ("a", "quantities must match the regular expression"),
        ("1 2", "quantities must match the regular expression"),
        ("1Kb", "quantities must match the regular expression"),
        ("1ki", "unable to parse quantity's suffix"),
        ("1mm", "unable to parse quantity's suffix"),
        ("--1", "unable to parse quantity's suffix"),
        ("1e", "unable to parse quantity's suffix"),
        ("1.2.3", "quantities must match the regular expression"),
    ],
)
def test_what_is_no_quantity(source: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(source)


def test_values_round_up() -> None:
    assert parse("1.1").value == 2
    assert parse("1500u").milli == 2
    assert parse("-1.1").value == -1


def test_resource_lists_are_rounded_up_to_thousandths() -> None:
    resources = {"cpu": "0.1234567", "memory": "1024Mi", "gpu": 2, "odd": "x"}
    quantity.round_list(resources)
    assert resources == {"cpu": "124m", "memory": "1Gi", "gpu": "2", "odd": "x"}


def test_sums_keep_the_first_format() -> None:
    assert quantity.add("1Gi", "512Mi") == "1536Mi"
    assert quantity.add("0", "1Ki") == "1Ki"
    assert quantity.add("500m", "1") == "1500m"


_SUFFIXES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
}


@given(st.integers(0, 8 * 10**9), st.sampled_from(sorted(_SUFFIXES)))
def test_values_are_exact(number: int, suffix: str) -> None:
    assert parse(f"{number}{suffix}").nanos == number * _SUFFIXES[suffix] * NANO


@given(st.integers(0, 10**15), st.integers(0, 9), st.sampled_from(sorted(_SUFFIXES)))
def test_the_canonical_text_is_stable_and_means_the_same(number: int, places: int, suffix: str) -> None:
    source = f"{Decimal(number).scaleb(-places):f}{suffix}"
    first = parse(source)
    again = parse(first.text)
    assert again.nanos == first.nanos
    assert again.text == first.text


@given(st.text(max_size=40))
def test_any_text_is_a_quantity_or_refused(text: str) -> None:
    try:
        parse(text)
    except ValueError:
        assert quantity.nanos_of(text) == 0
