"""Whether a CRD may have a schema; the texts are those of kube-apiserver 1.36.3."""

# ruff: noqa: E501  # upstream texts stay in one piece, so that they can be searched for

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.apiserver.schema.definition import schema_errors
from quarterdeck.apiserver.schema.rules import max_depth

Json = dict[str, Any]
STRING = {"type": "string"}
PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}
SPEC = "S.properties[spec]"


def errors(schema: Any, *, has_status: bool = False) -> list[str]:
    return [str(error) for error in schema_errors(schema, "S", has_status=has_status)]


def spec_errors(schema: Json) -> list[str]:
    return errors({"type": "object", "properties": {"spec": schema}})


ROOTS: list[tuple[Json, list[str]]] = [
    ({"type": "object"}, []),
    ({}, ["S.type: Required value: must not be empty at the root"]),
    (PRESERVE, []),
    ({"type": "string"}, ['S.type: Invalid value: "string": must be object at the root']),
    ({"type": "object", "nullable": True}, ["S.nullable: Forbidden: nullable cannot be true at the root"]),
    (
        {"type": "object", "additionalProperties": STRING},
        ["S.additionalProperties: Forbidden: must not be used at the root"],
    ),
    (
        {"type": "object", "$schema": "x"},
        ["S: Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported"],
    ),
    ({"type": "object", "$ref": "x"}, ["S.$ref: Forbidden: $ref is not supported"]),
    (
        {"type": "object", "properties": {"kind": {"type": "integer"}}},
        ['S.properties[kind].type: Invalid value: "integer": must be string'],
    ),
    ({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": STRING}}}}, []),
    (
        {
            "type": "object",
            "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}},
        },
        [
            (
                "S.properties[metadata]: Forbidden: must not specify anything other than name and generateName, "
                "but metadata is implicitly specified"
            )
        ],
    ),
    (
        {"type": "object", "properties": {"metadata": {"type": "object", "default": {"name": "x"}}}},
        ["S.properties[metadata].default: Forbidden: must not be set in top-level metadata"],
    ),
    # what combinators of the root name must be specified; sorted by text
    (
        {
            "type": "object",
            "properties": {"a": {"type": "array", "items": STRING}},
            "anyOf": [
                {"properties": {"b": {}, "a": {"items": {"properties": {"z": {}}}}}},
                {"not": {"properties": {"c": {}}}},
            ],
        },
        [
            (
                "S.properties[a].items.properties[z]: Required value: because it is defined in "
                "S.anyOf[0].properties[a].items.properties[z]"
            ),
            "S.properties[b]: Required value: because it is defined in S.anyOf[0].properties[b]",
            "S.properties[c]: Required value: because it is defined in S.anyOf[1].not.properties[c]",
        ],
    ),
]


@pytest.mark.parametrize(("schema", "expected"), ROOTS)
def test_roots(schema: Json, expected: list[str]) -> None:
    assert errors(schema) == expected


def lists(list_type: str, items: Json, **more: Any) -> Json:
    return {"type": "array", "x-kubernetes-list-type": list_type, "items": items, **more}


ITEM = {"type": "object", "required": ["a"], "properties": {"a": STRING}}
SPECS: list[tuple[Json, list[str]]] = [
    # types
    ({}, [f"{SPEC}.type: Required value: must not be empty for specified object fields"]),
    (
        {"type": "array", "items": {}},
        [f"{SPEC}.items.type: Required value: must not be empty for specified array items"],
    ),
    ({"type": "array"}, [f"{SPEC}.items: Required value: must be specified"]),
    (
        {"type": "foo"},
        [
            (
                f'{SPEC}.type: Unsupported value: "foo": supported values: '
                '"array", "boolean", "integer", "number", "object", "string"'
            )
        ],
    ),
    (
        {"type": "array", "items": [STRING]},
        [f"{SPEC}.items: Forbidden: items must be a schema object and not an array"],
    ),
    # int-or-string
    ({"x-kubernetes-int-or-string": True}, []),
    ({"x-kubernetes-int-or-string": True, "type": "integer"}, []),
    ({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}, []),
    (
        {
            "x-kubernetes-int-or-string": True,
            "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"minimum": 1}],
        },
        [],
    ),
    (
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "string"}, {"type": "integer"}]},
        [
            f"{SPEC}.anyOf[0].type: Forbidden: must be empty to be structural",
            f"{SPEC}.anyOf[1].type: Forbidden: must be empty to be structural",
        ],
    ),
    (
        {"x-kubernetes-int-or-string": True, **PRESERVE},
        [
            (
                f"{SPEC}.x-kubernetes-preserve-unknown-fields: Invalid value: true: "
                "must be false if x-kubernetes-int-or-string is true"
            )
        ],
    ),
    # below combinators only value validations
    (
        {"type": "string", "anyOf": [{"description": "x", "default": 1, "nullable": True}]},
        [
            f"{SPEC}.anyOf[0].default: Forbidden: must be undefined to be structural",
            f"{SPEC}.anyOf[0].description: Forbidden: must be empty to be structural",
            f"{SPEC}.anyOf[0].nullable: Forbidden: must be false to be structural",
        ],
    ),
    (
        {"type": "object", "not": {"properties": {"metadata": {"additionalProperties": STRING}}}},
        [
            f"{SPEC}.not.properties[metadata].additionalProperties: Forbidden: must be undefined to be structural",
            f"{SPEC}.not.properties[metadata]: Forbidden: must not be specified in a nested context",
        ],
    ),
    # properties and additionalProperties
    (
        {"type": "object", "properties": {"a": STRING}, "additionalProperties": False},
        [f"{SPEC}.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
    ),
    ({"type": "object", "properties": {"a": STRING}, "additionalProperties": True}, []),
    (
        {"type": "string", "uniqueItems": True},
        [
            (
                f"{SPEC}.uniqueItems: Forbidden: uniqueItems cannot be set to true "
                "since the runtime complexity becomes quadratic"
            )
        ],
    ),
    (
        {"type": "string", "pattern": "[a"},
        [
            (
                f'{SPEC}.pattern: Invalid value: "[a": must be a valid regular expression, but isn\'t: '
                "error parsing regexp: missing closing ]: `[a`"
            )
        ],
    ),
    (
        {"type": "string", "x-kubernetes-preserve-unknown-fields": False},
        [f"{SPEC}.x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined"],
    ),
    # embedded resources
    (
        {"type": "object", "x-kubernetes-embedded-resource": True},
        [
            (
                f"{SPEC}.properties: Required value: must not be empty if x-kubernetes-embedded-resource is true "
                "without x-kubernetes-preserve-unknown-fields"
            )
        ],
    ),
    (
        {"type": "string", "x-kubernetes-embedded-resource": True, **PRESERVE},
        [f'{SPEC}.type: Invalid value: "string": must be object if x-kubernetes-embedded-resource is true'],
    ),
    # map types
    (
        {"type": "string", "x-kubernetes-map-type": "atomic"},
        [f'{SPEC}.type: Invalid value: "string": must be object if x-kubernetes-map-type is specified'],
    ),
    (
        {"type": "object", "x-kubernetes-map-type": "foo"},
        [f'{SPEC}.x-kubernetes-map-type: Unsupported value: "foo": supported values: "atomic", "granular"'],
    ),
    # list types
    (lists("atomic", STRING), []),
    (lists("set", STRING), []),
    (lists("set", {"type": "object", "x-kubernetes-map-type": "atomic"}), []),
    (
        lists("set", {"type": "object"}),
        [
            (
                f"{SPEC}.items.x-kubernetes-map-type: Invalid value: null: "
                "must be atomic as item of a list with x-kubernetes-list-type=set"
            )
        ],
    ),
    (
        lists("set", lists("set", STRING)),
        [
            (
                f'{SPEC}.items.x-kubernetes-list-type: Invalid value: "set": '
                "must be atomic as item of a list with x-kubernetes-list-type=set"
            )
        ],
    ),
    (
        lists("set", {**STRING, "nullable": True}),
        [f"{SPEC}.items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set"],
    ),
    (
        lists("foo", STRING),
        [
            f'{SPEC}.x-kubernetes-list-type: Unsupported value: "foo": supported values: "atomic", "set", "map"'
        ],
    ),
    (lists("map", ITEM, **{"x-kubernetes-list-map-keys": ["a"]}), []),
    (
        lists("map", ITEM),
        [
            f"{SPEC}.x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map"
        ],
    ),
    (
        lists("map", STRING, **{"x-kubernetes-list-map-keys": ["a"]}),
        [
            f'{SPEC}.items.type: Invalid value: "string": must be object if parent array\'s x-kubernetes-list-type is map'
        ],
    ),
    (
        lists("map", ITEM, **{"x-kubernetes-list-map-keys": ["a", "b", "a"]}),
        [
            (
                f'{SPEC}.x-kubernetes-list-map-keys: Invalid value: ["a","b","a"]: '
                "entries must all be names of item properties"
            ),
            f'{SPEC}.x-kubernetes-list-map-keys: Invalid value: ["a","b","a"]: must not contain duplicate entries',
        ],
    ),
    (
        lists("map", {**ITEM, "required": []}, **{"x-kubernetes-list-map-keys": ["a"]}),
        [
            (
                f"{SPEC}.items.properties[a].default: Required value: this property is in x-kubernetes-list-map-keys, "
                "so it must have a default or be a required property"
            )
        ],
    ),
    (
        {"type": "array", "items": STRING, "x-kubernetes-list-map-keys": ["a"]},
        [
            (
                f"{SPEC}.x-kubernetes-list-type: Required value: "
                "must be map if x-kubernetes-list-map-keys is non-empty"
            )
        ],
    ),
    # defaults
    ({"type": "string", "default": "x"}, []),
    ({"type": "string", "default": None}, []),
    (
        {"type": "string", "default": 1},
        [f'{SPEC}.default: Invalid value: "integer":  in body must be of type string: "integer"'],
    ),
    (
        {"type": "array", "items": STRING, "default": ["a", 1]},
        [f'{SPEC}.default.[1]: Invalid value: "integer": [1] in body must be of type string: "integer"'],
    ),
    (
        {"type": "object", "properties": {"a": STRING}, "default": {"a": "x", "b": 1}},
        [f'{SPEC}.default: Invalid value: {{"a":"x","b":1}}: must not have unknown fields'],
    ),
    # int-or-string does not look at its default unless anyOf says so
    ({"x-kubernetes-int-or-string": True, "default": True}, []),
    # form of rules
    (
        {"type": "string", "x-kubernetes-validations": [{"rule": " "}]},
        [f"{SPEC}.x-kubernetes-validations[0].rule: Required value: rule is not specified"],
    ),
    (
        {"type": "string", "x-kubernetes-validations": [{"rule": "true &&\ntrue"}]},
        [
            (
                f"{SPEC}.x-kubernetes-validations[0].message: Required value: "
                "message must be specified if rule contains line breaks"
            )
        ],
    ),
    (
        {"type": "string", "x-kubernetes-validations": [{"rule": "true", "reason": "X"}]},
        [
            (
                f'{SPEC}.x-kubernetes-validations[0].reason: Unsupported value: "X": supported values: '
                '"FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"'
            )
        ],
    ),
    (
        {"type": "object", "x-kubernetes-validations": [{"rule": "true", "fieldPath": ".z"}]},
        [f'{SPEC}.x-kubernetes-validations[0].fieldPath: Invalid value: ".z": must be a valid path'],
    ),
]


