"""Conditions, owners, finalizers, names, kinds."""

import pytest

from quarterdeck.api import (
    GroupVersionKind,
    Key,
    ObjectMeta,
    Scheme,
    Time,
    controller_of,
    is_controlled_by,
    set_controller_reference,
)
from quarterdeck.api.childname import child_name
from quarterdeck.api.condition import Conditions, find_condition, is_condition_false, is_condition_true
from quarterdeck.api.finalizer import add_finalizer, finalizer_patch, has_finalizer, remove_finalizer
from quarterdeck.api.k8s import ConfigMap, Node, Pod, k8s_scheme
from quarterdeck.api.kind import GroupVersionResource
from quarterdeck.api.label import (
    check_dns1035_label,
    check_dns1123_label,
    check_dns1123_subdomain,
    check_label_value,
    check_qualified_name,
)
from quarterdeck.api.owner import remove_owner_reference, set_owner_reference
from quarterdeck.errors import AlreadyOwned

from .widget import Widget, WidgetSpec

NOW = Time("2024-01-01T00:00:00Z")
LATER = Time("2024-01-01T00:01:00Z")


def test_new_condition_is_appended_with_the_time() -> None:
    conditions = Conditions()
    assert conditions.set("Ready", "False", reason="Starting", now=NOW)
    assert conditions.frozen()[0].last_transition_time == NOW


def test_transition_time_moves_only_with_the_status() -> None:
    conditions = Conditions()
    conditions.set("Ready", False, reason="Starting", now=NOW)
    assert conditions.set("Ready", False, reason="StillStarting", message="m", now=LATER)
    assert conditions.find("Ready").last_transition_time == NOW
    assert conditions.set("Ready", True, reason="Up", now=LATER)
    assert conditions.find("Ready").last_transition_time == LATER


def test_equal_condition_changes_nothing() -> None:
    conditions = Conditions()
    conditions.set("Ready", True, reason="Up", now=NOW, observed_generation=3)
    assert not conditions.set("Ready", True, reason="Up", now=LATER, observed_generation=3)
    assert not conditions.set("Ready", True, reason="Up", now=LATER)
    assert conditions.set("Ready", True, reason="Up", now=LATER, observed_generation=4)


def test_order_of_conditions_is_kept() -> None:
    conditions = Conditions()
    for name in ("B", "A", "C"):
        conditions.set(name, True, reason="X", now=NOW)
    conditions.set("B", False, reason="Y", now=NOW)
    assert [condition.type for condition in conditions] == ["B", "A", "C"]
    assert conditions.remove("A")
    assert not conditions.remove("A")
    assert len(conditions) == 2
    assert is_condition_false(conditions.frozen(), "B")
    assert is_condition_true(conditions.frozen(), "C")
    assert conditions.is_true("C")
    assert conditions.is_false("B")
    assert not is_condition_false(conditions.frozen(), "Missing")
    assert find_condition(conditions.frozen(), "Missing") is None


@pytest.mark.parametrize(
    "arguments",
    [
        {"type": "", "status": "True", "reason": "X"},
        {"type": "A" * 317, "status": "True", "reason": "X"},
        {"type": "A", "status": "Maybe", "reason": "X"},
        {"type": "A", "status": "True", "reason": ""},
        {"type": "A", "status": "True", "reason": "has space"},
        {"type": "A", "status": "True", "reason": "X", "message": "m" * 32769},
    ],
)
def test_conditions_the_server_would_refuse_are_refused(arguments: dict[str, str]) -> None:
    with pytest.raises(ValueError):
        Conditions().set(now=NOW, **arguments)  # type: ignore[arg-type]


def owner(name: str = "o", namespace: str = "n", uid: str = "u1") -> Widget:
    return Widget(metadata=ObjectMeta(name=name, namespace=namespace, uid=uid), spec=WidgetSpec(image="i"))


def test_controller_reference_carries_both_flags() -> None:
    reference = set_controller_reference(owner(), ObjectMeta(name="c", namespace="n")).owner_references[0]
    assert (reference.controller, reference.block_owner_deletion) == (True, True)
    assert (reference.api_version, reference.kind, reference.name, reference.uid) == (
        "example.io/v1",
        "Widget",
        "o",
        "u1",
    )


def test_plain_reference_omits_both_flags() -> None:
    meta = set_owner_reference(owner(), ObjectMeta(name="c", namespace="n"))
    assert "controller" not in Pod(metadata=meta).to_dict()["metadata"]["ownerReferences"][0]
    assert controller_of(meta.owner_references) is None


def test_same_owner_is_replaced_in_place_whatever_the_version() -> None:
    meta = set_controller_reference(owner(uid="old"), ObjectMeta(name="c", namespace="n"))
    newer = owner(uid="new").evolve(api_version="example.io/v2")
    again = set_controller_reference(newer, meta)
    assert [r.uid for r in again.owner_references] == ["new"]
    assert is_controlled_by(newer, again)


