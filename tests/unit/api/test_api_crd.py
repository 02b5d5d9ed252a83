"""Classes to custom resource definitions, and back."""

from __future__ import annotations

import copy
import enum
import importlib.util
import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from quarterdeck.api import (
    UNSET,
    Column,
    Condition,
    Duration,
    Map,
    Maybe,
    Model,
    Quantity,
    Resource,
    Seq,
    Time,
    crd,
    omitempty,
)
from quarterdeck.api.crd import WebhookConversion
from quarterdeck.api.crdcompat import compare_crds
from quarterdeck.api.crdimport import module_from_crd
from quarterdeck.api.instant import MicroTime
from quarterdeck.api.intorstring import IntOrString
from quarterdeck.api.k8s import PodSpec, PodTemplateSpec
from quarterdeck.api.marker import (
    AllOf,
    AnyOf,
    Atomic,
    Cel,
    Default,
    Doc,
    Embedded,
    Enum,
    Format,
    Ge,
    Gt,
    Int32,
    Le,
    Len,
    ListMap,
    ListSet,
    Lt,
    MultipleOf,
    Not,
    Nullable,
    OneOf,
    Optional,
    Pattern,
    Preserve,
    Required,
    Schema,
    Unique,
)
from quarterdeck.api.model import EMPTY_MAP, JsonField, JsonObjectField
from quarterdeck.api.resource import Scale
from quarterdeck.api.schema import schema_of
from quarterdeck.errors import SchemaError

from .widget import Widget


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Inner(Model):
    """Inner settings."""

    size: str = "50Mi"
    """Largest size."""
    files: int = 4
    mode: Maybe[str] = UNSET


class Everything(Model, rules=[Cel("self.low <= self.high", message="low must not exceed high")]):
    """All of it."""

    low: Annotated[int, Int32, Ge(0)]
    high: Annotated[int, Gt(0), Le(99), MultipleOf(3)]
    ratio: Annotated[float, Lt(1)] = 0.5
    name: Annotated[str, Len(1, 63), Pattern("^[a-z]+$"), Format("hostname")] = "x"
    colour: Colour = Colour.RED
    mode: Maybe[Literal["On", "Off"]] = UNSET
    level: Maybe[Literal[1, 2]] = UNSET
    open_enum: Annotated[Maybe[str], Enum("a", "b")] = UNSET
    data: Maybe[bytes] = UNSET
    since: Maybe[Time] = UNSET
    at: Maybe[MicroTime] = UNSET
    delay: Maybe[Duration] = UNSET
    amount: Maybe[Quantity] = UNSET
    port: Annotated[Maybe[IntOrString], Pattern("^[0-9]+%?$")] = UNSET
    null_ok: int | None = None
    marked_null: Annotated[Maybe[int], Nullable()] = UNSET
    inner: Inner = Inner()
    bare: Annotated[Maybe[Inner], Default({})] = UNSET
    tags: Annotated[Seq[str], ListSet(), Len(max=9)] = omitempty(())
    order: Annotated[Seq[int], Atomic()] = omitempty(())
    conditions: Annotated[Seq[Condition], ListMap("type")] = omitempty(())
    labels: Annotated[Map[str, str], Len(max=5)] = omitempty(EMPTY_MAP)
    limits: Map[str, Quantity] = omitempty(EMPTY_MAP)
    free: Maybe[JsonField] = UNSET
    free_object: Maybe[JsonObjectField] = UNSET
    embedded: Annotated[Maybe[JsonObjectField], Embedded(), Preserve()] = UNSET
    template: Maybe[PodTemplateSpec] = UNSET
    must: Annotated[str, Required()] = omitempty("")
    may: Annotated[str, Optional()]
    described: Annotated[Maybe[str], Doc("Said so.")] = UNSET
    odd: Annotated[Maybe[str], Schema({"x-custom": True}), Cel("self != ''", reason="FieldValueInvalid")] = (
        UNSET
    )
    choice: Annotated[
        Maybe[Inner], OneOf({"required": ["mode"]}, {"not": {"required": ["mode"]}}), Not({"required": ["x"]})
    ] = UNSET
    any_of: Annotated[Maybe[Inner], AnyOf({"required": ["mode"]}), AllOf({"required": ["size"]})] = UNSET


