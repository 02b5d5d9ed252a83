"""Selectors: text, objects, matching."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.api import LabelSelector, Selector
from quarterdeck.api.meta import LabelSelectorRequirement
from quarterdeck.api.selector import FieldSelector, Requirement
from quarterdeck.errors import SchemaError


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        ("x=a", "x=a"),
        ("x==a", "x==a"),
        ("x!=a", "x!=a"),
        ("x=a,y=b", "x=a,y=b"),
        ("y = b , x=a", "x=a,y=b"),
        ("x=", "x="),
        ("x= ,z= ", "x=,z="),
        ("x", "x"),
        ("!x", "!x"),
        ("x in (foo,,baz)", "x in (,baz,foo)"),
        ("x in ()", "x in ()"),
        ("x notin (b, a)", "x notin (a,b)"),
        ("x>1", "x>1"),
        ("x<1,z", "x<1,z"),
        ("in in (in,notin)", "in in (in,notin)"),
        ("example.com/role=a", "example.com/role=a"),
    ],
)
def test_text_is_read_and_written_canonically(text: str, canonical: str) -> None:
    assert str(Selector.parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x=a||y=b", 'unable to parse requirement: values[0][x]: Invalid value: "a||y": '),
        ("x==a==b", "found '==', expected: ',' or 'end of string'"),
        ("!x=a", "found '=', expected: ',' or 'end of string'"),
        ("x<a", "the value must be an integer"),
        ("x,a==b,", "found '', expected: identifier after ','"),
        ("x in a", "unable to parse requirement: found 'a' expected: '('"),
        ("x in (a", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("x a", "unable to parse requirement: found 'a', expected: in, notin, =, ==, !=, gt, lt"),
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        (
            "a/b/c=d",
            'unable to parse requirement: <nil>: Invalid value: "a/b/c": a valid label key must consist',
        ),
    ],
)
def test_bad_text_is_refused_in_the_server_words(text: str, complaint: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Selector.parse(text)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("text", "matching", "other"),
    [
        ("x=a", {"x": "a"}, {"x": "b"}),
        ("x!=a", {}, {"x": "a"}),
        ("x in (a,b)", {"x": "b"}, {}),
        ("x notin (a)", {}, {"x": "a"}),
        ("x", {"x": ""}, {}),
        ("!x", {}, {"x": ""}),
        ("x>3", {"x": "4"}, {"x": "many"}),
        ("x<3", {"x": "-1"}, {}),
        ("x=a,y", {"x": "a", "y": "1"}, {"x": "a"}),
    ],
)
def test_labels_match(text: str, matching: dict[str, str], other: dict[str, str]) -> None:
    assert Selector.parse(text).matches(matching)
    assert not Selector.parse(text).matches(other)


def test_absent_selects_nothing_and_empty_selects_everything() -> None:
    assert not Selector.of(None).matches({"a": "b"})
    assert Selector.of(LabelSelector()).matches({"a": "b"})
    assert Selector.of("").is_empty
    assert Selector.of(None).is_nothing


def test_objects_become_selectors() -> None:
    selector = Selector.of(
        LabelSelector(
            match_labels={"app": "web"},
            match_expressions=[
                LabelSelectorRequirement(key="tier", operator="In", values=["a", "b"]),
                LabelSelectorRequirement(key="canary", operator="DoesNotExist"),
            ],
        )
    )
    assert str(selector) == "app=web,!canary,tier in (a,b)"
    with pytest.raises(SchemaError, match="not a valid label selector operator"):
        Selector.of(LabelSelector(match_expressions=[LabelSelectorRequirement(key="a", operator="Like")]))


def test_selectors_combine() -> None:
    both = Selector.parse("a=1") & Selector.parse("b=2")
    assert str(both) == "a=1,b=2"
    assert (both & Selector.nothing()).is_nothing
    assert both.exact_value("a") == "1"
    assert both.exact_value("z") is None


names = st.text("abc", min_size=1, max_size=3)
values = st.text("xyz01", max_size=3)
requirements = st.one_of(
    st.builds(
        lambda k, o, v: Requirement.checked(k, o, (v,)), names, st.sampled_from(["=", "==", "!="]), values
    ),
    st.builds(
        lambda k, o, v: Requirement.checked(k, o, sorted(v)),
        names,
        st.sampled_from(["in", "notin"]),
        st.sets(values, min_size=1, max_size=3),
    ),
    st.builds(lambda k, o: Requirement.checked(k, o), names, st.sampled_from(["exists", "!"])),
    st.builds(
        lambda k, o, v: Requirement.checked(k, o, (str(v),)),
        names,
        st.sampled_from(["gt", "lt"]),
        st.integers(0, 99),
    ),
)


@given(st.lists(requirements, max_size=4), st.dictionaries(names, values, max_size=4))
def test_text_and_value_mean_the_same(items: list[Requirement], labels: dict[str, str]) -> None:
    selector = Selector(items)
    again = Selector.parse(str(selector))
    assert again.matches(labels) == selector.matches(labels)
    assert str(again) == str(selector)


@given(st.text(" =!(),<>ain/xt\\", max_size=12))
def test_any_text_is_read_or_refused_cleanly(text: str) -> None:
    for kind in (Selector, FieldSelector):
        with contextlib.suppress(SchemaError):
            assert isinstance(str(kind.parse(text)), str)


@given(st.dictionaries(st.text("abc.", min_size=1, max_size=4), st.text("xy,=\\", max_size=4), max_size=3))
def test_field_selector_escapes_what_it_must(fields: dict[str, str]) -> None:
    selector = FieldSelector.of(fields)
    again = FieldSelector.parse(str(selector))
    assert {term.field: term.value for term in again.terms} == fields


def test_field_selector_terms() -> None:
    selector = FieldSelector.parse("spec.nodeName=n1,status.phase!=Failed,a==b")
    assert selector.exact_value("spec.nodeName") == "n1"
    assert selector.matches({"spec.nodeName": "n1", "status.phase": "Running", "a": "b"}.__getitem__)
    assert not selector.matches({"spec.nodeName": "n1", "status.phase": "Failed", "a": "b"}.__getitem__)
    with pytest.raises(SchemaError, match="can't understand 'nonsense'"):
        FieldSelector.parse("nonsense")
    with pytest.raises(SchemaError, match="invalid escape sequence"):
        FieldSelector.parse("a=b\\c")
