"""Numbers and regular expressions the way Go has them."""

from __future__ import annotations

import math

import pytest

from quarterdeck.apiserver.schema import number
from quarterdeck.apiserver.schema.regex import RegexError, compile_regex


@pytest.mark.parametrize(
    ("value", "plain", "in_json"),
    [
        (0.0, "0", "0"),
        (100.0, "100", "100"),
        (1000000.0, "1e+06", "1000000"),
        (123456.0, "123456", "123456"),
        (1234567.0, "1.234567e+06", "1234567"),
        (8589934592.0, "8.589934592e+09", "8589934592"),
        (9223372036854775808.0, "9.223372036854776e+18", "9223372036854776000"),
        (1e20, "1e+20", "100000000000000000000"),
        (1e21, "1e+21", "1e+21"),
        (1e30, "1e+30", "1e+30"),
        (0.0001, "0.0001", "0.0001"),
        (0.00001, "1e-05", "0.00001"),
        (1.5e-7, "1.5e-07", "1.5e-7"),
        (1e-10, "1e-10", "1e-10"),
        (-0.5, "-0.5", "-0.5"),
        (12345.678, "12345.678", "12345.678"),
    ],
)
def test_floats_read_as_in_go(value: float, plain: str, in_json: str) -> None:
    assert number.float_text(value) == plain
    assert number.json_float(value) == in_json


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, True),
        (-1.0, True),
        (1.5, False),
        (2.0**53 - 1, True),
        (2.0**53, False),
        (1e300, False),
        (math.inf, False),
        (math.nan, False),
        (3.0000000001, True),
        (0.0000000001, False),
        (-3.0000000001, False),
    ],
)
def test_floats_that_count_as_integers(value: float, expected: bool) -> None:
    assert number.is_json_integer(value) is expected


def test_integers_beyond_every_float_are_infinite() -> None:
    assert number.as_float(10**400) == math.inf
    assert number.as_float(-(10**400)) == -math.inf


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("[a", "error parsing regexp: missing closing ]: `[a`"),
        ("(a", "error parsing regexp: missing closing ): `(a`"),
        ("a)", "error parsing regexp: unexpected ): `a)`"),
        ("a\\", "error parsing regexp: trailing backslash at end of expression: ``"),
        ("*a", "error parsing regexp: missing argument to repetition operator: `*`"),
        ("a{1001}", "error parsing regexp: invalid repeat count: `{1001}`"),
        ("a**", "error parsing regexp: invalid nested repetition operator: `**`"),
        ("(?=a)", "error parsing regexp: invalid or unsupported Perl syntax: `(?=`"),
        ("(?P<n", "error parsing regexp: invalid named capture: `(?P<n`"),
        ("\\8", "error parsing regexp: invalid escape sequence: `\\8`"),
        ("[z-a]", "error parsing regexp: invalid character class range: `z-a`"),
    ],
)
def test_bad_patterns_are_refused_in_the_words_of_go(pattern: str, text: str) -> None:
    with pytest.raises(RegexError) as caught:
        compile_regex(pattern)
    assert str(caught.value) == text


def test_patterns_search_and_dollar_means_the_end() -> None:
    assert compile_regex("b")("abc")
    assert compile_regex("^a$")("a")
    assert not compile_regex("^a$")("a\n")
    assert compile_regex(r"^\p{L}+$")("é")


def test_lone_surrogates_do_not_break_a_search() -> None:
    assert not compile_regex("^a$")("\ud800")
