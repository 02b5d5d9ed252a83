"""Scalars of a struct: who owns them after applies and updates."""

from .apply_scenario import (
    BOOLEAN,
    INTEGER,
    STRING,
    Scenario,
    apply,
    check,
    force,
    scenarios,
    struct,
    update,
)

LEAVES = struct(num=INTEGER, text=STRING, flag=BOOLEAN)


@scenarios(
    Scenario(
        "applying again replaces what was applied",
        LEAVES,
        [apply("a", {"num": 1, "text": "x"}), apply("a", {"num": 2, "text": "x", "flag": False})],
        spec={"num": 2, "text": "x", "flag": False},
        owners={"a": ".flag .num .text"},
    ),
    Scenario(
        "applying again in another version moves the entry there",
        LEAVES,
        [apply("a", {"num": 1, "text": "x"}), apply("a", {"num": 2, "flag": True}, "v2")],
        spec={"num": 2, "flag": True},
        owners={"a@v2": ".flag .num"},
    ),
    Scenario(
        "a field that is no longer applied disappears",
        LEAVES,
        [apply("a", {"num": 1, "text": "x"}), apply("a", {"num": 1})],
        spec={"num": 1},
        owners={"a": ".num"},
    ),
    Scenario(
        "two appliers with disjoint fields do not meet",
        LEAVES,
        [apply("a", {"num": 1}), apply("b", {"text": "x"})],
        spec={"num": 1, "text": "x"},
        owners={"a": ".num", "b": ".text"},
    ),
    Scenario(
        "an update of other fields leaves the applier its own",
        LEAVES,
        [
            apply("a", {"num": 1, "text": "x"}),
            update("ctl", {"num": 1, "text": "x", "flag": True}),
            apply("a", {"num": 2, "text": "x"}),
        ],
        spec={"num": 2, "text": "x", "flag": True},
        owners={"a": ".num .text", "ctl": ".flag"},
    ),
    Scenario(
        "an update in another version does so too",
        LEAVES,
        [
            apply("a", {"num": 1, "text": "x"}),
            update("ctl", {"num": 1, "text": "x", "flag": True}, "v2"),
            apply("a", {"num": 2, "text": "x"}),
        ],
        spec={"num": 2, "text": "x", "flag": True},
        owners={"a": ".num .text", "ctl@v2": ".flag"},
    ),
    Scenario(
        "a field the updater changed is in conflict until forced",
        LEAVES,
        [
            apply("a", {"num": 1, "text": "x"}),
            update("ctl", {"num": 1, "text": "theirs", "flag": True}),
            apply("a", {"num": 2, "text": "mine"}, conflicts={"ctl": ".text"}),
            force("a", {"num": 2, "text": "mine"}),
        ],
        spec={"num": 2, "text": "mine", "flag": True},
        owners={"a": ".num .text", "ctl": ".flag"},
    ),
    Scenario(
        "the conflict is seen across versions",
        LEAVES,
        [
            apply("a", {"num": 1, "text": "x"}),
            update("ctl", {"num": 1, "text": "theirs", "flag": True}, "v2"),
            apply("a", {"num": 2, "text": "mine"}, conflicts={"ctl": ".text"}),
            force("a", {"num": 2, "text": "mine"}, "v3"),
        ],
        spec={"num": 2, "text": "mine", "flag": True},
        owners={"a@v3": ".num .text", "ctl@v2": ".flag"},
    ),
    Scenario(
        "conflicts with several managers are all reported",
        LEAVES,
        [
            apply("a", {"num": 1, "text": "x"}),
            apply("b", {"flag": True}),
            apply("c", {"num": 2, "text": "y", "flag": False}, conflicts={"a": ".num .text", "b": ".flag"}),
        ],
        spec={"num": 1, "text": "x", "flag": True},
        owners={"a": ".num .text", "b": ".flag"},
    ),
    Scenario(
        "the live value can be applied by a second manager and is then shared",
        LEAVES,
        [apply("a", {"num": 1}), apply("b", {"num": 1})],
        spec={"num": 1},
        owners={"a": ".num", "b": ".num"},
    ),
    Scenario(
        "giving up a shared field leaves it to the other",
        LEAVES,
        [apply("a", {"num": 1}), apply("b", {"num": 1}), apply("a", {"text": "x"})],
        spec={"num": 1, "text": "x"},
        owners={"a": ".text", "b": ".num"},
    ),
    Scenario(
        "a shared field cannot be changed by one of its owners",
        LEAVES,
        [apply("a", {"num": 1}), apply("b", {"num": 1}), apply("a", {"num": 2}, conflicts={"b": ".num"})],
        spec={"num": 1},
        owners={"a": ".num", "b": ".num"},
    ),
    Scenario(
        "an updater takes the field from every applier",
        LEAVES,
        [apply("a", {"num": 1}), apply("b", {"num": 1}), update("ctl", {"num": 2})],
        spec={"num": 2},
        owners={"ctl": ".num"},
    ),
    Scenario(
        "an applier that omits what an updater took away changes nothing",
        LEAVES,
        [apply("a", {"num": 2}), update("ctl", {"num": 1}), apply("a", None)],
        spec={"num": 1},
        owners={"ctl": ".num"},
    ),
    Scenario(
        "an applier that adopts the updater's value shares it",
        LEAVES,
        [apply("a", {"num": 1}), update("ctl", {"num": 2}), apply("a", {"num": 2})],
        spec={"num": 2},
        owners={"a": ".num", "ctl": ".num"},
    ),
    Scenario(
        "an updater that removes a field takes it out of every entry",
        LEAVES,
        [apply("a", {"num": 1, "text": "x"}), update("ctl", {"num": 1})],
        spec={"num": 1},
        owners={"a": ".num"},
    ),
    Scenario(
        "an entry that loses its last field is gone",
        LEAVES,
        [apply("a", {"text": "x"}), update("ctl", {"text": "y"})],
        spec={"text": "y"},
        owners={"ctl": ".text"},
    ),
    Scenario(
        "an update that changes nothing owns nothing",
        LEAVES,
        [apply("a", {"text": "x"}), update("ctl", {"text": "x"})],
        spec={"text": "x"},
        owners={"a": ".text"},
    ),
    Scenario(
        "creating by update owns the struct as well",
        LEAVES,
        [update("ctl", {"num": 1}), update("other", {"num": 1, "text": "x"})],
        spec={"num": 1, "text": "x"},
        owners={"ctl": ". .num", "other": ".text"},
    ),
    Scenario(
        "applying nothing any more removes the whole spec",
        LEAVES,
        [apply("a", {"num": 1, "text": "x"}), apply("a", None)],
        spec=None,
        owners={},
    ),
    Scenario(
        "null is a value like any other",
        LEAVES,
        [apply("a", {"num": None}), apply("b", {"num": 1}, conflicts={"a": ".num"})],
        spec={"num": None},
        owners={"a": ".num"},
    ),
)
def test_leaf(scenario: Scenario) -> None:
    check(scenario)
