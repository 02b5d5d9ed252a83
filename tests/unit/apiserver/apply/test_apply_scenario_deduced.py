"""Values that no schema describes: maps are granular, lists are one value."""

from .apply_scenario import FREE, STRING, Scenario, apply, check, force, scenarios, struct, update

HALF_FREE = {**struct(known=STRING, inner=struct(x=STRING)), "x-kubernetes-preserve-unknown-fields": True}
ANYTHING = struct(
    any={"x-kubernetes-preserve-unknown-fields": True}, number={"x-kubernetes-int-or-string": True}
)


@scenarios(
    Scenario(
        "scalars",
        FREE,
        [apply("a", {"num": 1, "text": "x"}), apply("a", {"num": 2, "text": "x", "flag": False})],
        spec={"num": 2, "text": "x", "flag": False},
        owners={"a": ".flag .num .text"},
    ),
    Scenario(
        "conflict and force",
        FREE,
        [
            apply("a", {"num": 1, "text": "x"}),
            update("ctl", {"num": 1, "text": "y", "flag": True}),
            apply("a", {"num": 2, "text": "z"}, conflicts={"ctl": ".text"}),
            force("a", {"num": 2, "text": "z"}),
        ],
        spec={"num": 2, "text": "z", "flag": True},
        owners={"a": ".num .text", "ctl": ".flag"},
    ),
    Scenario(
        "lists are replaced whole",
        FREE,
        [
            apply("a", {"list": ["a", "c"]}),
            update("ctl", {"list": ["a", "b", "c", "d"]}),
            force("a", {"list": ["a", "b", "c"]}),
        ],
        spec={"list": ["a", "b", "c"]},
        owners={"a": ".list"},
    ),
    Scenario(
        "nested maps own every entry on the way",
        FREE,
        [
            apply("a", {"a": 1, "b": {"c": {"d": 2, "e": [1, 2]}}}),
            update("ctl", {"a": 1, "b": {"c": {"d": 3, "e": [1, 2, 3]}}, "g": 5}),
            apply("a", {"a": 2, "b": {"c": {"d": 2, "e": [1]}}}, conflicts={"ctl": ".b.c.d .b.c.e"}),
            force("a", {"a": 2, "b": {"c": {"d": 2, "e": [1]}}}),
        ],
        spec={"a": 2, "b": {"c": {"d": 2, "e": [1]}}, "g": 5},
        owners={"a": ".a .b .b.c .b.c.d .b.c.e", "ctl": ".g"},
    ),
    Scenario(
        "one and true are different values",
        FREE,
        [apply("a", {"x": 1}), apply("b", {"x": True}, conflicts={"a": ".x"})],
        spec={"x": 1},
        owners={"a": ".x"},
    ),
    Scenario(
        "one and true are different values inside lists",
        FREE,
        [update("a", {"x": [{"y": 1}]}), update("b", {"x": [{"y": True}]})],
        spec={"x": [{"y": True}]},
        owners={"a": ".", "b": ".x"},
    ),
    Scenario(
        "a map that becomes a scalar is changed and loses its entries",
        FREE,
        [update("a", {"x": {"y": 1}}), update("b", {"x": 1})],
        spec={"x": 1},
        owners={"a": ".", "b": ".x"},
    ),
    Scenario(
        "a scalar that becomes a map is changed and gains entries",
        FREE,
        [update("a", {"x": 1}), update("b", {"x": {"y": 1}})],
        spec={"x": {"y": 1}},
        owners={"a": ".", "b": ".x .x.y"},
    ),
    Scenario(
        "a list that becomes a map is changed and gains entries",
        FREE,
        [update("a", {"x": [1]}), update("b", {"x": {"y": 1}})],
        spec={"x": {"y": 1}},
        owners={"a": ".", "b": ".x .x.y"},
    ),
    Scenario(
        "applying a scalar over a map",
        FREE,
        [apply("a", {"x": {"y": 1, "z": 2}}), force("b", {"x": 5})],
        spec={"x": 5},
        owners={"b": ".x"},
    ),
    Scenario(
        "declared fields beside unknown ones",
        HALF_FREE,
        [apply("a", {"known": "k", "inner": {"x": "1", "more": 1}}), apply("b", {"other": {"p": 1}})],
        spec={"known": "k", "inner": {"x": "1", "more": 1}, "other": {"p": 1}},
        owners={"a": ".inner.more .inner.x .known", "b": ".other .other.p"},
    ),
    Scenario(
        "a value of any type under a declared field",
        ANYTHING,
        [apply("a", {"any": {"x": 1}, "number": 5}), apply("b", {"any": {"y": [1]}})],
        spec={"any": {"x": 1, "y": [1]}, "number": 5},
        owners={"a": ".any.x .number", "b": ".any.y"},
    ),
    Scenario(
        "a number or a string changes like one value",
        ANYTHING,
        [apply("a", {"number": 5}), update("ctl", {"number": "5%"})],
        spec={"number": "5%"},
        owners={"ctl": ".number"},
    ),
    Scenario(
        "null over a map keeps the map",
        FREE,
        [apply("a", {"x": {"y": 1}}), apply("b", {"x": None})],
        spec={"x": {"y": 1}},
        owners={"a": ".x .x.y", "b": ".x"},
    ),
)
def test_deduced(scenario: Scenario) -> None:
    check(scenario)
