"""Typed objects: frozen, nothing lost, defaults by the rules."""

import copy
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.api import UNSET, Condition, ObjectMeta, Resource, Time, decode, encode, value_or
from quarterdeck.api.frozen import FrozenMap, thaw
from quarterdeck.api.k8s import Container, Pod, PodSpec
from quarterdeck.api.naming import to_python, to_wire
from quarterdeck.errors import SchemaError

from .widget import Part, Widget, WidgetSpec, WidgetStatus

MINIMAL: dict[str, Any] = {
    "apiVersion": "example.io/v1",
    "kind": "Widget",
    "metadata": {"name": "a", "namespace": "n"},
    "spec": {"image": "i", "replicas": 1, "suspend": False},
}


def widget(**spec: Any) -> Widget:
    return Widget.from_dict({**MINIMAL, "spec": {**MINIMAL["spec"], **spec}})


def test_document_survives_a_round_trip() -> None:
    assert widget().to_dict() == MINIMAL


def test_type_header_comes_first_on_the_wire() -> None:
    made = Widget(metadata=ObjectMeta(name="a"), spec=WidgetSpec(image="i"))
    assert list(made.to_dict()) == ["apiVersion", "kind", "metadata", "spec"]
    assert made.api_version == "example.io/v1"


def test_literal_defaults_are_written_out() -> None:
    assert WidgetSpec(image="i").replicas == 1
    assert json.loads(encode(WidgetSpec(image="i"))) == {"image": "i", "replicas": 1, "suspend": False}


def test_unset_null_and_value_differ() -> None:
    assert widget().spec.nullable is UNSET
    assert widget(nullable=None).spec.nullable is None
    assert "nullable" not in widget().to_dict()["spec"]
    assert widget(nullable=None).to_dict()["spec"]["nullable"] is None


def test_unset_is_falsy_and_value_or_keeps_zero() -> None:
    assert not UNSET
    assert value_or(UNSET, 3) == 3
    assert value_or(0, 3) == 0


def test_wire_name_may_break_the_rule() -> None:
    assert widget(storageUri="s3://x").spec.storage_uri == "s3://x"


@pytest.mark.parametrize(
    ("python", "wire"),
    [
        ("pod_ip", "podIP"),
        ("pod_ips", "podIPs"),
        ("uid", "uid"),
        ("parent_uid", "parentUID"),
        ("non_resource_urls", "nonResourceURLs"),
        ("fields_v1", "fieldsV1"),
        ("host_pid", "hostPID"),
        ("from_", "from"),
    ],
)
def test_names_map_both_ways(python: str, wire: str) -> None:
    assert to_wire(python) == wire
    assert to_python(wire) == python


def test_wrong_type_names_the_path() -> None:
    with pytest.raises(SchemaError) as caught:
        widget(parts=[{"name": "x", "size": "big"}])
    assert caught.value.path == "spec.parts[0].size"


def test_wrong_type_beside_an_unknown_field_still_names_the_path() -> None:
    with pytest.raises(SchemaError) as caught:
        widget(other=1, replicas="two")
    assert caught.value.path == "spec.replicas"


def test_broken_json_is_a_schema_error() -> None:
    with pytest.raises(SchemaError, match="not JSON"):
        Widget.from_bytes(b'{"spec":')


def every_mutation(obj: Any) -> list[Any]:
    return [
        lambda: setattr(obj, "spec", None),
        lambda: setattr(obj.spec, "image", "x"),
        lambda: obj.metadata.labels.__setitem__("a", "b"),
        lambda: obj.metadata.labels.update(a="b"),
        lambda: obj.metadata.labels.pop("a"),
        lambda: obj.metadata.labels.clear(),
        lambda: obj.metadata.labels.setdefault("z", "y"),
        lambda: obj.metadata.labels.__delitem__("a"),
        lambda: obj.metadata.labels.popitem(),
        lambda: obj.metadata.labels.__ior__({"a": "b"}),
        lambda: obj.spec.parts.append(1),
        lambda: obj.spec.parts.__setitem__(0, 1),
        lambda: obj.spec.config.__setitem__("a", 1),
        lambda: obj.spec.config["list"].append(1),
        lambda: obj.spec.config["map"].update(a=1),
        lambda: obj.unknown_fields.__setitem__("x", 1),
    ]


