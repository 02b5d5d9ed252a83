"""Types inside types, and several appliers in them."""

from .apply_scenario import (
    INTEGER,
    STRING,
    Scenario,
    apply,
    atomic,
    check,
    force,
    keyed,
    listing,
    mapping,
    scenarios,
    setlist,
    struct,
    update,
)

NESTED = struct(
    listOfLists=keyed("name", name=STRING, value=setlist(STRING)),
    listOfMaps=keyed("name", name=STRING, value=mapping(STRING)),
    mapOfLists=mapping(setlist(STRING)),
    mapOfMaps=mapping(mapping(STRING)),
    deepMap=mapping(mapping(mapping(mapping(STRING)))),
    struct=struct(name=STRING, value=INTEGER, inner=struct(x=STRING, set=setlist(STRING))),
    mapOfStructs=mapping(struct(name=STRING, value=INTEGER)),
)
OVERRIDES = struct(
    atomicStruct=atomic(struct(name=STRING, value=INTEGER)),
    atomicMap=atomic(mapping(STRING)),
    atomicList=listing(struct(name=STRING)),
    granular=struct(name=STRING, value=INTEGER),
)


def lists(name: str, *values: str) -> str:
    at = f'.listOfLists[name="{name}"]'
    return " ".join([at, at + ".name", *(f'{at}.value[="{value}"]' for value in values)])


