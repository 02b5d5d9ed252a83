"""Sets: items are owned one by one, and the order of both sides is kept as far as it can be."""

from .apply_scenario import INTEGER, STRING, Scenario, apply, check, force, scenarios, setlist, struct, update

SET = struct(list=setlist(STRING))
NUMBERS = struct(list=setlist(INTEGER))


def items(*names: str) -> dict[str, list[str]]:
    return {"list": list(names)}


def owned(*names: str) -> str:
    return " ".join(f'.list[="{name}"]' for name in names)


@scenarios(
    Scenario(
        "applying again with more items",
        SET,
        [apply("a", items("a", "c")), apply("a", items("a", "b", "c", "d"))],
        spec=items("a", "b", "c", "d"),
        owners={"a": owned("a", "b", "c", "d")},
    ),
    Scenario(
        "items no longer applied disappear",
        SET,
        [apply("a", items("a", "b", "c", "d")), apply("a", items("a", "c"))],
        spec=items("a", "c"),
        owners={"a": owned("a", "c")},
    ),
    Scenario(
        "removing and adding at once, across versions",
        SET,
        [apply("a", items("a", "b", "c", "d")), apply("a", items("a", "c", "e"), "v2")],
        spec=items("a", "c", "e"),
        owners={"a@v2": owned("a", "c", "e")},
    ),
    Scenario(
        "applying again in another order reorders",
        SET,
        [apply("a", items("a", "b", "c", "d")), apply("a", items("a", "d", "c", "b"))],
        spec=items("a", "d", "c", "b"),
        owners={"a": owned("a", "b", "c", "d")},
    ),
    Scenario(
        "reordering by an update owns nothing and is undone by the applier",
        SET,
        [
            apply("a", items("a", "b", "c", "d")),
            update("ctl", items("a", "d", "c", "b")),
            apply("a", items("a", "b", "c", "d"), "v2"),
        ],
        spec=items("a", "b", "c", "d"),
        owners={"a@v2": owned("a", "b", "c", "d")},
    ),
    Scenario(
        "items added by an update stay beside their neighbours",
        SET,
        [
            apply("a", items("a", "c")),
            update("ctl", items("a", "b", "c", "d")),
            apply("a", items("a", "a1", "c", "c1")),
        ],
        spec=items("a", "b", "a1", "c", "d", "c1"),
        owners={"a": owned("a", "a1", "c", "c1"), "ctl": owned("b", "d")},
    ),
    Scenario(
        "an item of both is shared",
        SET,
        [
            apply("a", items("a", "c")),
            update("ctl", items("a", "b", "c", "d")),
            apply("a", items("a", "b", "c")),
        ],
        spec=items("a", "b", "c", "d"),
        owners={"a": owned("a", "b", "c"), "ctl": owned("b", "d")},
    ),
    Scenario(
        "two appliers interleave",
        SET,
        [apply("a", items("b", "d")), apply("b", items("a", "b", "c", "d", "e"))],
        spec=items("a", "b", "c", "d", "e"),
        owners={"a": owned("b", "d"), "b": owned("a", "b", "c", "d", "e")},
    ),
    Scenario(
        "the second applier's order wins for the shared items",
        SET,
        [apply("a", items("a", "b", "c")), apply("b", items("c", "a"))],
        spec=items("b", "c", "a"),
        owners={"a": owned("a", "b", "c"), "b": owned("a", "c")},
    ),
    Scenario(
        "an applier that gives up its items leaves the others'",
        SET,
        [apply("a", items("a", "b")), apply("b", items("b", "c")), apply("a", None)],
        spec=items("b", "c"),
        owners={"b": owned("b", "c")},
    ),
    Scenario(
        "an update that removes an item takes it from its applier",
        SET,
        [apply("a", items("a", "b")), update("ctl", items("a"))],
        spec=items("a"),
        owners={"a": owned("a")},
    ),
    Scenario(
        "an empty set owns nothing",
        SET,
        [apply("a", {"list": []})],
        spec={"list": []},
        owners={},
    ),
    Scenario(
        "items are never in conflict",
        SET,
        [apply("a", items("a")), apply("b", items("b")), force("c", items("c"))],
        spec=items("a", "b", "c"),
        owners={"a": owned("a"), "b": owned("b"), "c": owned("c")},
    ),
    Scenario(
        "numbers are the same whether written with a fraction or not",
        NUMBERS,
        [apply("a", {"list": [1, 2]}), apply("b", {"list": [2.0, 3]})],
        spec={"list": [1, 2.0, 3]},
        owners={"a": ".list[=1] .list[=2]", "b": ".list[=2] .list[=3]"},
    ),
    Scenario(
        "creating by update owns the list as well",
        SET,
        [update("ctl", items("a", "b")), apply("a", items("b"))],
        spec=items("a", "b"),
        owners={"a": owned("b"), "ctl": f". .list {owned('a', 'b')}"},
    ),
)
def test_set(scenario: Scenario) -> None:
    check(scenario)