@pytest.mark.parametrize("index", range(16))
def test_every_mutation_of_a_decoded_object_raises(index: int) -> None:
    obj = Widget.from_dict(
        {
            **MINIMAL,
            "metadata": {"name": "a", "labels": {"a": "1"}},
            "spec": {
                **MINIMAL["spec"],
                "parts": [{"name": "p"}],
                "config": {"list": [1], "map": {}, "a": 0},
            },
            "strange": 1,
        }
    )
    before = obj.to_bytes()
    with pytest.raises((TypeError, AttributeError)):
        every_mutation(obj)[index]()
    assert obj.to_bytes() == before


def test_constructed_equals_decoded() -> None:
    made = Widget(
        metadata=ObjectMeta(name="a", namespace="n", labels={"x": "y"}),
        spec=WidgetSpec(image="i", parts=[Part(name="p")], config={"a": [1, {"b": None}]}),
    )
    assert decode(made.to_bytes(), Widget) == made


def test_containers_given_by_hand_are_frozen() -> None:
    labels = {"a": "b"}
    meta = ObjectMeta(labels=labels)
    labels["a"] = "changed"
    assert meta.labels == {"a": "b"}
    assert isinstance(meta.labels, FrozenMap)


def test_frozen_values_hash_copy_and_pickle() -> None:
    meta = ObjectMeta(name="a", labels={"a": "b"})
    assert hash(meta) == hash(ObjectMeta(name="a", labels={"a": "b"}))
    assert copy.copy(meta) == meta
    assert pickle.loads(pickle.dumps(widget(parts=[{"name": "p", "tags": {"a": "b"}}]))).spec.parts[
        0
    ].tags == {"a": "b"}


def test_evolve_shares_what_it_does_not_change() -> None:
    before = widget(parts=[{"name": "p"}])
    after = before.evolve(metadata=before.metadata.evolve(name="b"))
    assert after.spec is before.spec
    assert before.metadata.name == "a"
    assert after.metadata.name == "b"


def test_untouched_draft_gives_back_the_object() -> None:
    obj = widget(parts=[{"name": "p", "tags": {"a": "b"}}], config={"a": [1]})
    draft = obj.draft()
    assert draft.spec.parts[0].tags["a"] == "b"
    assert draft.spec.config["a"] == [1]
    assert draft.done() is obj


def test_draft_changes_deep_inside_and_shares_the_rest() -> None:
    obj = widget(parts=[{"name": "p"}, {"name": "q", "size": 2}], config={"a": [1]})
    draft = obj.draft()
    draft.spec.parts[0].size = 7
    draft.spec.config["a"].append(2)
    draft.metadata.labels["x"] = "y"
    done = draft.done()
    assert done.spec.parts[0].size == 7
    assert done.spec.parts[1] is obj.spec.parts[1]
    assert done.spec.config == {"a": [1, 2]}
    assert done.metadata.labels == {"x": "y"}
    assert obj.spec.parts[0].size is UNSET
    assert obj.spec.config == {"a": [1]}


def test_draft_refuses_names_the_class_does_not_have() -> None:
    with pytest.raises(AttributeError, match="replica"):
        widget().draft().spec.replica = 3


def test_draft_result_is_frozen_again() -> None:
    draft = widget().draft()
    draft.spec.parts = [Part(name="x", tags={"a": "b"})]
    done = draft.done()
    assert isinstance(done.spec.parts, tuple)
    assert isinstance(done.spec.parts[0].tags, FrozenMap)


def test_unknown_fields_survive_a_change_elsewhere() -> None:
    document = {
        **MINIMAL,
        "top": {"x": [1]},
        "metadata": {"name": "a", "futureField": {"y": 2}},
        "spec": {
            **MINIMAL["spec"],
            "extra": True,
            "parts": [{"name": "p", "shade": "red"}, {"name": "q"}],
            "byName": {"z": {"name": "z", "shade": "blue"}},
        },
        "status": {"conditions": [{"type": "Ready", "status": "True", "severity": "low"}]},
    }
    draft = Widget.from_dict(document).draft()
    draft.spec.replicas = 5
    draft.spec.parts.reverse()
    draft.spec.parts[1].size = 3
    draft.spec.by_name["z"].size = 1
    result = draft.done().to_dict()
    assert result["top"] == {"x": [1]}
    assert result["metadata"]["futureField"] == {"y": 2}
    assert result["spec"]["extra"] is True
    assert result["spec"]["parts"] == [{"name": "q"}, {"name": "p", "shade": "red", "size": 3}]
    assert result["spec"]["byName"]["z"] == {"name": "z", "shade": "blue", "size": 1}
    assert result["status"]["conditions"][0]["severity"] == "low"