def test_second_controller_is_refused() -> None:
    meta = set_controller_reference(owner("a"), ObjectMeta(name="c", namespace="n"))
    with pytest.raises(AlreadyOwned, match="Object n/c is already owned by another Widget controller a"):
        set_controller_reference(owner("b"), meta)
    assert len(set_owner_reference(owner("b"), meta).owner_references) == 2


def test_scope_rules_of_owners() -> None:
    with pytest.raises(ValueError, match="cluster-scoped resource must not have a namespace-scoped owner"):
        set_owner_reference(owner(), ObjectMeta(name="c"))
    with pytest.raises(ValueError, match="owner's namespace n, obj's namespace m"):
        set_owner_reference(owner(), ObjectMeta(name="c", namespace="m"))
    node = Node(metadata=ObjectMeta(name="node", uid="u"))
    assert set_owner_reference(node, ObjectMeta(name="c", namespace="m")).owner_references


def test_owner_reference_is_removed() -> None:
    meta = set_owner_reference(owner(), ObjectMeta(name="c", namespace="n"))
    assert remove_owner_reference(owner(), meta).owner_references == ()
    assert remove_owner_reference(owner("other"), meta) is meta


def test_finalizers_change_once() -> None:
    meta = ObjectMeta(name="a", resource_version="7")
    added = add_finalizer(meta, "x/y")
    assert has_finalizer(added, "x/y")
    assert add_finalizer(added, "x/y") is added
    assert remove_finalizer(added, "x/y").finalizers == ()
    assert remove_finalizer(meta, "x/y") is meta


def test_finalizer_patches_test_what_they_start_from() -> None:
    meta = ObjectMeta(name="a", resource_version="7")
    one, two = add_finalizer(meta, "x"), add_finalizer(add_finalizer(meta, "x"), "y")
    assert finalizer_patch(meta, one) == [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "add", "path": "/metadata/finalizers", "value": ["x"]},
    ]
    assert finalizer_patch(two, one)[0] == {"op": "test", "path": "/metadata/finalizers", "value": ["x", "y"]}
    assert finalizer_patch(one, meta)[1] == {"op": "remove", "path": "/metadata/finalizers"}
    assert finalizer_patch(one, one) == []


def test_child_names_fit_and_differ() -> None:
    assert child_name("web", "0") == "web-0"
    long = child_name("a" * 70, "0")
    assert len(long) == 63
    assert long == child_name("a" * 70, "0")
    assert long != child_name("a" * 70, "1")
    assert child_name("a" * 70, "b-c") != child_name("a" * 70 + "-b", "c")
    assert not check_dns1123_label(long)


def test_names_are_checked_in_the_server_words() -> None:
    assert not check_dns1123_subdomain("a.b-c.d")
    assert check_dns1123_label("a.b") == ["must not contain dots"]
    assert "lowercase RFC 1123 label" in check_dns1123_label("A")[0]
    assert "must be no more than 63 bytes" in check_dns1123_label("a" * 64)
    assert "RFC 1123 subdomain" in check_dns1123_subdomain("-")[0]
    assert "DNS-1035" in check_dns1035_label("1a")[0]
    assert not check_qualified_name("example.com/MyName")
    assert "prefix part must be non-empty" in check_qualified_name("/x")
    assert "name part must be non-empty" in check_qualified_name("a/")
    assert not check_label_value("")
    assert check_label_value("é" * 32)[0] == "must be no more than 63 bytes"


def test_kinds_and_keys_print_as_the_api_writes_them() -> None:
    gvk = GroupVersionKind.parse("apps/v1", "Deployment")
    assert str(gvk) == "apps/v1, Kind=Deployment"
    assert gvk.group_version.group == "apps"
    assert str(gvk.group_kind) == "Deployment.apps"
    assert GroupVersionResource("", "v1", "pods").prefix == "/api/v1"
    assert GroupVersionResource("apps", "v1", "deployments").prefix == "/apis/apps/v1"
    assert str(Key("n", "a")) == "n/a"
    assert str(Key.parse("a")) == "a"
    assert str(Key("n", "a", "c")) == "c:n/a"


def test_scheme_finds_classes_and_falls_back_to_dynamic() -> None:
    scheme = Scheme([Widget, ConfigMap])
    assert isinstance(scheme.decode(owner().to_bytes()), Widget)
    assert scheme.decode(b'{"apiVersion":"v1","kind":"Pod"}').kind == "Pod"
    assert not isinstance(scheme.decode(b'{"apiVersion":"v1","kind":"Pod"}'), Pod)
    assert Widget.type_info.gvk in scheme
    assert scheme.versions(Widget.type_info.gvk.group_kind) == (Widget,)


def test_scheme_refuses_a_second_class_for_a_kind() -> None:
    scheme = k8s_scheme()
    scheme.add(Pod)

    class Other(Pod, version="v1", kind="Pod"):
        pass

    with pytest.raises(ValueError, match="already registered"):
        scheme.add(Other)
