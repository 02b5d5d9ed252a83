"""Keyed lists: items are owned by identity and field by field, with defaults as parts of the identity."""

from .apply_scenario import (
    INTEGER,
    STRING,
    Scenario,
    apply,
    atomic,
    check,
    force,
    keyed,
    scenarios,
    struct,
    update,
)

LIST = struct(list=keyed("name", name=STRING, value=INTEGER))
ATOMIC_ITEMS = struct(
    list={**keyed("name"), "items": atomic(struct(name=STRING, value=INTEGER))},
)
PORTS = struct(
    ports=keyed("port", "protocol", port=INTEGER, protocol={**STRING, "default": "TCP"}, name=STRING)
)
BOOK = struct(
    book=keyed(
        "chapter",
        "section",
        chapter={**INTEGER, "default": 1},
        section={**STRING, "default": "A"},
        sentences=keyed("line", line={**INTEGER, "default": 3.0}, text=STRING),
    )
)


def item(name: str, *fields: str) -> str:
    paths = ["", ".name", *("." + each for each in fields)]
    return " ".join(f'.list[name="{name}"]{path}' for path in paths)


@scenarios(
    Scenario(
        "items no longer applied disappear, those of others stay",
        LIST,
        [
            apply("a", {"list": [{"name": "a"}, {"name": "b"}]}),
            apply("b", {"list": [{"name": "c"}]}, "v2"),
            apply("a", {"list": [{"name": "a"}]}, "v3"),
        ],
        spec={"list": [{"name": "a"}, {"name": "c"}]},
        owners={"a@v3": item("a"), "b@v2": item("c")},
    ),
    Scenario(
        "the same item can be applied by two",
        LIST,
        [
            apply("a", {"list": [{"name": "a"}]}),
            apply("b", {"list": [{"name": "a", "value": 1}]}),
            apply("a", {"list": []}),
        ],
        spec={"list": [{"name": "a", "value": 1}]},
        owners={"b": item("a", "value")},
    ),
    Scenario(
        "a field of an item is in conflict, not the item",
        LIST,
        [
            apply("a", {"list": [{"name": "a", "value": 0}]}),
            apply("b", {"list": [{"name": "a", "value": 1}]}, conflicts={"a": '.list[name="a"].value'}),
            force("b", {"list": [{"name": "a", "value": 1}]}),
        ],
        spec={"list": [{"name": "a", "value": 1}]},
        owners={"a": item("a"), "b": item("a", "value")},
    ),
    Scenario(
        "taking a field by force and giving it up leaves the item to its owner",
        LIST,
        [
            apply("a", {"list": [{"name": "a", "value": 0}]}),
            force("b", {"list": [{"name": "a", "value": 1}]}),
            apply("b", {"list": []}),
        ],
        spec={"list": [{"name": "a"}]},
        owners={"a": item("a")},
    ),
    Scenario(
        "an applier's dropped item keeps what an updater put into it only if it stays",
        LIST,
        [
            apply("a", {"list": [{"name": "a"}, {"name": "b"}]}),
            update("ctl", {"list": [{"name": "a"}, {"name": "b", "value": 5}]}),
            apply("a", {"list": [{"name": "a"}]}),
        ],
        spec={"list": [{"name": "a"}]},
        owners={"a": item("a")},
    ),
    Scenario(
        "items follow the order rule",
        LIST,
        [
            apply("a", {"list": [{"name": "a"}, {"name": "c"}]}),
            update("ctl", {"list": [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}]}),
            apply("a", {"list": [{"name": "a"}, {"name": "x"}, {"name": "c"}]}),
        ],
        spec={"list": [{"name": "a"}, {"name": "b"}, {"name": "x"}, {"name": "c"}, {"name": "d"}]},
        owners={
            "a": " ".join([item("a"), item("c"), item("x")]),
            "ctl": " ".join([item("b"), item("d")]),
        },
    ),
    Scenario(
        "an atomic item is one value",
        ATOMIC_ITEMS,
        [
            apply("a", {"list": [{"name": "a", "value": 1}]}),
            apply("b", {"list": [{"name": "b"}]}),
            apply("b", {"list": [{"name": "a", "value": 2}]}, conflicts={"a": '.list[name="a"]'}),
            apply("a", {"list": [{"name": "a"}]}),
        ],
        spec={"list": [{"name": "a"}, {"name": "b"}]},
        owners={"a": '.list[name="a"]', "b": '.list[name="b"]'},
    ),
    Scenario(
        "a missing key with a default takes it for identity only",
        PORTS,
        [apply("a", {"ports": [{"port": 80}]})],
        spec={"ports": [{"port": 80}]},
        owners={"a": '.ports[port=80,protocol="TCP"] .ports[port=80,protocol="TCP"].port'},
    ),
    Scenario(
        "the defaulted and the explicit item are the same",
        PORTS,
        [
            apply("a", {"ports": [{"port": 80, "protocol": "TCP", "name": "web"}]}),
            apply(
                "b",
                {"ports": [{"port": 80, "name": "other"}]},
                conflicts={"a": '.ports[port=80,protocol="TCP"].name'},
            ),
        ],
        spec={"ports": [{"port": 80, "protocol": "TCP", "name": "web"}]},
        owners={
            "a": " ".join(
                f'.ports[port=80,protocol="TCP"]{path}' for path in ("", ".name", ".port", ".protocol")
            )
        },
    ),
    Scenario(
        "another protocol is another item",
        PORTS,
        [apply("a", {"ports": [{"port": 80}]}), apply("b", {"ports": [{"port": 80, "protocol": "UDP"}]})],
        spec={"ports": [{"port": 80}, {"port": 80, "protocol": "UDP"}]},
        owners={
            "a": '.ports[port=80,protocol="TCP"] .ports[port=80,protocol="TCP"].port',
            "b": " ".join(f'.ports[port=80,protocol="UDP"]{path}' for path in ("", ".port", ".protocol")),
        },
    ),
    Scenario(
        "a missing key without a default is left out of the identity",
        PORTS,
        [apply("a", {"ports": [{"protocol": "UDP"}]})],
        spec={"ports": [{"protocol": "UDP"}]},
        owners={"a": '.ports[protocol="UDP"] .ports[protocol="UDP"].protocol'},
    ),
    Scenario(
        "every key of every level can come from defaults",
        BOOK,
        [apply("a", {"book": [{"sentences": [{"text": "blah"}]}]})],
        spec={"book": [{"sentences": [{"text": "blah"}]}]},
        owners={
            "a": '.book[chapter=1,section="A"]'
            ' .book[chapter=1,section="A"].sentences[line=3]'
            ' .book[chapter=1,section="A"].sentences[line=3].text'
        },
    ),
)
def test_keyed_list(scenario: Scenario) -> None:
    check(scenario)
