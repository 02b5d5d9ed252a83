"""Path elements: one text per identity, read leniently, shown as upstream shows them."""

import pytest

from quarterdeck.apiserver.apply import pathelement


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ("plain", 'v:"plain"'),
        ("a<b>&c", 'v:"a\\u003cb\\u003e\\u0026c"'),
        ('quo"te\\', 'v:"quo\\"te\\\\"'),
        ("line\u2028end", 'v:"line\\u2028end"'),
        ("é", 'v:"é"'),
        (True, "v:true"),
        (False, "v:false"),
        (1, "v:1"),
        (1.0, "v:1"),
        (1000000.0, "v:1000000"),
        (0.00001, "v:0.00001"),
        (1e-7, "v:1e-07"),
        (1e21, "v:1e+21"),
        (None, "v:null"),
        ({"b": 1, "a": [True]}, 'v:{"a":[true],"b":1}'),
    ],
)
def test_a_value_is_written_as_upstream_writes_it(item: object, text: str) -> None:
    assert pathelement.value(item) == text


def test_key_fields_are_sorted() -> None:
    assert pathelement.key([("protocol", "TCP"), ("port", 80)]) == 'k:{"port":80,"protocol":"TCP"}'


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        ("f:anything goes", "f:anything goes"),
        ("v:1.0", "v:1"),
        ('v: "a"', 'v:"a"'),
        ('k:{"b": 1, "a": "x"}', 'k:{"a":"x","b":1}'),
        ("i:03", "i:3"),
        ("x:from the future", None),
    ],
)
def test_elements_of_clients_are_brought_into_one_form(sent: str, text: str | None) -> None:
    assert pathelement.canonical(sent) == text


@pytest.mark.parametrize("sent", ["", "f", "name", "v:{", "v:x", "k:1", "k:{", "i:x"])
def test_unreadable_elements_are_refused(sent: str) -> None:
    with pytest.raises(ValueError):
        pathelement.canonical(sent)


@pytest.mark.parametrize(
    ("element", "shown"),
    [
        ("f:name", ".name"),
        ('k:{"name":"x","port":80}', '[name="x",port=80]'),
        ('k:{"port":1000000}', "[port=1e+06]"),
        ('k:{"on":true}', "[on=true]"),
        ('v:"v"', '[="v"]'),
        ("v:1.5", "[=1.5]"),
        ("i:3", "[3]"),
    ],
)
def test_elements_are_shown_for_people(element: str, shown: str) -> None:
    assert pathelement.render(element) == shown


def test_elements_are_ordered_fields_keys_values_positions() -> None:
    keys = ['k:{"n":2}', 'k:{"n":10}', 'k:{"n":"a"}']
    ordered = ["f:a", "f:b", *keys, "v:2", "v:10", 'v:"a"', "v:true", "i:2", "i:10"]
    shuffled = [*ordered[5:], *ordered[:5]]
    assert sorted(shuffled, key=pathelement.sort_key) == ordered
