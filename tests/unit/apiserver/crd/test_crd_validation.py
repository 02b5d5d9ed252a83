"""CustomResourceDefinitions: defaults and validation; the texts are those of kube-apiserver 1.36.3."""

# ruff: noqa: E501  # upstream texts stay in one piece, so that they can be searched for

from __future__ import annotations

import copy
from typing import Any

import pytest

from quarterdeck.apiserver.crd.default import default_crd
from quarterdeck.apiserver.crd.validation import (
    crd_warnings,
    validate_crd_create,
    validate_crd_status_update,
    validate_crd_update,
)

Json = dict[str, Any]
DNS1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def version(name: str = "v1", **fields: Any) -> Json:
    schema = {"openAPIV3Schema": {"type": "object"}}
    return {"name": name, "served": True, "storage": name == "v1", "schema": schema, **fields}


def crd(**spec: Any) -> Json:
    names = {"plural": "things", "kind": "Thing"}
    given = {"group": "g.example.com", "scope": "Namespaced", "names": names, "versions": [version()], **spec}
    plural = given["names"].get("plural", "")
    return {"metadata": {"name": f"{plural}.{given['group']}"}, "spec": given}


def created(**spec: Any) -> list[str]:
    obj = copy.deepcopy(crd(**spec))
    default_crd(obj)
    return [str(error) for error in validate_crd_create(obj)]


def established(**spec: Any) -> Json:
    obj = crd(**spec)
    default_crd(obj)
    obj["status"]["conditions"] = [{"type": "Established", "status": "True"}]
    return obj


def updated(old: Json, **spec: Any) -> list[str]:
    new = copy.deepcopy({**old, "spec": {**old["spec"], **spec}})
    default_crd(new)
    return [str(error) for error in validate_crd_update(new, old)]


def test_defaults() -> None:
    obj = crd()
    default_crd(obj)
    assert obj["spec"]["names"] == {
        "plural": "things",
        "kind": "Thing",
        "singular": "thing",
        "listKind": "ThingList",
    }
    assert obj["spec"]["conversion"] == {"strategy": "None"}
    assert obj["status"] == {"storedVersions": ["v1"]}


def test_defaults_keep_what_is_given() -> None:
    service: dict[str, object] = {"namespace": "n", "name": "s"}
    names = {"plural": "things", "kind": "Thing", "singular": "one", "listKind": "Many"}
    obj = crd(
        names=dict(names),
        conversion={"strategy": "Webhook", "webhook": {"clientConfig": {"service": service}}},
    )
    obj["status"] = {"storedVersions": ["v0"]}
    default_crd(obj)
    assert obj["spec"]["names"] == names
    assert service["port"] == 443
    assert obj["status"] == {"storedVersions": ["v0"]}


