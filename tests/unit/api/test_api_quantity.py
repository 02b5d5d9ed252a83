"""Quantities: exact, canonical, textual."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.api import Quantity
from quarterdeck.api.quantity import (
    QuantityFormat,
    max_quantities,
    sum_quantities,
)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("0n", "0"),
        ("0.0", "0"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1.5", "1500m"),
        ("0.3Mi", "314572800m"),
        ("1Gi", "1Gi"),
        ("1024Mi", "1Gi"),
        ("0.5Gi", "512Mi"),
        ("1.5Gi", "1536Mi"),
        ("1023Ki", "1023Ki"),
        ("512", "512"),
        ("1000", "1k"),
        ("1000Ki", "1000Ki"),
        ("12345678", "12345678"),
        ("1e3", "1e3"),
        ("1E3", "1e3"),
        ("1e-3", "1e-3"),
        ("100e-1", "10"),
        ("1E", "1E"),
        ("1000P", "1E"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("-1500m", "-1500m"),
        ("+1", "1"),
        (".5", "500m"),
        ("1.", "1"),
        ("0.5Ki", "512"),
        ("0.0001Ki", "102400u"),
        ("100Ei", "9223372036854775807"),
        ("00001", "1"),
    ],
)
def test_canonical_form(text: str, canonical: str) -> None:
    assert Quantity(text).canonical() == canonical


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1.1.M",
        "1+1.0M",
        "0.1mi",
        "0.1am",
        "aoeu",
        ".5i",
        "1i",
        "-3.01i",
        "-3.01e-",
        " 1",
        "1 ",
        "1e99999999999",
    ],
)
def test_malformed_text_is_refused_when_used(text: str) -> None:
    quantity = Quantity(text)
    assert not quantity.is_valid()
    with pytest.raises(ValueError):
        _ = quantity.value


def test_text_is_kept_until_it_is_changed() -> None:
    assert str(Quantity("1000m")) == "1000m"
    assert Quantity("1000m").to_wire() == "1000m"
    assert str(Quantity("1000m") + 0) == "1"


def test_numbers_on_the_wire_stay_numbers() -> None:
    assert Quantity.from_wire(2).to_wire() == 2
    with pytest.raises(ValueError):
        Quantity.from_wire(True)


def test_sum_keeps_the_notation_of_the_left_side() -> None:
    assert str(Quantity("1Gi") + Quantity("1G")) == "2073741824"
    assert str(Quantity("1Gi") + "512Mi") == "1536Mi"
    assert str(Quantity("0") + "1Gi") == "1Gi"
    assert (Quantity("1G") + "1Gi").format is QuantityFormat.DECIMAL_SI


def test_values_round_up_away_from_zero() -> None:
    assert Quantity("2500m").value == 3
    assert Quantity("-2500m").value == -3
    assert Quantity("1u").milli_value == 1


def test_comparison_is_by_value() -> None:
    assert Quantity("1") == Quantity("1000m") == 1
    assert Quantity("1Gi") > "1G"
    assert hash(Quantity("1")) == hash(Quantity("1000m"))
    assert Quantity("x") == Quantity("x")
    assert Quantity("x") != Quantity("y")
    assert not Quantity("0")
    assert max(Quantity("1"), Quantity("900m")) == 1


def test_resource_lists_add_up_and_take_the_larger() -> None:
    one, two = {"cpu": Quantity("1"), "memory": Quantity("1Gi")}, {"cpu": Quantity("500m")}
    assert sum_quantities((one, two))["cpu"] == "1500m"
    assert max_quantities(one, two) == one
    assert sum_quantities([one, two, two])["cpu"] == 2


suffixes = st.sampled_from(["", "n", "u", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi"])
quantities = st.builds(
    lambda number, suffix: Quantity(f"{number}{suffix}"), st.integers(-(10**6), 10**6), suffixes
)


@given(quantities)
def test_canonical_form_is_stable_and_keeps_the_value(quantity: Quantity) -> None:
    again = Quantity(quantity.canonical())
    assert again == quantity
    assert again.canonical() == quantity.canonical()


@given(quantities, quantities)
def test_arithmetic_is_exact(left: Quantity, right: Quantity) -> None:
    assert (left + right).as_fraction() == left.as_fraction() + right.as_fraction()
    assert (left - right) + right == left
    assert (left < right) == (left.as_fraction() < right.as_fraction())


@given(st.decimals(min_value=-(10**6), max_value=10**6, places=6))
def test_decimal_text_is_read_exactly(number: object) -> None:
    assert Quantity(f"{number:f}").as_fraction() == Fraction(str(number))
