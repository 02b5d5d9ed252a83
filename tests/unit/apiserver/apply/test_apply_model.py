"""Type models: what the built-in table and schemas say, and what is compiled when."""

from typing import Any

import pytest

from quarterdeck.apiserver.apply import builtin_model, custom_model, resetfields
from quarterdeck.apiserver.apply import model as models
from quarterdeck.apiserver.apply.typed import AnyType, ListType, MapType, Type
from quarterdeck.apiserver.document import typetable

from .apply_scenario import STRING, struct


def at(type_: Type, *names: str) -> Type:
    for name in names:
        if isinstance(type_, ListType):
            type_ = type_.element
        assert isinstance(type_, MapType)
        entry = type_.resolve(name)
        assert entry is not None, name
        type_ = entry[1]
    return type_


POD = builtin_model("", "v1", "Pod").root


@pytest.mark.parametrize(
    ("path", "keys"),
    [
        ("spec.containers", ("name",)),
        ("spec.containers.ports", ("containerPort", "protocol")),
        ("spec.topologySpreadConstraints", ("topologyKey", "whenUnsatisfiable")),
        ("metadata.ownerReferences", ("uid",)),
        ("metadata.finalizers", ()),
        ("status.conditions", ("type",)),
    ],
)
def test_associative_lists_of_built_in_types(path: str, keys: tuple[str, ...]) -> None:
    type_ = at(POD, *path.split("."))
    assert isinstance(type_, ListType)
    assert (type_.is_leaf, type_.keys) == (False, keys)


@pytest.mark.parametrize(
    "path", ["spec.tolerations", "spec.nodeSelector", "spec.containers.command", "spec.nodeName"]
)
def test_single_values_of_built_in_types(path: str) -> None:
    assert at(POD, *path.split(".")).is_leaf


def test_a_field_can_override_whether_a_struct_is_one_value() -> None:
    reference = typetable.struct("io.k8s.api.core.v1.ObjectReference")
    claim = at(builtin_model("", "v1", "PersistentVolume").root, "spec", "claimRef")
    assert reference.is_atomic
    assert not claim.is_leaf


def test_fields_are_compiled_when_they_are_met() -> None:
    model = custom_model(struct(spec=struct(a=STRING, b=STRING)))
    assert model.root.plan == {}
    model.root.resolve("spec")
    assert list(model.root.plan) == ["spec"]


def test_recursive_types_are_no_trouble() -> None:
    root = builtin_model("apiextensions.k8s.io", "v1", "CustomResourceDefinition").root
    schema = at(root, "spec", "versions", "schema", "openAPIV3Schema")
    assert isinstance(schema, MapType)
    assert at(schema, "not") is schema


def test_keys_take_their_defaults_from_the_item_type() -> None:
    ports = at(POD, "spec", "containers", "ports")
    assert isinstance(ports, ListType)
    assert ports.element_of({"containerPort": 80}) == 'k:{"containerPort":80,"protocol":"TCP"}'
    assert ports.element_of({"protocol": "UDP"}) == 'k:{"containerPort":0,"protocol":"UDP"}'


@pytest.mark.parametrize(
    ("group", "version", "kind", "zero"),
    [
        ("", "v1", "ConfigMap", {"metadata": {}}),
        ("", "v1", "Pod", {"metadata": {}, "spec": {"containers": None}, "status": {}}),
        ("", "v1", "Service", {"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}}),
        ("rbac.authorization.k8s.io", "v1", "Role", {"metadata": {}, "rules": None}),
    ],
)
def test_the_object_before_the_first_write(group: str, version: str, kind: str, zero: dict[str, Any]) -> None:
    assert builtin_model(group, version, kind).zero == zero


def _holds_untyped(type_: typetable.Type, seen: set[str]) -> bool:
    if type_.elem is not None:
        return _holds_untyped(type_.elem, seen)
    if type_.kind != "struct":
        return type_.kind in ("json", "rawExtension", "schemaOrArray", "schemaOrBool", "schemaOrStrings")
    if type_.name in seen:
        return False
    seen.add(type_.name)
    fields = type_.struct.fields.items()
    return any(_holds_untyped(field.type, seen) for name, field in fields if name != "managedFields")


def test_kinds_that_hold_values_of_any_type_are_known() -> None:
    for name in typetable.names():
        struct_type = typetable.struct(name)
        if "metadata" not in struct_type.fields or struct_type.go_name.endswith("List"):
            continue
        group = _group_of(name)
        if group is None or not _holds_untyped(typetable.Type("struct", name), set()):
            continue
        model = builtin_model(group, name.split(".")[-2], struct_type.go_name)
        assert model.is_loose, name


def _group_of(name: str) -> str | None:
    """The group of a kind, from the groups that hold values of any type; None if it is no kind."""
    for group in (
        "",
        "apps",
        "batch",
        "apiextensions.k8s.io",
        "resource.k8s.io",
        "admissionregistration.k8s.io",
    ):
        version, kind = name.split(".")[-2:]
        try:
            if typetable.struct_for(group, version, kind).name == name:
                return group
        except KeyError:
            continue
    return None


def test_custom_resources_have_the_usual_metadata() -> None:
    root = custom_model(struct(spec=struct(x=STRING))).root
    assert at(root, "metadata") is models.object_meta()
    assert at(root, "apiVersion").is_leaf


def test_a_schema_without_fields_is_free() -> None:
    root = custom_model({"type": "object", "x-kubernetes-preserve-unknown-fields": True}).root
    assert isinstance(root.element, AnyType)


@pytest.mark.parametrize(
    ("schema", "is_loose"),
    [
        (struct(x=STRING), False),
        ({"type": "object"}, True),
        (struct(x={"x-kubernetes-int-or-string": True}), True),
        (struct(x={"type": "array", "items": {"type": "object"}}), True),
        ({"type": "object", "additionalProperties": STRING}, False),
        ({"type": "object", "additionalProperties": True}, True),
    ],
)
def test_schemas_with_values_of_any_type_are_known(schema: dict[str, Any], is_loose: bool) -> None:
    assert custom_model(struct(spec=schema, metadata={"type": "object"})).is_loose is is_loose


def test_reset_fields() -> None:
    assert resetfields.builtin("", "ConfigMap", has_status=False) == {}
    assert resetfields.builtin("batch", "Job", has_status=True) == {
        "": {"f:status": {}},
        "status": {"f:spec": {}},
    }
    assert resetfields.builtin("storage.k8s.io", "VolumeAttachment", has_status=True)["status"] == {
        "f:spec": {},
        "f:metadata": {},
    }
    assert resetfields.custom_resource(has_status=False) == {}
    assert resetfields.custom_resource(has_status=True)["status"] == {"f:spec": {}, "f:metadata": {}}
    assert set(resetfields.builtin("", "Pod", has_status=True)) == {"", "status"}
