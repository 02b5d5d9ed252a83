"""Type checking and the checks after it."""

from __future__ import annotations

import pytest

from quarterdeck.cel import (
    BOOL,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    CelCompileError,
    CelType,
    Environment,
    list_type,
    map_type,
    object_type,
    optional_type,
)

POINT = object_type("Point", {"x": INT, "label": STRING, "next": DYN})
VARIABLES = {
    "n": INT,
    "s": STRING,
    "d": DYN,
    "l": list_type(INT),
    "m": map_type(STRING, INT),
    "p": POINT,
    "o": optional_type(STRING),
    "t": TIMESTAMP,
}


def compile_error(expression: str) -> str:
    with pytest.raises(CelCompileError) as caught:
        Environment(VARIABLES).compile(expression)
    return caught.value.message


def first(expression: str) -> str:
    return compile_error(expression).split("\n", 1)[0].removeprefix("ERROR: <input>:")


@pytest.mark.parametrize(
    ("expression", "type_"),
    [
        ("n + 1", INT),
        ("[n]", list_type(INT)),
        ("[]", list_type(DYN)),
        ("[] + [1]", list_type(INT)),
        ("{}", map_type(DYN, DYN)),
        ("m.a", INT),
        ("p.label", STRING),
        ("d.a.b", DYN),
        ("d ? 1 : 2", INT),
        ("n > 1 ? 'a' : d", DYN),
        ("l.map(x, string(x))", list_type(STRING)),
        ("m.map(k, k)", list_type(STRING)),
        ("m.transformMap(k, v, k)", map_type(STRING, STRING)),
        ("o.orValue('x')", STRING),
        ("p.?label", optional_type(STRING)),
        ("optional.none()", optional_type(DYN)),
        ("[1].first()", optional_type(INT)),
        ("t - t", CelType("duration", "google.protobuf.Duration")),
        ("d + d", DYN),
        ("d == 1", BOOL),
        ("size(d)", INT),
        ("l.all(x, x > 0)", BOOL),
        ("n < 1.5", BOOL),
    ],
)
def test_types_are_inferred(expression: str, type_: CelType) -> None:
    assert Environment(VARIABLES).compile(expression).result_type == type_


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("nope", "1:1: undeclared reference to 'nope' (in container '')"),
        ("p.nope", "1:2: undefined field 'nope'"),
        ("n.x", "1:2: type 'int' does not support field selection"),
        ("n + s", "1:3: found no matching overload for '_+_' applied to '(int, string)'"),
        ("s.size(1)", "1:7: found no matching overload for 'size' applied to 'string.(int)'"),
        ("n && true", "1:1: expected type 'bool' but found 'int'"),
        (
            "n.all(x, true)",
            (
                "1:1: expression of type 'int' cannot be range of a comprehension "
                "(must be list, map, or dynamic)"
            ),
        ),
        ("l.all(x, x)", "1:10: expected type 'bool' but found 'int'"),
        ("[1, 'a']", "1:5: expected type 'int' but found 'string'"),
        ("{'a': 1, 'b': 'c'}", "1:15: expected type 'int' but found 'string'"),
        ("[?n]", "1:3: expected type 'optional_type(int)' but found 'int'"),
        ("n > 1 ? 1 : 'a'", "1:7: found no matching overload for '_?_:_' applied to '(bool, int, string)'"),
        ("quantity('1').nope", "1:14: unexpected failed resolution of 'kubernetes.Quantity'"),
        ("Point{x: 1}", "1:6: undeclared reference to 'Point' (in container '')"),
        ("n{}", "1:2: 'int' is not a type"),
        ("int{}", "1:4: 'int' is not a message type"),
        ("m[1]", "1:2: found no matching overload for '_[_]' applied to '(map(string, int), int)'"),
        ("s.matches('[')", "1:11: invalid matches argument"),
        ("duration('1 day')", "1:10: invalid duration argument"),
        ("timestamp('now')", "1:11: invalid timestamp argument"),
    ],
)
def test_ill_typed_expressions_are_refused_with_their_position(expression: str, message: str) -> None:
    assert first(expression) == message


def test_all_problems_are_reported_with_the_line_they_are_in() -> None:
    assert compile_error("n +\n  s + p.y") == (
        "ERROR: <input>:1:3: found no matching overload for '_+_' applied to '(int, string)'\n"
        " | n +\n"
        " | ..^\n"
        "ERROR: <input>:2:8: undefined field 'y'\n"
        " |   s + p.y\n"
        " | .......^"
    )


def test_more_than_a_hundred_problems_are_summed_up() -> None:
    message = compile_error(" + ".join(["nope"] * 105))
    assert message.count("ERROR") == 100
    assert message.endswith("\n5 more errors were truncated")


def test_variables_of_a_comprehension_shadow_outer_ones() -> None:
    program = Environment(VARIABLES).compile("l.map(n, n + 1) == [2, 3] && n == 7")
    assert program.evaluate({"l": [1, 2], "n": 7}) is True
    assert program.uses == {"l", "n"}


def test_qualified_variable_names_win_over_field_selection() -> None:
    environment = Environment({"a": map_type(STRING, INT), "a.b": STRING})
    assert environment.compile("a.b").result_type == STRING
    assert environment.compile("a.c").result_type == INT


def test_uses_names_only_the_variables_that_occur() -> None:
    assert Environment(VARIABLES).compile("[1].all(x, x < n)").uses == {"n"}


@pytest.mark.parametrize(
    "name",
    ["cel.bind(x, 1, x)", "math.abs(1)", "base64.encode(b'a')", "'a'.reverse()", "[1].existsOne(x, x > 0)"],
)
def test_libraries_kubernetes_does_not_have_are_absent(name: str) -> None:
    assert "ERROR" in compile_error(name)
