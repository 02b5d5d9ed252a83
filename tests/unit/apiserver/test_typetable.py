"""The table of built-in types: what patches, apply and decoding rely on."""

from __future__ import annotations

import msgspec
import pytest

from quarterdeck.apiserver.document import typetable
from quarterdeck.apiserver.document.typetable import Field, StructType, struct, struct_for


def field_at(known: StructType, *path: str) -> Field:
    """The field at a path of JSON names, through lists and maps."""
    for name in path[:-1]:
        inner = known.fields[name].type
        known = (inner.elem or inner).struct
    return known.fields[path[-1]]


def test_a_kind_is_found_by_group_version_kind() -> None:
    assert struct_for("apps", "v1", "Deployment") is struct("io.k8s.api.apps.v1.Deployment")
    assert struct_for("", "v1", "Status").go_name == "Status"


def test_options_are_found_in_every_group_version() -> None:
    assert struct_for("example.com", "v1", "DeleteOptions") is struct_for("", "v1", "DeleteOptions")


def test_an_unknown_kind_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        struct_for("apps", "v1beta1", "Deployment")


def test_a_keyed_list_has_its_keys_and_merge_key() -> None:
    ports = field_at(struct_for("", "v1", "Service"), "spec", "ports")
    assert (ports.list_type, ports.list_map_keys) == ("map", ("port", "protocol"))
    assert (ports.patch_strategies, ports.patch_merge_key) == (("merge",), "port")
    assert field_at(struct_for("", "v1", "Service"), "spec", "ports", "protocol").default == "TCP"


def test_several_patch_strategies_are_kept() -> None:
    volumes = field_at(struct_for("", "v1", "Pod"), "spec", "volumes")
    assert volumes.patch_strategies == ("merge", "retainKeys")


def test_a_set_and_an_atomic_struct() -> None:
    assert struct(typetable.OBJECT_META).fields["finalizers"].list_type == "set"
    assert struct("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector").is_atomic
    assert field_at(struct_for("", "v1", "PersistentVolume"), "spec", "claimRef").map_type == "granular"


def test_embedded_structs_are_flattened_with_their_protobuf_path() -> None:
    volume = struct("io.k8s.api.core.v1.Volume")
    assert list(volume.fields)[:2] == ["name", "hostPath"]
    assert volume.fields["emptyDir"].path == (2, 2)
    inner = volume.proto[2]
    assert not isinstance(inner, Field)
    assert inner[2] is volume.fields["emptyDir"]


def test_type_meta_is_not_encoded() -> None:
    pod = struct_for("", "v1", "Pod")
    assert pod.fields["kind"].path == ()
    assert pod.proto[1] is pod.fields["metadata"]


def test_go_types_read_as_decode_errors_print_them() -> None:
    pod = struct_for("", "v1", "Pod")
    assert field_at(pod, "spec", "containers").go_type == "[]v1.Container"
    assert field_at(pod, "spec", "restartPolicy").go_type == "v1.RestartPolicy"
    assert field_at(pod, "spec", "overhead").go_type == "v1.ResourceList"
    assert field_at(pod, "metadata", "labels").go_type == "map[string]string"


def test_defaults_are_those_of_openapi() -> None:
    pod = struct_for("", "v1", "Pod")
    assert field_at(pod, "spec", "containers", "name").default == ""
    assert field_at(pod, "spec", "containers", "image").default is msgspec.UNSET
    assert field_at(pod, "spec", "containers", "resources").default == {}
    assert field_at(pod, "spec", "securityContext").default is msgspec.UNSET


def test_fields_cannot_be_changed() -> None:
    pod = struct_for("", "v1", "Pod")
    with pytest.raises(AttributeError):
        pod.fields["spec"].name = "x"  # type: ignore[misc]
    with pytest.raises(TypeError):
        pod.fields["x"] = pod.fields["spec"]  # type: ignore[index]


def test_every_type_loads_and_refers_only_to_known_ones() -> None:
    for name in typetable.names():
        for field in struct(name).fields.values():
            inner = field.type.elem or field.type
            if inner.kind == "struct":
                assert inner.struct.name == inner.name
            # What the protobuf decoder relies on.
            assert field.type.kind != "map" or inner.kind not in ("bool", "int32", "int64", "double")


def test_openapi_schema_of_a_kind() -> None:
    assert typetable.openapi("io.k8s.api.core.v1.ServicePort", "", "v1") == {
        "type": "object",
        "required": ["port"],
        "properties": {
            "appProtocol": {"type": "string"},
            "name": {"type": "string"},
            "nodePort": {"type": "integer", "format": "int32"},
            "port": {"type": "integer", "format": "int32", "default": 0},
            "protocol": {"type": "string", "default": "TCP", "enum": ["SCTP", "TCP", "UDP"]},
            "targetPort": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.util.intstr.IntOrString"},
        },
    }


def test_openapi_names_the_documents_group_version_for_options() -> None:
    name = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
    assert typetable.openapi(name, "apps", "v1")["x-kubernetes-group-version-kind"] == [
        {"group": "", "kind": "DeleteOptions", "version": "v1"},
        {"group": "apps", "kind": "DeleteOptions", "version": "v1"},
    ]
