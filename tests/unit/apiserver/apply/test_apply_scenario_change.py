"""What changes around an object: its schema, its versions, repeated items that slipped in."""

import pytest

from quarterdeck.apiserver.apply import FieldManager, custom_model

from .apply_scenario import (
    GROUP,
    INTEGER,
    KIND,
    NOW,
    STRING,
    History,
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

GRANULAR = struct(struct=struct(num=INTEGER, text=STRING), list=setlist(STRING), map=mapping(STRING))
ATOMIC = struct(
    struct=atomic(struct(num=INTEGER, text=STRING)), list=listing(STRING), map=atomic(mapping(STRING))
)
LIST = struct(list=keyed("name", name=STRING, value=INTEGER), set=setlist(STRING))


@scenarios(
    Scenario(
        "owners of children own a struct that became atomic",
        GRANULAR,
        [
            apply("a", {"struct": {"num": 1}}),
            apply("b", {"struct": {"text": "x"}}),
            apply("c", {"list": ["q"]}, schema=ATOMIC),
        ],
        spec={"struct": {"num": 1, "text": "x"}, "list": ["q"]},
        owners={"a": ".struct", "b": ".struct", "c": ".list"},
    ),
    Scenario(
        "so that changing it is in conflict with all of them",
        GRANULAR,
        [
            apply("a", {"struct": {"num": 1}}),
            apply("b", {"struct": {"text": "x"}}),
            apply("a", {"struct": {"num": 2}}, schema=ATOMIC, conflicts={"b": ".struct"}),
            force("a", {"struct": {"num": 2}}),
        ],
        spec={"struct": {"num": 2}},
        owners={"a": ".struct"},
    ),
    Scenario(
        "owners of items own a list that became atomic",
        GRANULAR,
        [apply("a", {"list": ["a", "b"]}), update("ctl", {"list": ["a", "b"], "map": {}}, schema=ATOMIC)],
        spec={"list": ["a", "b"], "map": {}},
        owners={"a": ".list", "ctl": ".map"},
    ),
    Scenario(
        "owners of entries own a map that became atomic",
        GRANULAR,
        [apply("a", {"map": {"x": "1"}}), apply("a", {"map": {"y": "1"}}, schema=ATOMIC)],
        spec={"map": {"y": "1"}},
        owners={"a": ".map"},
    ),
    Scenario(
        "the owner of a struct that became granular keeps it without its fields",
        ATOMIC,
        [apply("a", {"struct": {"num": 1}}), apply("b", {"struct": {"text": "x"}}, schema=GRANULAR)],
        spec={"struct": {"num": 1, "text": "x"}},
        owners={"a": ".struct", "b": ".struct.text"},
    ),
    Scenario(
        "and owns the fields once it applies again",
        ATOMIC,
        [
            apply("a", {"struct": {"num": 1}}),
            apply("b", {"struct": {"text": "x"}}, schema=GRANULAR),
            apply("a", {"struct": {"num": 2}}),
        ],
        spec={"struct": {"num": 2, "text": "x"}},
        owners={"a": ".struct.num", "b": ".struct.text"},
    ),
    Scenario(
        "repeated items are left alone by an applier of other items",
        LIST,
        [
            update("ctl", {"list": [{"name": "a", "value": 1}, {"name": "a", "value": 2}]}),
            apply("a", {"list": [{"name": "b"}]}),
        ],
        spec={"list": [{"name": "a", "value": 1}, {"name": "a", "value": 2}, {"name": "b"}]},
        owners={"a": '.list[name="b"] .list[name="b"].name', "ctl": '. .list .list[name="a"]'},
    ),
    Scenario(
        "applying a repeated item makes it one",
        LIST,
        [
            update("ctl", {"list": [{"name": "a", "value": 1}, {"name": "a", "value": 2}]}),
            force("a", {"list": [{"name": "a", "value": 3}]}),
        ],
        spec={"list": [{"name": "a", "value": 3}]},
        owners={
            "a": " ".join(f'.list[name="a"]{path}' for path in ("", ".name", ".value")),
            "ctl": ". .list",
        },
    ),
    Scenario(
        "an item that becomes repeated loses its fields to the one who did it",
        LIST,
        [
            apply("a", {"list": [{"name": "a", "value": 1}]}),
            update("ctl", {"list": [{"name": "a", "value": 1}, {"name": "a", "value": 2}]}),
        ],
        spec={"list": [{"name": "a", "value": 1}, {"name": "a", "value": 2}]},
        owners={"ctl": '.list[name="a"]'},
    ),
    Scenario(
        "a change among repeated items is a change of all of them",
        LIST,
        [
            update("a", {"list": [{"name": "a", "value": 1}, {"name": "a", "value": 2}]}),
            update("b", {"list": [{"name": "a", "value": 1}, {"name": "a", "value": 3}]}),
        ],
        spec={"list": [{"name": "a", "value": 1}, {"name": "a", "value": 3}]},
        owners={"a": ". .list", "b": '.list[name="a"]'},
    ),
    Scenario(
        "repeated items that become one are owned field by field again",
        LIST,
        [
            update("a", {"list": [{"name": "a", "value": 1}, {"name": "a", "value": 2}]}),
            update("b", {"list": [{"name": "a", "value": 1}]}),
        ],
        spec={"list": [{"name": "a", "value": 1}]},
        owners={"a": ". .list", "b": " ".join(f'.list[name="a"]{path}' for path in ("", ".name", ".value"))},
    ),
    Scenario(
        "a repeated set item is one member",
        LIST,
        [update("a", {"set": ["x", "x", "y"]}), update("b", {"set": ["x", "y"]})],
        spec={"set": ["x", "y"]},
        owners={"a": '. .set .set[="y"]', "b": '.set[="x"]'},
    ),
)
def test_change(scenario: Scenario) -> None:
    check(scenario)


def test_entries_of_a_version_that_is_gone_are_dropped_by_an_update() -> None:
    history = History(GRANULAR)
    history.run(apply("a", {"map": {"x": "1"}}, "v2"))
    history.versions.remove("v2")
    history.run(update("ctl", {"map": {"x": "1", "y": "1"}}))
    assert history.owners() == {"ctl": ".map.y"}


def test_what_was_applied_in_a_version_that_is_gone_is_not_pruned() -> None:
    history = History(GRANULAR)
    history.run(apply("a", {"map": {"x": "1"}}, "v2"))
    history.versions.remove("v2")
    history.run(apply("a", {"map": {"y": "1"}}))
    assert history.spec() == {"map": {"x": "1", "y": "1"}}
    assert history.owners() == {"a": ".map.y"}


def _renamed(obj: dict, api_version: str) -> dict:  # type: ignore[type-arg]  # a test's converter
    renames = {"old": "new"} if api_version.endswith("v2") else {"new": "old"}
    spec = {renames.get(key, key): value for key, value in obj.get("spec", {}).items()}
    return {**obj, "apiVersion": api_version, "spec": spec}


@pytest.fixture
def renaming() -> FieldManager:
    models = {
        f"{GROUP}/v1": custom_model(struct(spec=struct(old=STRING, both=STRING))),
        f"{GROUP}/v2": custom_model(struct(spec=struct(new=STRING, both=STRING))),
    }
    return FieldManager(models.get, convert=_renamed, kind=KIND)


def _config(version: str, **spec: str) -> dict:  # type: ignore[type-arg]
    return {"apiVersion": f"{GROUP}/{version}", "kind": KIND, "metadata": {"name": "o"}, "spec": spec}


def test_a_renamed_field_is_in_conflict_under_its_name_in_the_owners_version(renaming: FieldManager) -> None:
    live = renaming.apply(None, _config("v1", old="1"), manager="a", api_version=f"{GROUP}/v1", now=NOW)
    with pytest.raises(Exception, match=r'conflict with "a": \.spec\.old'):
        renaming.apply(
            _renamed(live, f"{GROUP}/v2"),
            _config("v2", new="2"),
            manager="b",
            api_version=f"{GROUP}/v2",
            now=NOW,
        )


def test_a_renamed_field_given_up_in_the_other_version_disappears(renaming: FieldManager) -> None:
    live = renaming.apply(
        None, _config("v1", old="1", both="1"), manager="a", api_version=f"{GROUP}/v1", now=NOW
    )
    after = renaming.apply(
        _renamed(live, f"{GROUP}/v2"),
        _config("v2", both="1"),
        manager="a",
        api_version=f"{GROUP}/v2",
        now=NOW,
    )
    assert after["spec"] == {"both": "1"}


def test_an_update_of_a_renamed_field_takes_it_from_its_owner(renaming: FieldManager) -> None:
    live = renaming.apply(
        None, _config("v1", old="1", both="1"), manager="a", api_version=f"{GROUP}/v1", now=NOW
    )
    live = _renamed(live, f"{GROUP}/v2")
    live["metadata"]["uid"] = "u"
    new = _config("v2", new="2", both="1")
    renaming.update(live, new, manager="ctl", api_version=f"{GROUP}/v2", now=NOW)
    fields = {entry["manager"]: entry["fieldsV1"] for entry in new["metadata"]["managedFields"]}
    assert fields == {"a": {"f:spec": {"f:both": {}}}, "ctl": {"f:spec": {"f:new": {}}}}


def test_a_field_that_another_version_does_not_have_makes_an_apply_fail_as_upstream() -> None:
    models = {
        f"{GROUP}/v1": custom_model(struct(spec=struct(a=STRING, b=STRING))),
        f"{GROUP}/v2": custom_model(struct(spec=struct(a=STRING))),
    }
    manager = FieldManager(models.get, kind=KIND)
    live = manager.apply(None, _config("v2", a="1"), manager="m2", api_version=f"{GROUP}/v2", now=NOW)
    live["apiVersion"] = f"{GROUP}/v1"
    with pytest.raises(Exception, match=r"\.spec\.b: field not declared in schema"):
        manager.apply(live, _config("v1", b="1"), manager="m1", api_version=f"{GROUP}/v1", now=NOW)
