"""Numbers and regular expressions the way Go has them."""

from __future__ import annotations

import math

import pytest

from quarterdeck.apiserver.schema import number
from quarterdeck.apiserver.schema.regex import RegexError, compile_regex


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
