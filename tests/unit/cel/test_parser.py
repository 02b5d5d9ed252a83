"""Parsing: precedence, literals, macros, error recovery, limits."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.cel.error import CelCompileError
from quarterdeck.cel.syntax.parser import parse
from quarterdeck.cel.syntax.tree import (
    Call,
    Comprehension,
    Expr,
    Ident,
    ListExpr,
    Literal,
    Select,
    depth,
    walk,
)


def shown(expr: Expr) -> str:
    """Fully bracketed form."""
    if isinstance(expr, Literal):
        return repr(expr.value)
    if isinstance(expr, Ident):
        return expr.name
    if isinstance(expr, Select):
        text = f"{shown(expr.operand)}.{expr.field}"
        return f"has({text})" if expr.test_only else text
    if isinstance(expr, Call):
        target = "" if expr.target is None else f"{shown(expr.target)}."
        return f"{target}{expr.function}({', '.join(map(shown, expr.args))})"
    if isinstance(expr, ListExpr):
        return f"[{', '.join(map(shown, expr.elements))}]"
    return type(expr).__name__


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("1 + 2 * 3", "_+_(1, _*_(2, 3))"),
        ("1 * 2 + 3", "_+_(_*_(1, 2), 3)"),
        ("1 - 2 - 3", "_-_(_-_(1, 2), 3)"),
        ("a < b == c", "_==_(_<_(a, b), c)"),
        ("a || b && c", "_||_(a, _&&_(b, c))"),
        ("a ? b : c ? d : e", "_?_:_(a, b, _?_:_(c, d, e))"),
        ("!a.b", "!_(a.b)"),
        ("!!a", "a"),
        ("-a", "-_(a)"),
        ("-1", "-1"),
        ("a[b].c(d)", "_[_](a, b).c(d)"),
        ("a.?b[?c]", "_[?_](_?._(a, 'b'), c)"),
        ("a in b", "@in(a, b)"),
        (".a.b", ".a.b"),
        ("a && b && c && d", "_&&_(_&&_(a, b), _&&_(c, d))"),
        ("has(a.b)", "has(a.b)"),
        ("[1, 2,]", "[1, 2]"),
    ],
)
def test_structure_follows_precedence(text: str, tree: str) -> None:
    assert shown(parse(text)[0]) == tree


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("r'a\\nb'", "a\\nb"),
        ('"""a\n"b"""', 'a\n"b'),
        ("'''it's'''", "it's"),
        ("'\\x41\\101\\u00e9\\U0001F600'", "AAé😀"),
        ("b'\\xff\\377é'", b"\xff\xff\xc3\xa9"),
        ("b'''x'''", b"x"),
        ("bR'\\x'", b"\\x"),
        ("0x1F", 31),
        ("-0x8000000000000000", -(1 << 63)),
        ("12u", 12),
        (".5e1", 5.0),
        ("'a\r\nb'.size() // c", None),
    ],
)
def test_literals_have_the_values_they_denote(text: str, value: object) -> None:
    if value is None:
        with pytest.raises(CelCompileError):
            parse(text)
        return
    root = parse(text)[0]
    assert isinstance(root, Literal)
    assert root.value == value


def test_raw_triple_quoted_strings_normalise_line_ends() -> None:
    root = parse("r'''a\r\nb\rc'''")[0]
    assert isinstance(root, Literal)
    assert root.value == "a\nb\nc"


def test_comments_and_blank_lines_are_skipped() -> None:
    assert shown(parse("1 // one\n\n + // plus\n 2")[0]) == "_+_(1, 2)"


def test_quantifiers_become_comprehensions() -> None:
    root = parse("l.all(x, x > 0)")[0]
    assert isinstance(root, Comprehension)
    assert (root.form, root.iter_var, root.iter_var2) == ("all", "x", "")
    two = parse("m.exists(k, v, v == k)")[0]
    assert isinstance(two, Comprehension)
    assert (two.form, two.iter_var, two.iter_var2) == ("exists", "k", "v")


def test_a_function_with_the_name_of_a_macro_but_other_arity_is_a_call() -> None:
    assert shown(parse("x.all(y)")[0]) == "x.all(y)"


def test_every_node_has_its_own_id() -> None:
    nodes = list(walk(parse("a.b.optMap(x, x + 1).orValue([1].map(i, i)[0])")[0]))
    assert len({node.id for node in nodes}) == len(nodes)


def test_several_mistakes_are_reported_in_source_order() -> None:
    with pytest.raises(CelCompileError) as caught:
        parse("for + x.map(1, 2) + 99999999999999999999")
    assert [
        line.split(": ", 2)[2] for line in caught.value.message.splitlines() if line.startswith("ERROR")
    ] == [
        "reserved identifier: for",
        "argument is not an identifier",
        "invalid int literal",
    ]


def test_markers_are_wide_under_wide_characters() -> None:
    with pytest.raises(CelCompileError) as caught:
        parse("'é' +")
    assert caught.value.message.endswith("\n | 'é' +\n | .．...^")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(" * 250 + "1" + ")" * 250, "expression recursion limit exceeded: 250"),
        ("+".join(["1"] * 252), "max recursion depth exceeded"),
        ("a" + ".a" * 251, "max recursion depth exceeded"),
        (
            "optional.of(1)" + ".optMap(x, x)" * 60,
            "expression size limit exceeded after macro expansion: 100000",
        ),
        ("1" * 100_001, "expression code point size exceeds limit: size: 100001, limit 100000"),
    ],
)
def test_expressions_beyond_the_limits_are_refused(text: str, message: str) -> None:
    with pytest.raises(CelCompileError) as caught:
        parse(text)
    assert caught.value.message == f"ERROR: <input>:-1:0: {message}"


def test_nesting_up_to_the_limit_parses() -> None:
    assert shown(parse("(" * 249 + "1" + ")" * 249)[0]) == "1"
    assert depth(parse("+".join(["1"] * 251))[0]) == 251


@given(st.text(max_size=60))
def test_any_text_parses_or_is_refused_cleanly(text: str) -> None:
    with suppress(CelCompileError):
        parse(text)


@given(st.text(alphabet="ax1.()[]{}?:,'\"\\+-*/%!<>=&| \n", max_size=40))
def test_any_mix_of_tokens_parses_or_is_refused_cleanly(text: str) -> None:
    with suppress(CelCompileError):
        parse(text)