def test_a_plain_crd_is_fine() -> None:
    assert created() == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"group": ""}, ["spec.group: Required value"]),
        ({"group": "foo"}, ['spec.group: Invalid value: "foo": should be a domain with at least one dot']),
        ({"scope": ""}, ["spec.scope: Required value"]),
        ({"scope": "X"}, ['spec.scope: Unsupported value: "X": supported values: "Cluster", "Namespaced"']),
        (
            {"names": {"plural": "Things", "kind": "Thing"}},
            [f'spec.names.plural: Invalid value: "Things": {DNS1035}'],
        ),
        (
            {
                "names": {
                    "plural": "things",
                    "kind": "T_x",
                    "listKind": "L",
                    "singular": "s",
                    "shortNames": ["a", "B"],
                }
            },
            [
                f'spec.names.kind: Invalid value: "T_x": may have mixed case, but should otherwise match: {DNS1035}',
                f'spec.names.shortNames[1]: Invalid value: "B": {DNS1035}',
            ],
        ),
        (
            {"names": {"plural": "things", "kind": "Thing", "listKind": "Thing", "categories": ["All"]}},
            [
                'spec.names.listKind: Invalid value: "Thing": kind and listKind may not be the same',
                f'spec.names.categories[0]: Invalid value: "All": {DNS1035}',
            ],
        ),
        (
            {"versions": [{"name": "v1", "served": True, "storage": True}]},
            ["spec.versions[0].schema.openAPIV3Schema: Required value"],
        ),
        (
            {"preserveUnknownFields": True},
            [
                (
                    "spec.preserveUnknownFields: Invalid value: true: cannot set to true, "
                    "set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
                )
            ],
        ),
        (
            {"versions": [version(deprecationWarning="x")]},
            [
                'spec.versions[0].deprecationWarning: Invalid value: "x": can only be set for deprecated versions',
            ],
        ),
        (
            {"versions": [version(deprecated=True, deprecationWarning="é\n")]},
            [
                (
                    'spec.versions[0].deprecationWarning: Invalid value: "é\\n": must only contain printable UTF-8 '
                    "characters; non-printable character found at index 2"
                )
            ],
        ),
        # scale
        (
            {
                "versions": [
                    version(subresources={"scale": {"specReplicasPath": "spec", "statusReplicasPath": ""}})
                ]
            },
            [
                (
                    'spec.subresources.scale.specReplicasPath: Invalid value: "spec": '
                    "must be a simple json path starting with ."
                ),
                "spec.subresources.scale.statusReplicasPath: Required value",
            ],
        ),
        (
            {
                "versions": [
                    version(
                        subresources={
                            "scale": {
                                "specReplicasPath": ".status.x",
                                "statusReplicasPath": ".spec.x",
                                "labelSelectorPath": ".x",
                            }
                        }
                    )
                ]
            },
            [
                (
                    'spec.subresources.scale.specReplicasPath: Invalid value: ".status.x": '
                    "should be a json path under .spec"
                ),
                (
                    'spec.subresources.scale.statusReplicasPath: Invalid value: ".spec.x": '
                    "should be a json path under .status"
                ),
                (
                    'spec.subresources.scale.labelSelectorPath: Invalid value: ".x": '
                    "should be a json path under either .spec or .status"
                ),
            ],
        ),
        # printer columns
        (
            {"versions": [version(additionalPrinterColumns=[{"name": "", "type": "", "jsonPath": ""}])]},
            [
                "spec.additionalPrinterColumns[0].name: Required value",
                (
                    "spec.additionalPrinterColumns[0].type: Required value: "
                    "must be one of boolean,date,integer,number,string"
                ),
                "spec.additionalPrinterColumns[0].JSONPath: Required value",
            ],
        ),
        (
            {
                "versions": [
                    version(
                        additionalPrinterColumns=[{"name": "a", "type": "x", "format": "y", "jsonPath": "z"}]
                    )
                ]
            },
            [
                (
                    'spec.additionalPrinterColumns[0].type: Invalid value: "x": '
                    "must be one of boolean,date,integer,number,string"
                ),
                (
                    'spec.additionalPrinterColumns[0].format: Invalid value: "y": '
                    "must be one of byte,date,date-time,double,float,int32,int64,password"
                ),
                (
                    'spec.additionalPrinterColumns[0].JSONPath: Invalid value: "z": '
                    "must be a simple json path starting with ."
                ),
            ],
        ),
    ],
)
def test_refused_at_creation(spec: Json, expected: list[str]) -> None:
    assert created(**spec) == expected


def test_the_name_is_plural_and_group() -> None:
    obj = crd()
    obj["metadata"]["name"] = "x.g.example.com"
    default_crd(obj)
    assert [str(error) for error in validate_crd_create(obj)] == [
        'metadata.name: Invalid value: "x.g.example.com": must be spec.names.plural+"."+spec.group'
    ]


def test_exactly_one_version_is_stored_and_names_are_unique() -> None:
    shown = (
        '[{"Name":"v1","Served":true,"Storage":false,"Deprecated":false,"DeprecationWarning":null,"Schema":null,'
        '"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null}]'
    )
    assert created(versions=[version(storage=False)]) == [
        f"spec.versions: Invalid value: {shown}: must have exactly one version marked as storage version",
        "status.storedVersions: Invalid value: null: must have at least one stored version",
    ]
    [unique, storage, stored] = created(versions=[version(), version()])
    assert unique.endswith(": must contain unique version names")
    assert storage.endswith(": must have exactly one version marked as storage version")
    assert stored == 'status.storedVersions: Invalid value: ["v1"]: must have the storage version v1'


def test_paths_show_whether_versions_share_their_schema() -> None:
    bad = {"openAPIV3Schema": {"type": "string"}}
    text = 'type: Invalid value: "string": must be object at the root'
    assert created(versions=[version(schema=bad), version("v2", schema=bad)]) == [
        f"spec.validation.openAPIV3Schema.{text}"
    ]
    assert created(versions=[version(), version("v2", schema=bad)]) == [
        f"spec.versions[1].schema.openAPIV3Schema.{text}"
    ]