def test_unknown_fields_travel_with_a_copied_part() -> None:
    part = widget(parts=[{"name": "p", "shade": "red"}]).spec.parts[0]
    other = Widget(metadata=ObjectMeta(name="b"), spec=WidgetSpec(image="i", main=part))
    assert other.to_dict()["spec"]["main"] == {"name": "p", "shade": "red"}


def test_nulls_the_class_does_not_allow_survive_and_give_way_to_values() -> None:
    obj = widget(note=None)
    assert obj.spec.note is UNSET
    assert obj.to_dict()["spec"]["note"] is None
    assert obj.evolve(spec=obj.spec.evolve(note="x")).to_dict()["spec"]["note"] == "x"


def test_times_a_go_server_writes_as_null_stay_null() -> None:
    raw = b'{"status":{"conditions":[{"type":"Ready","status":"True","lastProbeTime":null}]}}'
    pod = Pod.from_bytes(raw)
    assert pod.status.conditions[0].last_probe_time is None
    assert not pod.status.conditions[0].last_probe_time
    assert pod.to_dict()["status"]["conditions"][0]["lastProbeTime"] is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
unknown_names = st.text("abcdefgh", min_size=1, max_size=4).map(lambda name: f"x{name}")
unknown = st.dictionaries(unknown_names, json_values, max_size=3)
parts = st.builds(
    lambda name, extra: {"name": name, **extra}, st.text("abc", min_size=1, max_size=3), unknown
)


@given(top=unknown, meta=unknown, spec=unknown, items=st.lists(parts, max_size=4), replicas=st.integers(0, 9))
def test_unknown_fields_survive_at_every_depth(
    top: dict[str, Any],
    meta: dict[str, Any],
    spec: dict[str, Any],
    items: list[dict[str, Any]],
    replicas: int,
) -> None:
    document = {
        **MINIMAL,
        **top,
        "metadata": {"name": "a", **meta},
        "spec": {**MINIMAL["spec"], **spec, "parts": items} if items else {**MINIMAL["spec"], **spec},
    }
    draft = Widget.from_dict(document).draft()
    draft.spec.replicas = replicas
    result = draft.done().to_dict()
    expected = copy.deepcopy(document)
    expected["spec"]["replicas"] = replicas
    assert result == expected


@given(json_values)
def test_free_form_fields_keep_their_json(value: Any) -> None:
    obj = widget(config=value)
    assert obj.to_dict()["spec"]["config"] == value
    assert thaw(obj.spec.config) == value
    assert Widget.from_dict(obj.to_dict()) == obj


def test_plural_and_list_kind_are_derived() -> None:
    class Policy(Resource, group="g.io", version="v1"):
        pass

    class Switch(Resource, group="g.io", version="v1", kind="NetworkSwitch", scope="Cluster"):
        pass

    assert Policy.type_info.plural == "policies"
    assert Policy.type_info.list_kind == "PolicyList"
    assert Switch.type_info.plural == "networkswitches"
    assert not Switch.type_info.is_namespaced


def test_unknown_class_keyword_is_refused() -> None:
    with pytest.raises(TypeError):

        class Bad(Resource, grup="g", version="v1"):
            pass


def test_key_and_gvk_come_from_the_object() -> None:
    assert str(widget().key) == "n/a"
    assert str(widget().gvk) == "example.io/v1, Kind=Widget"


def test_apply_configuration_carries_only_what_was_set() -> None:
    pod = Pod(metadata=ObjectMeta(name="p"), spec=PodSpec(containers=[Container(name="c", image="i")]))
    assert pod.to_dict() == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }


def test_values_keep_their_text() -> None:
    document = widget(limits={"cpu": "1000m", "x": 2}, since="2024-01-01T02:00:00.5+02:00").to_dict()
    assert document["spec"]["limits"] == {"cpu": "1000m", "x": 2}
    assert document["spec"]["since"] == "2024-01-01T02:00:00.5+02:00"


def test_status_default_is_not_written_but_an_explicit_one_is() -> None:
    assert "status" not in widget().to_dict()
    explicit = Widget.from_dict({**MINIMAL, "status": {"ready": 0}})
    assert explicit.to_dict()["status"] == {"ready": 0}
    assert WidgetStatus() == explicit.status


def test_condition_message_is_always_written() -> None:
    condition = Condition(
        type="Ready", status="True", reason="R", last_transition_time=Time("2024-01-01T00:00:00Z")
    )
    assert json.loads(encode(condition))["message"] == ""
