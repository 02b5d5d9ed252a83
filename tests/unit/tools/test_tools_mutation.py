"""The changes that a mutation run tries: the neighbour of one operator or value, and the rest as it was."""

import pytest

from mutation.change import changes


def texts(source: str) -> list[str]:
    return [change.applied(source.encode()).decode() for change in changes(source.encode())]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a < b", "a <= b"),
        ("a <= b", "a < b"),
        ("a > b", "a >= b"),
        ("a == b", "a != b"),
        ("a is None", "a is not None"),
        ("a  not   in b", "a  in b"),
        ("(a) and (b)", "(a) or (b)"),
        ("a or b", "a and b"),
        ("a + b", "a - b"),
        ("a * b", "a // b"),
        ("not a", "a"),
        ("f(True)", "f(False)"),
    ],
)
def test_an_operator_becomes_its_neighbour(before: str, after: str) -> None:
    assert texts(before) == [after]


def test_a_chain_is_changed_one_link_at_a_time() -> None:
    assert texts("a < b <= c") == ["a <= b <= c", "a < b < c"]
    assert texts("a and b and c") == ["a or b and c", "a and b or c"]


def test_a_number_goes_up_and_down_but_not_below_zero() -> None:
    assert texts("x = 5") == ["x = 6", "x = 4"]
    assert texts("x = 0") == ["x = 1"]


def test_a_result_becomes_none() -> None:
    assert texts("def f(): return x") == ["def f(): return None"]
    assert texts("def f(): return None") == []
    assert texts("def f(): return False") == ["def f(): return True"]


def test_letters_outside_ascii_do_not_shift_the_place() -> None:
    assert texts("s = 'µ×'; a < b") == ["s = 'µ×'; a <= b"]


@pytest.mark.parametrize(
    "source",
    [
        "x: Annotated[int, Ge(1)]",
        "@cache(size=1)\ndef f(): pass",
        "class A(B, frozen=True): pass",
        "assert a < b",
        "raise ValueError(1 + a)",
        "__all__ = [1]",
        "if TYPE_CHECKING:\n    x = 1",
        "_log.info('x', a=1)",
        "self._log.error('x', error, trace=False)",
        "zip(a, b, strict=True)",
        "def __repr__(self): return a < b",
        "'a' + b",
        "SIZE = 4096",
    ],
)
def test_what_no_test_could_notice_is_left_alone(source: str) -> None:
    assert texts(source) == []


def test_a_change_says_its_line_and_what_it_is() -> None:
    (change,) = changes(b"x = y\nif a < b: pass\n")
    assert (change.line, str(change)) == (2, "< -> <=")
    (change,) = changes(b"x = not y")
    assert str(change) == "not -> nothing"