@pytest.mark.parametrize(("schema", "expected"), SPECS)
def test_fields(schema: Json, expected: list[str]) -> None:
    assert spec_errors(schema) == expected


def test_defaults_in_embedded_metadata_must_make_valid_metadata() -> None:
    meta = {"type": "object", "properties": {"name": {"type": "string", "default": "a/b"}}}
    embedded = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        **PRESERVE,
        "properties": {"metadata": meta},
    }
    assert spec_errors(embedded) == [
        (
            f'{SPEC}.properties[metadata].properties[name].default: Invalid value: "a/b": '
            "must result in valid metadata: metadata.name: Invalid value: \"a/b\": may not contain '/'"
        )
    ]


def test_with_a_status_subresource_the_root_says_nothing_about_the_whole() -> None:
    assert errors({"type": "object", "required": ["spec"]}, has_status=True) == []
    [error] = errors({"type": "object", "anyOf": [{"required": ["a"]}]}, has_status=True)
    assert error.startswith(
        'S: Invalid value: {"ID":"","Schema":"","Ref":null,"Description":"","Type":"object",'
    )
    assert error.endswith(
        '"XValidations":null}: only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum '
        "MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs "
        "Example XPreserveUnknownFields XValidations] fields are allowed at the root of the schema "
        "if the status subresource is enabled"
    )