PROPERTIES: dict[str, Any] = schema_of(Everything)["properties"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("low", {"type": "integer", "format": "int32", "minimum": 0}),
        (
            "high",
            {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 99, "multipleOf": 3},
        ),
        ("ratio", {"type": "number", "default": 0.5, "maximum": 1, "exclusiveMaximum": True}),
        (
            "name",
            {
                "type": "string",
                "format": "hostname",
                "default": "x",
                "minLength": 1,
                "maxLength": 63,
                "pattern": "^[a-z]+$",
            },
        ),
        ("colour", {"type": "string", "default": "red", "enum": ["red", "blue"]}),
        ("mode", {"type": "string", "enum": ["On", "Off"]}),
        ("level", {"type": "integer", "enum": [1, 2]}),
        ("openEnum", {"type": "string", "enum": ["a", "b"]}),
        ("data", {"type": "string", "format": "byte"}),
        ("since", {"type": "string", "format": "date-time"}),
        ("at", {"type": "string", "format": "date-time"}),
        ("delay", {"type": "string"}),
        (
            "port",
            {
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "x-kubernetes-int-or-string": True,
                "pattern": "^[0-9]+%?$",
            },
        ),
        ("nullOk", {"type": "integer", "nullable": True}),
        ("markedNull", {"type": "integer", "nullable": True}),
        (
            "tags",
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set", "maxItems": 9},
        ),
        ("order", {"type": "array", "items": {"type": "integer"}, "x-kubernetes-list-type": "atomic"}),
        ("labels", {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 5}),
        ("free", {"x-kubernetes-preserve-unknown-fields": True}),
        ("freeObject", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        (
            "embedded",
            {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "x-kubernetes-embedded-resource": True,
            },
        ),
        ("described", {"type": "string", "description": "Said so."}),
        (
            "odd",
            {
                "type": "string",
                "x-custom": True,
                "x-kubernetes-validations": [{"rule": "self != ''", "reason": "FieldValueInvalid"}],
            },
        ),
    ],
)
def test_field_becomes_schema(name: str, expected: dict[str, Any]) -> None:
    assert PROPERTIES[name] == expected


def test_quantity_is_int_or_string_with_a_pattern() -> None:
    assert PROPERTIES["amount"]["x-kubernetes-int-or-string"] is True
    assert PROPERTIES["amount"]["pattern"].startswith("^(")
    assert PROPERTIES["limits"]["additionalProperties"] == PROPERTIES["amount"]


def test_nested_default_is_as_short_as_possible() -> None:
    assert PROPERTIES["inner"]["default"] == {}
    assert PROPERTIES["bare"]["default"] == {}
    assert PROPERTIES["inner"]["properties"]["size"]["default"] == "50Mi"
    assert "default" not in PROPERTIES["choice"]


def test_required_follows_defaults_and_markers() -> None:
    assert schema_of(Everything)["required"] == ["high", "low", "must"]


def test_docstrings_become_descriptions() -> None:
    assert PROPERTIES["inner"]["description"] == "Inner settings."
    assert PROPERTIES["inner"]["properties"]["size"]["description"] == "Largest size."
    assert "description" not in PROPERTIES["low"]


def test_rules_of_class_and_field() -> None:
    assert schema_of(Everything)["x-kubernetes-validations"] == [
        {"rule": "self.low <= self.high", "message": "low must not exceed high"}
    ]
    assert PROPERTIES["choice"]["oneOf"] == [{"required": ["mode"]}, {"not": {"required": ["mode"]}}]
    assert PROPERTIES["choice"]["not"] == {"required": ["x"]}
    assert PROPERTIES["anyOf"]["allOf"] == [{"required": ["size"]}]


def test_list_map_of_conditions_has_the_standard_schema() -> None:
    conditions = PROPERTIES["conditions"]
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    assert conditions["items"]["required"] == ["lastTransitionTime", "message", "reason", "status", "type"]
    assert conditions["items"]["properties"]["lastTransitionTime"] == {
        "description": "When the status changed last.",
        "type": "string",
        "format": "date-time",
    }
    assert "default" not in conditions["items"]["properties"]["message"]


