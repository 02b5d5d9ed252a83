"""Values and numbers as Go prints them."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.api.k8s import EnvVar
from quarterdeck.wire import gostyle
from quarterdeck.wire.gonumber import fixed_text, float_text, json_float, parse_float


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
        (-0.0, "-0", "-0"),
        (-1234567.0, "-1.234567e+06", "-1234567"),
        (5e-324, "5e-324", "5e-324"),
    ],
)
def test_floats_read_as_in_go(value: float, plain: str, in_json: str) -> None:
    assert float_text(value) == plain
    assert json_float(value) == in_json


@pytest.mark.parametrize(("value", "text"), [(math.nan, "NaN"), (math.inf, "+Inf"), (-math.inf, "-Inf")])
def test_floats_that_are_no_numbers_have_names(value: float, text: str) -> None:
    assert float_text(value) == fixed_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(1e21, "1" + "0" * 21), (1.5, "1.5"), (2.0, "2"), (1e-7, "0.0000001"), (-0.25, "-0.25"), (0.0, "0")],
)
def test_fixed_texts_have_no_exponent(value: float, text: str) -> None:
    assert fixed_text(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_printed_floats_read_back(number: float) -> None:
    assert parse_float(float_text(number)) == number
    assert parse_float(fixed_text(number)) == number
    assert parse_float(json_float(number)) == number


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", '""'),
        ("plain", '"plain"'),
        ('a"b', '"a\\"b"'),
        ("a\\b", '"a\\\\b"'),
        ("a\nb\t", '"a\\nb\\t"'),
        ("\x00", '"\\x00"'),
        ("\x7f", '"\\x7f"'),
        ("ä", '"ä"'),
        ("\u200b", '"\\u200b"'),
        ("\U000e0001", '"\\U000e0001"'),
    ],
)
def test_quoted_texts(text: str, quoted: str) -> None:
    assert gostyle.quote(text) == quoted


@pytest.mark.parametrize(
    ("value", "scalar", "plain", "syntax", "type_name"),
    [
        ("a b", '"a b"', "a b", '"a b"', "string"),
        (True, "true", "true", "true", "bool"),
        (False, "false", "false", "false", "bool"),
        (None, "null", "<nil>", "interface {}(nil)", "<nil>"),
        (7, "7", "7", "7", "int64"),
        (1e6, "1e+06", "1e+06", "1e+06", "float64"),
        (["a", 1], '["a",1]', "[a 1]", '[]interface {}{"a", 1}', "[]interface {}"),
        (
            {"b": 1, "a": {"c": "<"}},
            '{"a":{"c":"\\u003c"},"b":1}',
            "map[a:map[c:<] b:1]",
            'map[string]interface {}{"a":map[string]interface {}{"c":"<"}, "b":1}',
            "map[string]interface {}",
        ),
    ],
)
def test_values(value: Any, scalar: str, plain: str, syntax: str, type_name: str) -> None:
    assert gostyle.scalar(value) == scalar
    assert gostyle.plain(value) == plain
    assert gostyle.syntax(value) == syntax
    assert gostyle.type_name(value) == type_name


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([1.0, 1e-5, 1e21, 2**65], "[1,0.00001,1e+21,36893488147419103000]"),
        ({"z": 1, "a": "&"}, '{"a":"\\u0026","z":1}'),
    ],
)
def test_json_is_as_go_writes_it(value: Any, text: str) -> None:
    assert gostyle.json_text(value) == text


def test_typed_objects_are_shown_in_the_order_of_their_fields() -> None:
    assert gostyle.scalar([EnvVar(name="Z", value="1")]) == '[{"name":"Z","value":"1"}]'


def test_integers_beyond_int64_are_shown_as_floats() -> None:
    assert gostyle.scalar(2**63) == "9.223372036854776e+18"
    assert gostyle.scalar(2**63 - 1) == "9223372036854775807"


def test_only_the_spaces_of_go_are_trimmed() -> None:
    assert gostyle.trim_space("\u2003 x\x1f\n") == "x\x1f"
