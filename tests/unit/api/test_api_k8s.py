"""The built-in kinds agree with the type tables of the API server."""

import json
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from msgspec import UnsetType

from quarterdeck.api import Duration, ObjectMeta, Quantity, Resource, Time, decode, encode
from quarterdeck.api.instant import MicroTime
from quarterdeck.api.intorstring import IntOrString
from quarterdeck.api.k8s import Deployment, Pod, Secret, k8s_scheme
from quarterdeck.api.k8s.admission import AdmissionReview, ConversionReview
from quarterdeck.api.model import UNKNOWN_KEY, JsonField, JsonObjectField
from quarterdeck.apiserver.document import typetable

KINDS = tuple(k8s_scheme())
SCALARS = {
    str: {"string"},
    bool: {"bool"},
    int: {"int32", "int64"},
    float: {"double"},
    bytes: {"bytes"},
    Time: {"time"},
    MicroTime: {"microTime"},
    Quantity: {"quantity"},
    Duration: {"string"},
    msgspec.Raw: {"fieldsV1", "rawExtension"},
    JsonField: {"json", "rawExtension"},
}


def strip(kind: Any) -> Any:
    while True:
        if get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        elif get_origin(kind) in (Union, UnionType):
            kept = [a for a in get_args(kind) if a not in (NoneType, UnsetType)]
            if len(kept) != 1:
                return kind
            kind = kept[0]
        else:
            return kind


def differences(kind: Any, expected: typetable.Type, path: str, seen: set[Any]) -> Iterator[str]:
    kind = strip(kind)
    if expected.kind == "intOrString":
        if kind != strip(IntOrString):
            yield f"{path}: {kind} is not IntOrString"
    elif expected.kind == "list":
        assert expected.elem is not None
        yield from differences(get_args(kind)[0], expected.elem, f"{path}[]", seen)
    elif expected.kind == "map":
        assert expected.elem is not None
        yield from differences(kind.value_type, expected.elem, f"{path}[*]", seen)
    elif expected.kind == "strings":
        yield from () if get_args(kind)[:1] == (str,) else (f"{path}: {kind} is not a list of strings",)
    elif expected.kind == "struct":
        if kind is JsonObjectField or "JSONSchemaProps" in expected.name:
            return
        yield from struct_differences(kind, expected.struct, path, seen)
    elif kind is not JsonObjectField and expected.kind not in SCALARS.get(kind, set()):
        yield f"{path}: {kind} is not {expected.kind}"


def struct_differences(cls: Any, expected: typetable.StructType, path: str, seen: set[Any]) -> Iterator[str]:
    if (cls, expected.name) in seen:
        return
    seen.add((cls, expected.name))
    hints = get_type_hints(cls, include_extras=True)
    fields = {f.encode_name: f for f in msgspec.structs.fields(cls) if f.encode_name != UNKNOWN_KEY}
    for name in sorted(set(fields) ^ set(expected.fields)):
        yield f"{path}.{name}: {'not in Kubernetes' if name in fields else 'missing'}"
    for name in sorted(set(fields) & set(expected.fields)):
        at = f"{path}.{name}"
        yield from differences(hints[fields[name].name], expected.fields[name].type, at, seen)


@pytest.mark.parametrize("cls", KINDS, ids=lambda cls: str(cls.type_info.gvk))
def test_class_has_every_field_of_its_kind(cls: type[Resource]) -> None:
    gvk = cls.type_info.gvk
    expected = typetable.struct_for(gvk.group, gvk.version, gvk.kind)
    assert list(struct_differences(cls, expected, gvk.kind, set())) == []


@pytest.mark.parametrize("cls", KINDS, ids=lambda cls: str(cls.type_info.gvk))
def test_empty_object_holds_only_its_type(cls: type[Resource]) -> None:
    made = cls(metadata=ObjectMeta(name="x"))
    assert made.to_dict() == {
        "apiVersion": cls.type_info.gvk.api_version,
        "kind": cls.type_info.kind,
        "metadata": {"name": "x"},
    }
    assert decode(made.to_bytes(), cls) == made


def test_every_kind_can_be_found_by_name() -> None:
    scheme = k8s_scheme()
    assert len(scheme) == len(KINDS)
    assert scheme.get(Pod.type_info.gvk) is Pod


def test_secret_data_is_bytes() -> None:
    secret = Secret.from_bytes(b'{"data":{"a":"aGVsbG8="},"stringData":{"b":"x"}}')
    assert secret.data == {"a": b"hello"}
    assert secret.to_dict()["data"] == {"a": "aGVsbG8="}


def test_managed_fields_stay_raw() -> None:
    raw = b'{"metadata":{"managedFields":[{"manager":"m","fieldsV1":{"f:spec":{"f:replicas":{}}}}]}}'
    deployment = Deployment.from_bytes(raw)
    assert isinstance(deployment.metadata.managed_fields[0].fields_v1, msgspec.Raw)
    assert deployment.to_dict()["metadata"]["managedFields"][0]["fieldsV1"] == {"f:spec": {"f:replicas": {}}}
    unknown = Deployment.from_bytes(raw[:-1] + b',"zzz":1}')
    assert unknown.to_dict()["metadata"] == deployment.to_dict()["metadata"]


def test_reviews_keep_the_bytes_of_their_objects() -> None:
    body = b'{"kind":"AdmissionReview","request":{"uid":"u","object":{"b":1,  "a":2}}}'
    review = decode(body, AdmissionReview)
    assert review.request
    assert bytes(review.request.object) == b'{"b":1,  "a":2}'  # type: ignore[arg-type]
    conversion = decode(b'{"request":{"desiredAPIVersion":"g/v1","objects":[{"a":1}]}}', ConversionReview)
    assert conversion.request
    assert conversion.request.desired_api_version == "g/v1"
    assert json.loads(encode(conversion))["kind"] == "ConversionReview"