def test_embedded_pod_template_has_a_full_schema() -> None:
    template = PROPERTIES["template"]["properties"]
    assert sorted(template["metadata"]["properties"]) == [
        "annotations",
        "finalizers",
        "labels",
        "name",
        "namespace",
    ]
    containers = template["spec"]["properties"]["containers"]
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    ports = containers["items"]["properties"]["ports"]
    assert ports["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    assert ports["items"]["properties"]["protocol"]["default"] == "TCP"
    assert template["spec"]["required"] == ["containers"]


def bad(annotation: Any, **keywords: Any) -> type[Model]:
    namespace = {"__annotations__": {"field": annotation}, "__module__": __name__}
    meta: Any = type(Model)
    made: type[Model] = meta("Bad", (Model,), namespace, **keywords)
    return made


class Loop(Model):
    next: Maybe[Loop] = UNSET


@pytest.mark.parametrize(
    ("kind", "path", "complaint"),
    [
        (bad(int | bool), "field", "not structural"),
        (bad(Inner | Everything), "field", "not structural"),
        (bad(Map[int, str]), "field", "keys of a map must be strings"),
        (bad(Annotated[Seq[str], Unique()]), "field", "uniqueItems"),
        (bad(Annotated[Seq[str], ListMap("a")]), "field", "must be objects"),
        (bad(Annotated[Seq[Inner], ListMap("mode")]), "field", "required or have a default"),
        (bad(Annotated[Seq[Inner], ListMap("nope")]), "field", "not a field"),
        (bad(Annotated[Seq[Inner], ListMap()]), "field", "at least one key"),
        (bad(Annotated[Seq[Inner], ListSet()]), "field", "scalars or atomic"),
        (bad(Annotated[str, ListSet()]), "field", "does not fit"),
        (bad(Annotated[int, Len(1)]), "field", "Len is for"),
        (bad(Literal["a", 1]), "field", "all strings or all integers"),
        (bad(Annotated[Inner, OneOf({"type": "object"})]), "field.oneOf[0]", "type must not be set here"),
        (
            bad(Annotated[Inner, OneOf({"properties": {"size": {"default": "x"}}})]),
            "field.oneOf[0].size",
            "default must not be set here",
        ),
        (bad(object), "field", "no structural schema"),
        (Loop, "next", "contains itself"),
    ],
)
def test_what_is_not_structural_is_refused_with_its_path(
    kind: type[Model], path: str, complaint: str
) -> None:
    with pytest.raises(SchemaError, match=complaint) as caught:
        schema_of(kind)
    assert caught.value.path == path


class ThingSpec(Model):
    replicas: int = 1
    image: str


class ThingStatus(Model):
    replicas: int = 0
    selector: Maybe[str] = UNSET


class Thing(
    Resource,
    group="example.io",
    version="v1",
    scope="Cluster",
    short_names=["th"],
    categories=["all"],
    status=True,
    scale=Scale(selector_path=".status.selector"),
    columns=[Column("Image", ".spec.image", description="What runs", priority=1), Column.age()],
    selectable=[".spec.image"],
    crd_labels={"heritage": "x"},
    crd_annotations={"note": "y"},
    name_rules=[Len(max=42), Pattern("^[a-z]+$")],
    rules=[Cel("size(self.metadata.name) <= 63")],
):
    """A thing."""

    spec: ThingSpec
    status: ThingStatus = omitempty(ThingStatus())


class ThingOldSpec(Model):
    image: Maybe[str] = UNSET


class ThingOld(
    Resource,
    group="example.io",
    version="v1alpha1",
    kind="Thing",
    scope="Cluster",
    short_names=["th"],
    categories=["all"],
    storage=False,
    deprecated="use v1",
):
    spec: ThingOldSpec = omitempty(ThingOldSpec())


def test_versions_share_one_definition() -> None:
    document = crd(
        Thing, ThingOld, conversion=WebhookConversion(service="s", namespace="n", ca_bundle=b"pem")
    )
    assert document["metadata"] == {
        "name": "things.example.io",
        "annotations": {"note": "y"},
        "labels": {"heritage": "x"},
    }
    spec = document["spec"]
    assert spec["names"] == {
        "kind": "Thing",
        "listKind": "ThingList",
        "plural": "things",
        "shortNames": ["th"],
        "singular": "thing",
        "categories": ["all"],
    }
    new, old = spec["versions"]
    assert (new["name"], new["served"], new["storage"]) == ("v1", True, True)
    assert (old["storage"], old["deprecated"], old["deprecationWarning"]) == (False, True, "use v1")
    assert new["subresources"] == {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    }
    assert new["selectableFields"] == [{"jsonPath": ".spec.image"}]
    assert new["additionalPrinterColumns"][0] == {
        "jsonPath": ".spec.image",
        "name": "Image",
        "type": "string",
        "description": "What runs",
        "priority": 1,
    }
    root = new["schema"]["openAPIV3Schema"]
    assert root["required"] == ["spec"]
    assert root["properties"]["metadata"]["properties"]["name"]["maxLength"] == 42
    assert root["x-kubernetes-validations"] == [{"rule": "size(self.metadata.name) <= 63"}]
    assert spec["conversion"]["webhook"]["clientConfig"] == {
        "service": {"namespace": "n", "name": "s", "path": "/convert", "port": 443},
        "caBundle": "cGVt",
    }


def test_definition_is_the_same_every_time() -> None:
    assert json.dumps(crd(Thing, ThingOld)) == json.dumps(crd(Thing, ThingOld))


def test_versions_that_do_not_fit_together_are_refused() -> None:
    class Other(Resource, group="example.io", version="v2", kind="Thing", storage=False):
        pass

    class Second(ThingOld, version="v3", group="example.io", kind="Thing", scope="Cluster", storage=True):
        pass

    with pytest.raises(SchemaError, match="scope of v2"):
        crd(Thing, Other)
    with pytest.raises(SchemaError, match="exactly one version must be stored"):
        crd(ThingOld)
    with pytest.raises(SchemaError, match="not distinct"):
        crd(Thing, Thing)

    class Core(Resource, version="v1"):
        pass

    with pytest.raises(SchemaError, match="core group"):
        crd(Core)


class Broken(Resource, group="g.io", version="v1"):
    spec: Loop


def test_refusal_names_kind_version_and_field() -> None:
    with pytest.raises(SchemaError, match=r"Broken v1: spec\.next: Loop contains itself"):
        crd(Broken)


def changed(edit: Any) -> list[str]:
    old = crd(Thing, ThingOld)
    new = copy.deepcopy(old)
    edit(new["spec"], new["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"])
    return [str(problem) for problem in compare_crds(old, new)]


def test_equal_definitions_are_compatible() -> None:
    assert changed(lambda spec, schema: None) == []


def test_widening_is_compatible() -> None:
    def edit(spec: Any, schema: Any) -> None:
        schema["properties"]["extra"] = {"type": "string"}
        schema["required"] = []

    assert changed(edit) == []


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (lambda spec, schema: spec.update(scope="Namespaced"), "scope: changed from Cluster to Namespaced"),
        (lambda spec, schema: spec["versions"].pop(), "v1alpha1: version removed"),
        (
            lambda spec, schema: spec["versions"][1].update(served=False),
            "v1alpha1: version is no longer served",
        ),
        (
            lambda spec, schema: spec["versions"][0]["subresources"].pop("scale"),
            "v1: subresource scale removed",
        ),
        (lambda spec, schema: schema["properties"].pop("image"), "v1.spec.image: field removed"),
        (
            lambda spec, schema: schema["properties"]["image"].update(type="integer"),
            "v1.spec.image: type changed from string to integer",
        ),
        (
            lambda spec, schema: schema["properties"]["image"].update(enum=["a"]),
            "v1.spec.image: values restricted to ['a']",
        ),
        (
            lambda spec, schema: schema["properties"]["replicas"].update(minimum=1),
            "v1.spec.replicas: minimum tightened from none to 1",
        ),
        (
            lambda spec, schema: schema["properties"]["replicas"].update(default=2),
            "v1.spec.replicas: default changed from 1 to 2",
        ),
        (
            lambda spec, schema: schema["properties"]["image"].update(pattern="x"),
            "v1.spec.image: pattern added",
        ),
        (
            lambda spec, schema: schema.update({"x-kubernetes-validations": [{"rule": "true"}]}),
            "v1.spec: rule added: true",
        ),
    ],
)
def test_narrowing_is_named(edit: Any, problem: str) -> None:
    assert problem in changed(edit)