SELECTABLE = {
    "openAPIV3Schema": {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "a": {"type": "string"},
                    "o": {"type": "object"},
                    **{f"f{i}": {"type": "integer"} for i in range(9)},
                },
            }
        },
    }
}


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ([".spec.a", ".spec.f0"], []),
        ([".spec.a", ".spec.a"], ['[1].jsonPath: Duplicate value: ".spec.a"']),
        ([""], ["[0].jsonPath: Required value"]),
        (
            [".spec.z"],
            ['[0].jsonPath: Invalid value: ".spec.z": is an invalid path: does not refer to a valid field'],
        ),
        (
            [".spec['a']"],
            [
                "[0].jsonPath: Invalid value: \".spec['a']\": is an invalid path: array notation is not allowed"
            ],
        ),
        (
            [".spec.o"],
            [
                (
                    '[0].jsonPath: Invalid value: ".spec.o": must point to a field of type string, boolean or integer. '
                    "Enum string fields and strings with formats are allowed."
                )
            ],
        ),
        ([f".spec.f{i}" for i in range(9)], [": Too many: 9: must have at most 8 items"]),
    ],
)
def test_selectable_fields(paths: list[str], expected: list[str]) -> None:
    fields = [{"jsonPath": path} for path in paths]
    texts = created(versions=[version(schema=SELECTABLE, selectableFields=fields)])
    assert texts == [f"spec.selectableFields{text}" for text in expected]


def test_selectable_fields_that_differ_need_schemas_that_differ() -> None:
    versions = [
        version(schema=SELECTABLE, selectableFields=[{"jsonPath": ".spec.a"}]),
        version("v2", schema=SELECTABLE),
    ]
    assert created(versions=versions) == [
        (
            'spec.versions[0].selectableFields: Invalid value: "": '
            "may only be set when `version.schema.openAPIV3Schema` is not included"
        )
    ]


def webhook(**client: Any) -> Json:
    return {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client}}


FORM = "; desired format: https://host[/path]"


@pytest.mark.parametrize(
    ("conversion", "expected"),
    [
        (webhook(url="https://a/b"), []),
        (webhook(service={"namespace": "n", "name": "s"}), []),
        ({"strategy": "X"}, ['strategy: Unsupported value: "X": supported values: "None", "Webhook"']),
        (
            {"strategy": "Webhook"},
            [
                "webhookClientConfig: Required value: required when strategy is set to Webhook",
                "conversionReviewVersions: Required value",
            ],
        ),
        (webhook(), ["webhookClientConfig: Required value: exactly one of url or service is required"]),
        (
            webhook(url="http://a?b#c"),
            [
                f"webhookClientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme{FORM}",
                'webhookClientConfig.url: Invalid value: "c": fragments are not permitted in the URL',
                'webhookClientConfig.url: Invalid value: "b": query parameters are not permitted in the URL',
            ],
        ),
        (
            webhook(url=":x"),
            [
                (
                    "webhookClientConfig.url: Required value: url must be a valid URL: "
                    f'parse ":x": missing protocol scheme{FORM}'
                )
            ],
        ),
        # name and namespace change places, as upstream has it
        (webhook(service={"namespace": "n"}), ["webhookClientConfig.service.namespace: Required value"]),
        (
            webhook(service={"namespace": "n", "name": "s", "port": 0, "path": "//"}),
            [
                (
                    "webhookClientConfig.service.port: Invalid value: 0: "
                    "port is not valid: must be between 1 and 65535, inclusive"
                ),
                'webhookClientConfig.service.path: Invalid value: "//": segment[0] may not be empty',
            ],
        ),
        (
            {
                "strategy": "Webhook",
                "webhook": {"conversionReviewVersions": ["v2", "v2"], "clientConfig": {"url": "https://a"}},
            },
            [
                'conversionReviewVersions[1]: Invalid value: "v2": duplicate version',
                'conversionReviewVersions: Invalid value: ["v2","v2"]: must include at least one of v1, v1beta1',
            ],
        ),
        (
            {
                "strategy": "None",
                "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://a"}},
            },
            [
                "webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook",
                "conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook",
            ],
        ),
    ],
)
def test_conversion(conversion: Json, expected: list[str]) -> None:
    assert created(conversion=conversion) == [f"spec.conversion.{text}" for text in expected]


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (
            "",
            [
                (
                    "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval "
                    'annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111'
                )
            ],
        ),
        (
            "trust me",
            [
                (
                    'metadata.annotations[api-approved.kubernetes.io]: Invalid value: "trust me": protected groups must '
                    'have approval annotation "api-approved.kubernetes.io" with either a URL or a reason starting with '
                    '"unapproved", see https://github.com/kubernetes/enhancements/pull/1111'
                )
            ],
        ),
        ("https://github.com/kubernetes/kubernetes/pull/1", []),
        ("unapproved, experimental", []),
    ],
)
@pytest.mark.parametrize("group", ["x.k8s.io", "x.kubernetes.io"])
def test_community_groups_need_an_approval(group: str, annotation: str, expected: list[str]) -> None:
    obj = crd(group=group)
    obj["metadata"]["annotations"] = {"api-approved.kubernetes.io": annotation}
    default_crd(obj)
    assert [str(error) for error in validate_crd_create(obj)] == expected
    # what was not approved before need not be now
    assert validate_crd_update(obj, copy.deepcopy(obj)) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"scope": "Cluster"}, 'spec.scope: Invalid value: "Cluster": field is immutable'),
        ({"group": "h.example.com"}, 'spec.group: Invalid value: "h.example.com": field is immutable'),
        (
            {"names": {"plural": "others", "kind": "Thing"}},
            'spec.names.plural: Invalid value: "others": field is immutable',
        ),
        (
            {"names": {"plural": "things", "kind": "Other"}},
            'spec.names.kind: Invalid value: "Other": field is immutable',
        ),
    ],
)
def test_immutable_once_established(change: Json, expected: str) -> None:
    assert updated(established(), **change) == [expected]