def test_rules_that_do_not_compile_are_refused_with_the_whole_rule() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.nope > 1"}],
    }
    assert spec_errors(schema) == [
        (
            f'{SPEC}.x-kubernetes-validations[0].rule: Invalid value: {{"Rule":"self.nope \\u003e 1","Message":"",'
            '"MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: '
            "ERROR: <input>:1:5: undefined field 'nope'\n | self.nope > 1\n | ....^"
        )
    ]


def test_rules_are_not_compiled_above_other_errors() -> None:
    bad_rule = [{"rule": "self.nope"}]
    schema = {
        "type": "object",
        "properties": {
            "x": {"type": "string", "uniqueItems": True, "x-kubernetes-validations": bad_rule},
            "y": {"type": "string", "x-kubernetes-validations": bad_rule},
        },
        "x-kubernetes-validations": bad_rule,
    }
    fields = [error.partition(": ")[0] for error in spec_errors(schema)]
    assert fields == [
        f"{SPEC}.properties[x].uniqueItems",
        f"{SPEC}.properties[y].x-kubernetes-validations[0].rule",
    ]


def test_defaults_must_satisfy_rules() -> None:
    schema = {
        "type": "string",
        "default": "x",
        "x-kubernetes-validations": [{"rule": "self != 'x'", "message": "no x"}],
    }
    assert spec_errors(schema) == [f'{SPEC}.default: Invalid value: "x": no x']


def test_schemas_nested_too_deeply_are_refused() -> None:
    schema: Json = {"type": "string"}
    for _ in range(max_depth() + 1):
        schema = {"type": "object", "properties": {"a": schema}}
    assert errors(schema) == [f'S: Invalid value: "": must not be nested deeper than {max_depth()} levels']


@pytest.mark.parametrize("schema", [None, 5, "x", [], {"type": 5}, {"type": "object", "properties": []}])
def test_any_value_is_answered_with_errors(schema: Any) -> None:
    assert isinstance(errors(schema), list)


def test_a_schema_that_was_in_order_is_judged_by_what_it_says_now() -> None:
    schema: Json = {"type": "object", "properties": {"spec": {"type": "string"}}}
    assert errors(schema) == errors(schema) == []
    schema["properties"]["spec"] = {"type": "nonsense"}
    assert errors(schema) == errors(schema) != []


def test_a_schema_may_be_in_order_without_a_status_only() -> None:
    schema: Json = {"type": "object", "maxProperties": 3}
    assert errors(schema) == []
    assert errors(schema, has_status=True) != []


def test_a_schema_with_a_number_beyond_64_bits_is_judged_each_time() -> None:
    schema: Json = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 2**70}}}
    assert errors(schema) == errors(schema)