def test_new_required_field_is_named() -> None:
    def edit(spec: Any, schema: Any) -> None:
        schema["properties"]["extra"] = {"type": "string"}
        schema["required"] = [*schema["required"], "extra"]

    assert changed(edit) == ["v1.spec.extra: field is now required"]


class Full(Resource, group="example.io", version="v1", status=True, columns=[Column.age()]):
    """Everything at once."""

    spec: Everything
    pod: Maybe[PodSpec] = UNSET


@pytest.mark.parametrize(
    "document", [crd(Thing, ThingOld), crd(Widget), crd(Full)], ids=["thing", "widget", "full"]
)
def test_generated_module_gives_an_equivalent_definition(document: dict[str, Any], tmp_path: Path) -> None:
    source = tmp_path / "generated_types.py"
    source.write_text(module_from_crd(document))
    spec = importlib.util.spec_from_file_location("generated_types", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["generated_types"] = module
    try:
        spec.loader.exec_module(module)
        kind = document["spec"]["names"]["kind"]
        versions = [version["name"] for version in document["spec"]["versions"]]
        classes = [
            getattr(module, kind),
            *(getattr(module, kind + name.capitalize()) for name in versions[1:]),
        ]
        again = crd(*classes)
    finally:
        del sys.modules["generated_types"]
    assert compare_crds(document, again) == []
    assert compare_crds(again, document) == []
