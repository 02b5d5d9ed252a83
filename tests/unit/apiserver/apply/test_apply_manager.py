"""The field manager on the wire level: entries, times, clearing, first apply, errors, built-in kinds."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.apiserver.apply import (
    FieldManager,
    TypeModel,
    builtin_model,
    custom_model,
    resetfields,
    restore_times,
)
from quarterdeck.apiserver.status import StatusError

from .apply_scenario import FREE, INTEGER, STRING, keyed, listing, setlist, struct

Json = dict[str, Any]

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-02-02T00:00:00Z"
GROUP = "g.example.com"


def builtin(api_version: str, kind: str, **options: Any) -> FieldManager:
    group, _, version = api_version.rpartition("/")
    model = builtin_model(group, version, kind)
    return FieldManager(lambda each: model if each == api_version else None, kind=kind, **options)


CONFIGMAPS = builtin("v1", "ConfigMap")
PODS = builtin("v1", "Pod", ignored=resetfields.builtin("", "Pod", has_status=True))


def configmap(data: Json | None = None, **metadata: Any) -> Json:
    obj: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **metadata}}
    if data is not None:
        obj["data"] = data
    return obj


def created(data: Json, manager: str = "creator") -> Json:
    obj = configmap(data)
    CONFIGMAPS.update(None, obj, manager=manager, api_version="v1", now=EARLY)
    obj["metadata"]["uid"] = "u"
    return obj


def updated(live: Json, new: Json, manager: str = "updater", **options: Any) -> Json:
    new = copy.deepcopy(new)
    CONFIGMAPS.update(live, new, manager=manager, api_version="v1", now=LATE, **options)
    return new


def applied(live: Json | None, config: Json, manager: str = "applier", *, force: bool = False) -> Json:
    return CONFIGMAPS.apply(live, config, manager=manager, api_version="v1", force=force, now=LATE)


def entries(obj: Json) -> list[Json]:
    found: list[Json] = obj["metadata"].get("managedFields", [])
    return found


def owners(obj: Json) -> Json:
    return {entry["manager"]: entry["fieldsV1"] for entry in entries(obj)}


def failure(call: Any, *arguments: Any, **options: Any) -> StatusError:
    with pytest.raises(StatusError) as caught:
        call(*arguments, **options)
    return caught.value


def test_an_entry_says_who_how_where_when_and_what() -> None:
    assert entries(created({"k": "1"})) == [
        {
            "manager": "creator",
            "operation": "Update",
            "apiVersion": "v1",
            "time": EARLY,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {".": {}, "f:k": {}}},
        }
    ]


def test_identity_fields_of_metadata_are_never_owned() -> None:
    obj = configmap(
        {"k": "1"},
        namespace="n",
        uid="u",
        resourceVersion="1",
        generation=1,
        creationTimestamp=EARLY,
        selfLink="x",
        labels={"l": "1"},
        generateName="g",
    )
    CONFIGMAPS.update(None, obj, manager="m", api_version="v1", now=EARLY)
    fields = entries(obj)[0]["fieldsV1"]
    assert fields["f:metadata"] == {"f:generateName": {}, "f:labels": {".": {}, "f:l": {}}}


def test_a_nameless_manager_is_unknown() -> None:
    assert entries(created({"k": "1"}, manager=""))[0]["manager"] == "unknown"


def test_an_update_moves_what_it_changed_and_keeps_the_other_time() -> None:
    live = created({"k": "1", "j": "1"})
    new = updated(live, configmap({"k": "2", "j": "1"}, uid="u"))
    assert owners(new) == {"creator": {"f:data": {".": {}, "f:j": {}}}, "updater": {"f:data": {"f:k": {}}}}
    assert [entry["time"] for entry in entries(new)] == [EARLY, LATE]


def test_an_update_that_changes_nothing_keeps_the_entries() -> None:
    live = created({"k": "1"})
    new = updated(live, configmap({"k": "1"}, uid="u"))
    assert entries(new) == entries(live)
    assert restore_times(live, new)


def test_an_update_that_only_removes_does_not_date_anyone() -> None:
    live = created({"k": "1", "j": "1"})
    new = updated(live, configmap({"k": "1"}, uid="u"), manager="creator")
    assert owners(new) == {"creator": {"f:data": {".": {}, "f:k": {}}}}
    assert entries(new)[0]["time"] == EARLY


def test_subresources_have_entries_of_their_own() -> None:
    pod: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "uid": "u"}, "spec": {}}
    live = {**copy.deepcopy(pod), "status": {}}
    live["metadata"]["labels"] = {"a": "1"}
    PODS.update(None, live, manager="m", api_version="v1", now=EARLY)
    new = copy.deepcopy(live)
    new["spec"] = {"nodeName": "ignored"}
    new["metadata"]["labels"]["b"] = "1"
    new["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    PODS.update(live, new, manager="m", api_version="v1", subresource="status", now=LATE)
    first, second = entries(new)
    assert first == entries(live)[0]
    assert (second["manager"], second["subresource"]) == ("m", "status")
    assert second["fieldsV1"] == {
        "f:metadata": {"f:labels": {"f:b": {}}},
        "f:status": {
            "f:phase": {},
            "f:conditions": {".": {}, 'k:{"type":"Ready"}': {".": {}, "f:type": {}, "f:status": {}}},
        },
    }


def test_a_main_write_owns_nothing_of_the_status() -> None:
    pod: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"phase": "x"}}
    pod["spec"] = {"nodeName": "n"}
    PODS.update(None, pod, manager="m", api_version="v1", now=EARLY)
    assert owners(pod) == {"m": {"f:spec": {"f:nodeName": {}}}}


@pytest.mark.parametrize("cleared", [[], [{}]])
def test_a_client_can_forget_all_owners(cleared: list[Json]) -> None:
    live = created({"k": "1"})
    new = updated(live, configmap({"k": "2"}, uid="u", managedFields=cleared))
    assert "managedFields" not in new["metadata"]


def test_nothing_is_tracked_after_clearing_until_the_first_apply() -> None:
    live = configmap({"k": "1", "j": "1"}, uid="u")
    new = updated(live, configmap({"k": "2", "j": "1"}, uid="u"))
    assert "managedFields" not in new["metadata"]
    error = failure(applied, new, configmap({"k": "3"}))
    assert error.message == (
        'Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.k'
    )
    result = applied(new, configmap({"k": "3"}), force=True)
    assert owners(result) == {
        "applier": {"f:data": {"f:k": {}}},
        "before-first-apply": {"f:data": {".": {}, "f:j": {}}},
    }


def test_clearing_at_creation_still_tracks_the_creation() -> None:
    obj = configmap({"k": "1"}, managedFields=[])
    CONFIGMAPS.update(None, obj, manager="m", api_version="v1", now=EARLY)
    assert owners(obj) == {"m": {"f:data": {".": {}, "f:k": {}}}}


def test_readable_entries_of_a_client_replace_the_stored_ones() -> None:
    live = created({"k": "1"})
    sent = copy.deepcopy(entries(live))
    sent[0].update(manager="renamed", time="2025-06-01T02:00:00+02:00")
    new = updated(live, configmap({"k": "1"}, uid="u", managedFields=sent))
    assert entries(new) == [{**entries(live)[0], "manager": "renamed", "time": "2025-06-01T00:00:00Z"}]


@pytest.mark.parametrize(
    "change",
    [
        {"operation": "Touch"},
        {"apiVersion": ""},
        {"fieldsType": ""},
        {"fieldsType": "FieldsV2"},
        {"fieldsV1": {"f": {}}},
        {"fieldsV1": []},
        {"time": "yesterday"},
        {"manager": 5},
    ],
)
def test_unreadable_entries_of_a_client_are_ignored(change: Json) -> None:
    live = created({"k": "1"})
    sent = [{**entries(live)[0], "manager": "renamed", **change}]
    new = updated(live, configmap({"k": "1"}, uid="u", managedFields=sent))
    assert entries(new) == entries(live)


def test_entries_sent_through_a_subresource_are_ignored() -> None:
    live = created({"k": "1"})
    new = updated(live, configmap({"k": "1"}, uid="u", managedFields=[]), subresource="status")
    assert entries(new) == entries(live)


def test_the_oldest_updaters_are_merged_beyond_ten() -> None:
    live = created({"k0": "1"}, manager="m0")
    for number in range(1, 13):
        new = configmap({**live["data"], f"k{number}": "1"}, uid="u")
        now = f"2026-03-01T00:00:{number:02d}Z"
        CONFIGMAPS.update(live, new, manager=f"m{number}", api_version="v1", now=now)
        live = new
    names = [entry["manager"] for entry in entries(live)]
    assert names == ["ancient-changes", *(f"m{number}" for number in range(4, 13))]
    assert entries(live)[0]["fieldsV1"] == {
        "f:data": {".": {}, **{f"f:k{number}": {} for number in range(4)}}
    }
    assert entries(live)[0]["time"] == "2026-03-01T00:00:03Z"


def test_entries_are_sorted_by_operation_time_and_name() -> None:
    live = created({"k": "1"}, manager="z")
    live = applied(live, configmap({"x": "1"}), manager="b")
    live = applied(live, configmap({"y": "1"}), manager="a")
    live = updated(live, {**live, "data": {**live["data"], "w": "1"}}, manager="c")
    assert [(entry["operation"], entry["manager"]) for entry in entries(live)] == [
        ("Apply", "a"),
        ("Apply", "b"),
        ("Update", "z"),
        ("Update", "c"),
    ]


def test_an_apply_creates() -> None:
    result = applied(None, configmap({"k": "1"}))
    assert entries(result) == [
        {
            "manager": "applier",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": LATE,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:k": {}}},
        }
    ]


def test_an_apply_of_live_values_shares_them_without_a_date() -> None:
    live = applied(None, configmap({"k": "1"}), manager="m1")
    result = applied(live, configmap({"k": "1"}), manager="m2")
    second = next(entry for entry in entries(result) if entry["manager"] == "m2")
    assert second["fieldsV1"] == {"f:data": {"f:k": {}}}
    assert "time" not in second


def test_a_repeated_apply_is_a_no_op() -> None:
    live = CONFIGMAPS.apply(None, configmap({"k": "1"}), manager="m", api_version="v1", now=EARLY)
    again = applied(live, configmap({"k": "1"}), manager="m")
    assert again == live


def test_the_result_of_an_apply_shares_nothing_with_its_arguments() -> None:
    live, config = created({"k": "1"}), configmap({"j": "1"}, labels={"a": "b"})
    before = copy.deepcopy((live, config))
    result = applied(live, config)
    result["data"]["k"] = result["metadata"]["labels"]["a"] = "changed"
    assert (live, config) == before


def test_conflicts_of_one_manager_are_listed_below_it() -> None:
    live = created({"k": "1", "j": "1"})
    error = failure(applied, live, configmap({"k": "2", "j": "2"}))
    assert (error.code, error.reason) == (409, "Conflict")
    assert error.message == (
        'Apply failed with 2 conflicts: conflicts with "creator" using v1:\n- .data.j\n- .data.k'
    )
    assert error.details == {
        "causes": [
            {"reason": "FieldManagerConflict", "message": 'conflict with "creator" using v1', "field": path}
            for path in (".data.j", ".data.k")
        ]
    }


def test_conflicts_name_the_subresource() -> None:
    pod: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    config = {**pod, "status": {"phase": "A"}}
    options: Json = {"api_version": "v1", "subresource": "status", "now": EARLY}
    live = PODS.apply(None, config, manager="m1", **options)
    error = failure(PODS.apply, live, {**pod, "status": {"phase": "B"}}, manager="m2", **options)
    assert error.message == (
        'Apply failed with 1 conflict: conflict with "m1" with subresource "status": .status.phase'
    )


@pytest.mark.parametrize(
    ("config", "code", "message"),
    [
        (configmap() | {"apiVersion": "v2"}, 400, "invalid object type: /v2, Kind=ConfigMap"),
        (configmap() | {"kind": "Secret"}, 400, "invalid object type: /v1, Kind=Secret"),
        (configmap(managedFields=[]), 400, "metadata.managedFields must be nil"),
        (
            configmap({"k": 1}, namespace="n"),
            500,
            (
                "failed to create typed patch object (n/a; /v1, Kind=ConfigMap): "
                ".data.k: expected string, got &value.valueUnstructured{Value:1}"
            ),
        ),
        (
            configmap(wrong=1),
            500,
            (
                "failed to create typed patch object (/a; /v1, Kind=ConfigMap): "
                ".metadata.wrong: field not declared in schema"
            ),
        ),
    ],
)
def test_what_cannot_be_applied(config: Json, code: int, message: str) -> None:
    error = failure(applied, None, config)
    assert (error.code, error.message) == (code, message)
    assert error.reason == ("BadRequest" if code == 400 else "")


def test_managed_fields_null_can_be_applied() -> None:
    assert applied(None, configmap({"k": "1"}, managedFields=None))["data"] == {"k": "1"}


def test_an_object_that_does_not_fit_its_type_loses_its_entries() -> None:
    manager = FieldManager(lambda _: custom_model(struct(spec=struct(set=setlist(STRING)))))
    obj: Json = {"apiVersion": f"{GROUP}/v1", "kind": "T", "metadata": {}, "spec": {"set": [None]}}
    manager.update(None, obj, manager="m", api_version=f"{GROUP}/v1", now=EARLY)
    assert obj["metadata"] == {}


def test_a_live_object_that_does_not_fit_its_type_cannot_be_applied_to() -> None:
    manager = FieldManager(lambda _: custom_model(struct(spec=struct(x=STRING))))
    live: Json = {"apiVersion": f"{GROUP}/v1", "kind": "T", "metadata": {"name": "a"}, "spec": {"x": 1}}
    config: Json = {"apiVersion": f"{GROUP}/v1", "kind": "T", "metadata": {"name": "a"}}
    live["metadata"]["managedFields"] = [
        {"manager": "m", "operation": "Apply", "apiVersion": f"{GROUP}/v1", "fieldsV1": {"f:spec": {}}}
    ]
    error = failure(manager.apply, live, config, manager="m", api_version=f"{GROUP}/v1", now=EARLY)
    assert error.message == (
        f"failed to create typed live object (/a; {GROUP}/v1, Kind=T): "
        ".spec.x: expected string, got &value.valueUnstructured{Value:1}"
    )


def test_ignored_fields_shield_only_entries_of_the_version_if_told_so() -> None:
    model = custom_model(struct(spec=FREE, status=FREE))
    for own_version_only, expected in (((), {"f:status": {"f:x": {}}}), (("",), None)):
        manager = FieldManager(
            lambda _: model,
            ignored=resetfields.custom_resource(has_status=True),
            own_version_only=own_version_only,
        )
        live: Json = {"apiVersion": f"{GROUP}/v1", "kind": "T", "metadata": {"uid": "u"}, "status": {"x": 1}}
        live["metadata"]["managedFields"] = [
            {
                "manager": "s",
                "operation": "Update",
                "apiVersion": f"{GROUP}/v1",
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:status": {"f:x": {}}},
            }
        ]
        new: Json = {"apiVersion": f"{GROUP}/v2", "kind": "T", "metadata": {"uid": "u"}, "status": {"x": 2}}
        live["apiVersion"] = f"{GROUP}/v2"
        manager.update(live, new, manager="m", api_version=f"{GROUP}/v2", now=LATE)
        assert owners(new).get("s") == expected


def test_built_in_structs_exist_before_their_fields() -> None:
    manager = builtin(
        "apps/v1", "Deployment", ignored=resetfields.builtin("apps", "Deployment", has_status=True)
    )
    container = {"name": "c", "image": "i", "resources": {}}
    deployment: Json = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}},
        },
        "status": {},
    }
    manager.update(None, deployment, manager="m", api_version="apps/v1", now=EARLY)
    assert owners(deployment)["m"] == {
        "f:spec": {
            "f:replicas": {},
            "f:selector": {},
            "f:template": {
                "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
                "f:spec": {
                    "f:containers": {
                        'k:{"name":"c"}': {".": {}, "f:name": {}, "f:image": {}, "f:resources": {}}
                    }
                },
            },
            "f:strategy": {"f:type": {}, "f:rollingUpdate": {".": {}, "f:maxSurge": {}}},
        }
    }


def test_owner_references_are_owned_as_one_value_each() -> None:
    reference = {"apiVersion": "v1", "kind": "K", "name": "n", "uid": "x"}
    obj = configmap(None, ownerReferences=[reference], finalizers=["a/b"])
    CONFIGMAPS.update(None, obj, manager="m", api_version="v1", now=EARLY)
    assert owners(obj)["m"]["f:metadata"] == {
        "f:ownerReferences": {".": {}, 'k:{"uid":"x"}': {}},
        "f:finalizers": {".": {}, 'v:"a/b"': {}},
    }


def test_a_built_in_struct_emptied_by_an_apply_is_absent() -> None:
    pod: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    first = {**pod, "spec": {"securityContext": {"runAsUser": 1}}}
    options: Json = {"manager": "m", "api_version": "v1", "now": EARLY}
    live = PODS.apply(None, first, **options)
    result = PODS.apply(live, {**pod, "spec": {"securityContext": {}}}, **options)
    assert "securityContext" not in result["spec"]


def test_times_alone_are_no_change() -> None:
    live = created({"k": "1"})
    new = copy.deepcopy(live)
    new["metadata"]["managedFields"][0]["time"] = LATE
    new["metadata"]["resourceVersion"] = "7"
    assert restore_times(live, new)
    assert entries(new)[0]["time"] == EARLY


@pytest.mark.parametrize(
    "change",
    [
        lambda new: new["data"].update(k="2"),
        lambda new: new["metadata"].update(labels={"a": "b"}),
        lambda new: new["metadata"]["managedFields"][0].update(manager="other"),
        lambda new: new["metadata"].pop("managedFields"),
        lambda new: new["metadata"]["managedFields"].append({}),
    ],
)
def test_anything_else_is_a_change(change: Any) -> None:
    live = created({"k": "1"})
    new = copy.deepcopy(live)
    change(new)
    assert not restore_times(live, new)


def test_an_unknown_version_of_the_request_is_an_error() -> None:
    def no_model(_: str) -> TypeModel | None:
        return None

    config = configmap({})
    error = failure(FieldManager(no_model).apply, None, config, manager="m", api_version="v1", now=EARLY)
    assert error.code == 500


NAMES = st.sampled_from("abc")
SPEC = st.fixed_dictionaries(
    {},
    optional={
        "num": st.integers(0, 2),
        "set": st.lists(NAMES, unique=True, min_size=1, max_size=3),
        "list": st.lists(
            st.fixed_dictionaries({"name": NAMES}, optional={"value": st.integers(0, 2)}),
            unique_by=lambda item: item["name"],
            min_size=1,
            max_size=3,
        ),
        "plain": st.lists(NAMES, max_size=2),
        "free": st.dictionaries(
            NAMES, st.dictionaries(NAMES, st.integers(0, 1), min_size=1, max_size=1), min_size=1, max_size=2
        ),
    },
)
STEP = st.tuples(st.sampled_from(["apply", "update"]), st.sampled_from(["m1", "m2"]), SPEC)


@settings(max_examples=60)
@given(st.lists(STEP, min_size=1, max_size=4), SPEC)
def test_applying_twice_is_applying_once(history: list[tuple[str, str, Json]], last: Json) -> None:
    model = custom_model(
        struct(
            spec=struct(
                num=INTEGER,
                set=setlist(STRING),
                list=keyed("name", name=STRING, value=INTEGER),
                plain=listing(STRING),
                free=FREE,
            )
        )
    )
    fields = FieldManager(lambda _: model)
    live: Json | None = None
    version = f"{GROUP}/v1"
    head: Json = {"apiVersion": version, "kind": "T", "metadata": {"name": "o", "uid": "u"}}
    for verb, manager, spec in [*history, ("apply", "m1", last)]:
        obj = copy.deepcopy({**head, "spec": spec})
        if verb == "apply":
            live = fields.apply(live, obj, manager=manager, api_version=version, force=True, now=EARLY)
        else:
            fields.update(live, obj, manager=manager, api_version=version, now=EARLY)
            live = obj
    config = {**head, "spec": last}
    assert fields.apply(live, config, manager="m1", api_version=version, now=LATE) == live


def test_fields_are_listed_in_order_whatever_a_client_sent_first() -> None:
    obj = created({"b": "1", "a": "1"})
    obj = updated(obj, configmap({"b": "1", "a": "1", "d": "1"}, uid="u"))
    obj = updated(obj, configmap({"b": "1", "a": "1", "d": "1", "c": "1"}, uid="u"))
    obj = applied(obj, configmap({"f": "1", "e": "1"}))
    listed = {each["manager"]: list(each["fieldsV1"]["f:data"]) for each in obj["metadata"]["managedFields"]}
    assert listed == {
        "creator": [".", "f:a", "f:b"],
        "updater": ["f:c", "f:d"],
        "applier": ["f:e", "f:f"],
    }