def test_scope_and_kind_may_change_before_that() -> None:
    obj = crd()
    default_crd(obj)
    assert updated(obj, scope="Cluster", names={"plural": "things", "kind": "Other"}) == []


def test_stored_versions_must_remain() -> None:
    old = established(versions=[version()])
    assert updated(old, versions=[version("v2", storage=True)]) == [
        'status.storedVersions: Invalid value: ["v1"]: must have the storage version v2',
        (
            'status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage '
            "version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 "
            "and removes v1 from status.storedVersions"
        ),
    ]


def test_an_update_may_keep_old_sins_but_not_add_new_ones() -> None:
    item = {"type": "object", "properties": {"a": {"type": "string"}}}
    sinful = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["a"],
        "items": item,
    }
    bad = version(schema={"openAPIV3Schema": {"type": "object", "properties": {"spec": sinful}}})
    assert updated(established(versions=[bad]), scope="Namespaced") == []
    assert len(updated(established(), versions=[bad])) == 1


def test_an_old_ca_bundle_may_stay_invalid() -> None:
    broken = webhook(url="https://a", caBundle="eA==")
    assert created(conversion=broken) == []
    assert updated(established(conversion=broken)) == []
    [error] = updated(established(), conversion=broken)
    assert error.startswith(
        'spec.conversion.webhookClientConfig.caBundle: Invalid value: "eA==": unable to load'
    )


def test_formats_without_meaning_are_warned_about_once_they_appear() -> None:
    def with_format(name: str, type_: str = "string") -> Json:
        return crd(
            versions=[
                version(
                    schema={
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "a": {"type": type_, "format": name},
                                "b": {"format": "date-time"},
                            },
                        }
                    }
                )
            ]
        )

    assert crd_warnings(with_format("date")) == []
    assert crd_warnings(with_format("int32", "integer")) == []
    assert crd_warnings(with_format("int32")) == ['unrecognized format "int32"']
    assert crd_warnings(with_format("date", "object")) == ['unrecognized format "date"']
    assert crd_warnings(with_format("mine"), with_format("mine")) == []
    assert crd_warnings(with_format("mine"), with_format("yours")) == ['unrecognized format "mine"']


def test_status_writes_check_the_accepted_names() -> None:
    obj = established()
    obj["status"]["acceptedNames"] = {"plural": "Things", "kind": "Thing"}
    assert [str(error) for error in validate_crd_status_update(obj, established())] == [
        f'status.acceptedNames.plural: Invalid value: "Things": {DNS1035}'
    ]


@pytest.mark.parametrize(
    "obj",
    [
        {},
        {"spec": None, "status": 5},
        {"spec": [], "metadata": "x"},
        {"spec": {"versions": "x", "names": 5, "conversion": [], "group": 7, "scope": {}}},
        {
            "spec": {
                "versions": [None, 5, {"name": 5, "schema": "x", "subresources": [], "selectableFields": [1]}]
            }
        },
        {"spec": {"versions": [{"schema": {"openAPIV3Schema": {"properties": {"a": []}, "required": 5}}}]}},
        {
            "spec": {
                "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"service": {"port": "x"}}}}
            }
        },
    ],
)
def test_any_document_is_answered_with_errors(obj: Json) -> None:
    default_crd(obj)
    assert validate_crd_create(obj) != []
    assert isinstance(validate_crd_update(obj, copy.deepcopy(obj)), list)