@scenarios(
    Scenario(
        "a set in an item",
        NESTED,
        [
            apply("a", {"listOfLists": [{"name": "a", "value": ["b", "c"]}]}),
            apply("a", {"listOfLists": [{"name": "a", "value": ["a", "c"]}]}),
        ],
        spec={"listOfLists": [{"name": "a", "value": ["a", "c"]}]},
        owners={"a": lists("a", "a", "c")},
    ),
    Scenario(
        "a map in an item",
        NESTED,
        [
            apply("a", {"listOfMaps": [{"name": "a", "value": {"b": "x", "c": "y"}}]}),
            apply("a", {"listOfMaps": [{"name": "a", "value": {"a": "x", "c": "z"}}]}),
        ],
        spec={"listOfMaps": [{"name": "a", "value": {"a": "x", "c": "z"}}]},
        owners={
            "a": " ".join(f'.listOfMaps[name="a"]{path}' for path in ("", ".name", ".value.a", ".value.c"))
        },
    ),
    Scenario(
        "a map of sets owns its entries",
        NESTED,
        [apply("a", {"mapOfLists": {"a": ["b", "c"]}}), apply("a", {"mapOfLists": {"a": ["a", "c"]}})],
        spec={"mapOfLists": {"a": ["a", "c"]}},
        owners={"a": '.mapOfLists.a .mapOfLists.a[="a"] .mapOfLists.a[="c"]'},
    ),
    Scenario(
        "a map of maps owns its entries",
        NESTED,
        [
            apply("a", {"mapOfMaps": {"a": {"b": "x", "c": "y"}}}),
            apply("a", {"mapOfMaps": {"a": {"a": "x", "c": "z"}}}),
        ],
        spec={"mapOfMaps": {"a": {"a": "x", "c": "z"}}},
        owners={"a": ".mapOfMaps.a .mapOfMaps.a.a .mapOfMaps.a.c"},
    ),
    Scenario(
        "an entry given up goes with everything in it",
        NESTED,
        [apply("a", {"mapOfMaps": {"a": {"x": "1"}, "b": {"y": "1"}}}), apply("a", {"mapOfMaps": {"a": {}}})],
        spec={"mapOfMaps": {"a": {}}},
        owners={"a": ".mapOfMaps.a"},
    ),
    Scenario(
        "deep maps are shared level by level",
        NESTED,
        [
            apply("a", {"deepMap": {"a": {"b": {"c": {"x": "1"}}}}}),
            apply("b", {"deepMap": {"a": {"b": {"d": {"x": "1"}}}}}),
            apply("a", {"deepMap": {"e": {}}}),
        ],
        spec={"deepMap": {"a": {"b": {"d": {"x": "1"}}}, "e": {}}},
        owners={"a": ".deepMap.e", "b": ".deepMap.a .deepMap.a.b .deepMap.a.b.d .deepMap.a.b.d.x"},
    ),
    Scenario(
        "a struct disappears with its last field",
        NESTED,
        [apply("a", {"struct": {"name": "a", "value": 1}}), apply("a", None)],
        spec=None,
        owners={},
    ),
    Scenario(
        "a struct stays for the fields of others",
        NESTED,
        [
            apply("a", {"struct": {"name": "a"}}),
            update("ctl", {"struct": {"name": "a", "value": 1}}),
            apply("a", {}),
        ],
        spec={"struct": {"value": 1}},
        owners={"a": ".", "ctl": ".struct.value"},
    ),
    Scenario(
        "an empty struct is owned itself",
        NESTED,
        [
            apply("a", {"struct": {"name": "a"}}),
            update("ctl", {"struct": {"name": "a", "value": 1}}),
            apply("a", {"struct": {}}),
        ],
        spec={"struct": {"value": 1}},
        owners={"a": ".struct", "ctl": ".struct.value"},
    ),
    Scenario(
        "an empty struct where content was leaves an empty struct",
        NESTED,
        [apply("a", {"struct": {"name": "a"}}), apply("a", {"struct": {}})],
        spec={"struct": {}},
        owners={"a": ".struct"},
    ),
    Scenario(
        "fields of others inside a struct that is given up",
        NESTED,
        [
            apply("a", {"struct": {"inner": {"x": "1", "set": ["p"]}}}),
            apply("b", {"struct": {"inner": {"set": ["q"]}}}),
            apply("a", {"struct": {"name": "n"}}),
        ],
        spec={"struct": {"inner": {"set": ["q"]}, "name": "n"}},
        owners={"a": ".struct.name", "b": '.struct.inner.set[="q"]'},
    ),
    Scenario(
        "an entry of a map of structs stays for the fields of others",
        NESTED,
        [
            apply("a", {"mapOfStructs": {"k": {"name": "a"}}}),
            apply("b", {"mapOfStructs": {"k": {"value": 1}}}),
            apply("a", {"mapOfStructs": {}}),
        ],
        spec={"mapOfStructs": {"k": {"value": 1}}},
        owners={"a": ".mapOfStructs", "b": ".mapOfStructs.k .mapOfStructs.k.value"},
    ),
    Scenario(
        "an item given up stays while another applier has it, with the updater's part of it",
        NESTED,
        [
            apply("a", {"listOfLists": [{"name": "a"}, {"name": "b", "value": ["c"]}]}),
            apply("b", {"listOfLists": [{"name": "b", "value": ["d"]}]}, "v2"),
            update("ctl", {"listOfLists": [{"name": "a"}, {"name": "b", "value": ["c", "d", "e"]}]}, "v2"),
            apply("a", {"listOfLists": [{"name": "a"}]}, "v3"),
        ],
        spec={"listOfLists": [{"name": "a"}, {"name": "b", "value": ["d", "e"]}]},
        owners={
            "a@v3": lists("a"),
            "b@v2": lists("b", "d"),
            "ctl@v2": '.listOfLists[name="b"].value[="e"]',
        },
    ),
    Scenario(
        "an item given up by its only applier goes with the updater's part of it",
        NESTED,
        [
            apply("a", {"listOfLists": [{"name": "a"}, {"name": "b", "value": ["c"]}]}),
            apply("b", {"listOfLists": [{"name": "a", "value": ["b"]}]}, "v2"),
            update(
                "ctl",
                {"listOfLists": [{"name": "a", "value": ["b"]}, {"name": "b", "value": ["c", "d"]}]},
                "v2",
            ),
            apply("a", {"listOfLists": [{"name": "a"}]}, "v3"),
        ],
        spec={"listOfLists": [{"name": "a", "value": ["b"]}]},
        owners={"a@v3": lists("a"), "b@v2": lists("a", "b")},
    ),
    Scenario(
        "a map entry given up by its only applier goes with the updater's part of it",
        NESTED,
        [
            apply("a", {"mapOfMaps": {"a": {}, "b": {"c": "1"}}}),
            update("ctl", {"mapOfMaps": {"a": {}, "b": {"c": "1", "d": "2"}}}),
            apply("a", {"mapOfMaps": {"a": {}}}),
        ],
        spec={"mapOfMaps": {"a": {}}},
        owners={"a": ".mapOfMaps.a"},
    ),
    Scenario(
        "two appliers of one set inside a map entry",
        NESTED,
        [
            apply("a", {"mapOfLists": {"k": ["a", "b"]}}),
            apply("b", {"mapOfLists": {"k": ["b", "c"]}}),
            apply("a", {"mapOfLists": {"k": ["a"]}}),
            apply("b", {"mapOfLists": {"k": ["c"]}}),
        ],
        spec={"mapOfLists": {"k": ["a", "c"]}},
        owners={"a": '.mapOfLists.k .mapOfLists.k[="a"]', "b": '.mapOfLists.k .mapOfLists.k[="c"]'},
    ),
    Scenario(
        "an atomic struct is one value",
        OVERRIDES,
        [
            apply("a", {"atomicStruct": {"name": "a"}}),
            apply("b", {"atomicStruct": {"value": 2}}, conflicts={"a": ".atomicStruct"}),
            apply("a", {"atomicStruct": {"name": "b", "value": 2}}),
        ],
        spec={"atomicStruct": {"name": "b", "value": 2}},
        owners={"a": ".atomicStruct"},
    ),
    Scenario(
        "an atomic map is one value",
        OVERRIDES,
        [apply("a", {"atomicMap": {"x": "1"}}), force("b", {"atomicMap": {"y": "1"}})],
        spec={"atomicMap": {"y": "1"}},
        owners={"b": ".atomicMap"},
    ),
    Scenario(
        "a list without a type is one value",
        OVERRIDES,
        [
            apply("a", {"atomicList": [{"name": "a"}]}),
            update("ctl", {"atomicList": [{"name": "a"}, {"name": "b"}]}),
            apply("a", {"atomicList": [{"name": "a"}]}, conflicts={"ctl": ".atomicList"}),
        ],
        spec={"atomicList": [{"name": "a"}, {"name": "b"}]},
        owners={"ctl": ".atomicList"},
    ),
    Scenario(
        "a granular struct is shared",
        OVERRIDES,
        [apply("a", {"granular": {"name": "a"}}), apply("b", {"granular": {"value": 2}})],
        spec={"granular": {"name": "a", "value": 2}},
        owners={"a": ".granular.name", "b": ".granular.value"},
    ),
)
def test_nested(scenario: Scenario) -> None:
    check(scenario)
