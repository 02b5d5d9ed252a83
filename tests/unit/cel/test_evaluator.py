"""Evaluation: CEL semantics over plain and schema-typed data."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.cel import (
    BOOL,
    DYN,
    INT,
    STRING,
    CelRuntimeError,
    CostLimitExceeded,
    Environment,
    OptionalValue,
    UInt,
    list_type,
    map_type,
    optional_type,
    type_from_schema,
)

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-2, 2) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=6,
)


def run(expression: str, variables: dict[str, Any] | None = None, **bindings: Any) -> Any:
    """Evaluate both plans of an expression and insist that they agree."""
    program = Environment(variables or dict.fromkeys(bindings, DYN)).compile(expression)
    outcomes: list[Any] = []
    for metered in (False, True):
        try:
            if metered:
                outcomes.append(program.evaluate_metered(bindings, 10**9)[0])
            else:
                outcomes.append(program.evaluate(bindings, cost_limit=None))
        except CelRuntimeError as problem:
            outcomes.append(("error", problem.message))
    assert outcomes[0] == outcomes[1]
    return outcomes[0]


def fails(expression: str, **bindings: Any) -> str:
    kind, message = run(expression, **bindings)
    assert kind == "error"
    return str(message)


@given(INT64, INT64)
def test_integer_arithmetic_is_exact_or_overflows(a: int, b: int) -> None:
    for operator, exact in (("+", a + b), ("-", a - b), ("*", a * b)):
        found = run(f"a {operator} b", {"a": INT, "b": INT}, a=a, b=b)
        if -(1 << 63) <= exact < 1 << 63:
            assert found == exact
        else:
            assert found == ("error", "integer overflow")


@given(INT64, INT64.filter(bool))
def test_division_truncates_and_the_remainder_fits(a: int, b: int) -> None:
    if a == -(1 << 63) and b == -1:
        assert fails("a / b", a=a, b=b) == fails("a % b", a=a, b=b) == "integer overflow"
        return
    quotient, rest = run("a / b", a=a, b=b), run("a % b", a=a, b=b)
    assert quotient * b + rest == a
    assert abs(rest) < abs(b)
    assert rest == 0 or (rest < 0) == (a < 0)


@given(JSON)
def test_equality_is_reflexive(value: Any) -> None:
    assert run("v == v", v=value) is True
    assert run("v in [v]", v=value) is True


@given(JSON, JSON)
def test_equality_is_symmetric_and_inequality_its_negation(a: Any, b: Any) -> None:
    same = run("a == b", a=a, b=b)
    assert same is run("b == a", a=a, b=b)
    assert run("a != b", a=a, b=b) is (not same)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a == 1", True),
        ("a == 1.0", True),
        ("a == 1u", True),
        ("a == true", False),
        ("t == 1", False),
        ("a in [true]", False),
        ("t in [1]", False),
        ("a in {true: 1}", False),
        ("{1: 'x'}[dyn(1.0)] == 'x'", True),
        ("[1, 2] == [dyn(1.0), dyn(2u)]", True),
        ("null == n", True),
        ("n == false", False),
    ],
)
def test_values_of_different_types_compare_by_number_not_by_python(expression: str, expected: bool) -> None:
    assert run(expression, a=1, t=True, n=None) is expected


@given(st.lists(st.sampled_from([0, 1, 2, 3]), max_size=5))
def test_quantifiers_absorb_errors_like_the_operators(items: list[int]) -> None:
    outcomes = [None if item == 0 else 6 // item > 2 for item in items]
    every = run("l.all(x, 6 / x > 2)", l=items)
    if False in outcomes:
        assert every is False
    elif None in outcomes:
        assert every == ("error", "division by zero")
    else:
        assert every is True
    some = run("l.exists(x, 6 / x > 2)", l=items)
    if True in outcomes:
        assert some is True
    elif None in outcomes:
        assert some == ("error", "division by zero")
    else:
        assert some is False


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1 / z > 0 || true", True),
        ("true || 1 / z > 0", True),
        ("1 / z > 0 && false", False),
        ("false && 1 / z > 0", False),
        ("d || true", True),
        ("true || d", True),
    ],
)
def test_logic_absorbs_errors_on_either_side(expression: str, expected: bool) -> None:
    assert run(expression, z=0, d=1) is expected


@pytest.mark.parametrize("expression", ["t + 1", "t - 1", "t < 1", "t >= 1", "1 + t"])
def test_bools_are_no_numbers(expression: str) -> None:
    assert "no such overload" in fails(expression, t=True)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("1 / z > 0 || false", "division by zero"),
        ("1 % z > 0 && true", "modulus by zero"),
        ("m.b", "no such key: b"),
        ("m['b']", "no such key: b"),
        ("l[7]", "index out of bounds: 7"),
        ("l[-1]", "index out of bounds: -1"),
        ("l['a']", "unsupported index type 'string' in list"),
        ("z.a", "no such key: a"),
        ("z + 'a'", "no such overload"),
        ("t + 1", "no such overload: _+_"),
        ("m < 1", "no such overload: _<_"),
        ("!z", "no such overload"),
        ("z ? 1 : 2", "no such overload"),
        ("z && true", "no such overload"),
        ("z.all(x, x)", "got 'types.Int', expected iterable type"),
        ("z.size()", "no such overload: size"),
        ("z.trim()", "no such overload: trim(int)"),
        ("[z].join()", "no such overload: join(list)"),
        ("1 in z", "no such overload"),
    ],
)
def test_run_time_errors_have_upstream_texts(expression: str, message: str) -> None:
    assert fails(expression, z=0, t=True, m={"a": 1}, l=[1]) == message


def test_an_unbound_variable_is_an_error() -> None:
    with pytest.raises(CelRuntimeError, match=r"no such attribute\(s\): n"):
        Environment({"n": INT}).compile("n > 1").evaluate({})


def test_optional_chains_stop_at_the_first_absence() -> None:
    data = {"a": {"b": {"c": 5}}, "n": None}
    assert run("d.?a.b.c.orValue(0)", d=data) == 5
    assert run("d.?x.b.c.orValue(0)", d=data) == 0
    assert run("d.?a.b.x.orValue(0)", d=data) == 0
    assert run("d.?n.hasValue()", d=data) is True
    assert run("d[?'a'].?b.hasValue()", d=data) is True


def test_optional_variables_are_bound_as_optional_values() -> None:
    environment = Environment({"o": optional_type(INT)})
    program = environment.compile("o.hasValue() ? o.value() : -1")
    assert program.evaluate({"o": OptionalValue(3)}) == 3
    assert program.evaluate({"o": OptionalValue.NONE}) == -1


SCHEMA = {
    "type": "object",
    "properties": {
        "when": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "every": {"type": "string", "format": "duration"},
        "blob": {"type": "string", "format": "byte"},
        "ratio": {"type": "number"},
        "port": {"x-kubernetes-int-or-string": True},
        "maybe": {"type": "string", "nullable": True},
        "a-b": {"type": "integer"},
        "namespace": {"type": "string"},
        "times": {"type": "array", "items": {"type": "string", "format": "date-time"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "rows": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["n"],
            "items": {"type": "object", "properties": {"n": {"type": "string"}, "v": {"type": "integer"}}},
        },
        "free": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"a": {"type": "integer"}},
        },
    },
}
DATA = {
    "when": "2020-01-02T03:04:05+01:00",
    "day": "2020-01-02",
    "every": "90m",
    "blob": "aGk=",
    "ratio": 2,
    "port": "http",
    "maybe": None,
    "a-b": 4,
    "namespace": "ns",
    "times": ["2020-01-01T00:00:00Z"],
    "set": ["a", "b"],
    "rows": [{"n": "x", "v": 1}, {"n": "y"}],
    "free": {"a": 1, "hidden": 2},
}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("self.when.getHours()", 2),
        ("self.day.getFullYear() == 2020", True),
        ("self.every == duration('1h30m')", True),
        ("self.blob == b'hi'", True),
        ("self.blob.size()", 2),
        ("size(self.times) + self.set.size()", 3),
        ("self.ratio / 4.0", 0.5),
        ("type(self.ratio) == double", True),
        ("type(self.port) == string && self.port == 'http'", True),
        ("has(self.maybe)", False),
        ("self.?maybe.hasValue()", False),
        ("self.a__dash__b", 4),
        ("self.__namespace__ + self.namespace", "nsns"),
        ("self.times.all(t, t < self.when)", True),
        ("self.times[0].getFullYear()", 2020),
        ("self.times.map(t, t.getFullYear())", [2020]),
        ("self.set == ['b', 'a']", True),
        ("['b', 'a'] == self.set", False),
        ("self.set + ['b', 'c']", ["a", "b", "c"]),
        ("self.rows.map(r, r.n)", ["x", "y"]),
        ("self.rows.filter(r, has(r.v)).size()", 1),
        ("has(self.free.a)", True),
        ("dyn(self.free).size()", 1),
        ("type(self) == map", True),
        ("self == self", True),
    ],
)
def test_schema_typed_json_is_seen_as_typed_values(expression: str, expected: Any) -> None:
    environment = Environment({"self": type_from_schema(SCHEMA)})
    program = environment.compile(expression)
    assert program.evaluate({"self": DATA}) == expected
    assert program.evaluate_metered({"self": DATA}, 10**9)[0] == expected


def test_map_lists_merge_by_key() -> None:
    t = type_from_schema(SCHEMA)
    environment = Environment({"self": t, "oldSelf": t})
    program = environment.compile("(self.rows + oldSelf.rows).map(r, r.n + string(r.?v.orValue(0)))")
    old = {"rows": [{"n": "z", "v": 3}, {"n": "x", "v": 9}]}
    assert program.evaluate({"self": DATA, "oldSelf": old}) == ["x9", "y0", "z3"]


def test_evaluation_leaves_its_input_alone() -> None:
    before = copy.deepcopy(DATA)
    environment = Environment({"self": type_from_schema(SCHEMA)})
    environment.compile("(self.set + ['z']).size() + self.rows.map(r, r.n).size() > 0").evaluate(
        {"self": DATA}
    )
    assert before == DATA


def test_metering_stops_at_the_limit() -> None:
    program = Environment({"l": list_type(INT)}).compile("l.all(x, l.all(y, x >= 0))")
    items = list(range(300))
    with pytest.raises(CostLimitExceeded, match="operation cancelled: actual cost limit exceeded"):
        program.evaluate({"l": items}, cost_limit=10_000)
    assert program.evaluate({"l": items}, cost_limit=None) is True
    assert program.evaluate({"l": items[:5]}, cost_limit=10_000) is True


def test_the_cost_limit_is_not_absorbed() -> None:
    program = Environment({"l": list_type(INT)}).compile("l.all(x, x >= 0) || true")
    with pytest.raises(CostLimitExceeded):
        program.evaluate_metered({"l": list(range(100))}, 50)


def test_a_program_is_reusable_and_holds_no_state() -> None:
    program = Environment({"m": map_type(STRING, INT)}).compile("m.exists(k, m[k] > 1)")
    assert [program.evaluate({"m": {"a": n}}) for n in (1, 2, 1)] == [False, True, False]


def test_results_are_plain_python() -> None:
    environment = Environment({"self": type_from_schema(SCHEMA)})
    result = environment.compile("self.set").evaluate({"self": DATA})
    assert type(result) is list
    assert environment.compile("[1u, uint(2)]").evaluate({"self": DATA}) == [UInt(1), UInt(2)]


def test_regular_expressions_take_linear_time() -> None:
    program = Environment({"s": STRING}).compile("s.matches('^(a+)+$') || s.matches('(a|aa)+b')")
    assert program.evaluate({"s": "a" * 50_000 + "c"}, cost_limit=None) is False


def test_huge_results_are_refused_before_they_are_built() -> None:
    program = Environment({"s": STRING}).compile(
        "s.replace('', s).size() > 0 && lists.range(2000001).size() > 0"
    )
    with pytest.raises(CostLimitExceeded):
        program.evaluate({"s": "x" * 100_000}, cost_limit=None)


def test_deeply_nested_expressions_evaluate() -> None:
    nested = "[1].all(x, " * 200 + "true" + ")" * 200
    assert Environment({}).compile(nested).evaluate({}) is True
    assert Environment({"b": BOOL}).compile("!(" * 240 + "b" + ")" * 240).evaluate({"b": True}) is True
