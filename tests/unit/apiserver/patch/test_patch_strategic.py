"""Strategic merge patch on built-in types: strategies, merge keys, directives, errors."""

import copy
from typing import Any

import pytest

from quarterdeck.apiserver.document import typetable
from quarterdeck.apiserver.registry.patch import strategic
from quarterdeck.apiserver.status import StatusError

Json = dict[str, Any]

DEPLOYMENT = typetable.struct_for("apps", "v1", "Deployment")
POD = typetable.struct_for("", "v1", "Pod")
SERVICE = typetable.struct_for("", "v1", "Service")
CONFIGMAP = typetable.struct_for("", "v1", "ConfigMap")
NODE = typetable.struct_for("", "v1", "Node")


def patched(original: Json, patch: Json, struct: typetable.StructType = POD) -> Json:
    before = copy.deepcopy((original, patch))
    result = strategic.apply(original, patch, struct)
    assert (original, patch) == before, "an argument was changed"
    return result


def pod(*containers: Json, **spec: Any) -> Json:
    return {"spec": {"containers": list(containers), **spec}}


def names(obj: Json, field: str = "containers", key: str = "name") -> list[Any]:
    return [item[key] for item in obj["spec"][field]]


def test_maps_are_merged_and_null_deletes() -> None:
    original = {"data": {"a": "1", "b": "2"}}
    assert patched(original, {"data": {"a": None, "c": "3"}}, CONFIGMAP) == {"data": {"b": "2", "c": "3"}}


def test_keyed_lists_are_merged_by_key() -> None:
    original = pod(
        {"name": "a", "image": "i", "env": [{"name": "X", "value": "1"}]}, {"name": "b", "image": "i"}
    )
    patch = pod({"name": "a", "env": [{"name": "Y", "value": "2"}]})
    assert patched(original, patch) == pod(
        {"name": "a", "image": "i", "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]},
        {"name": "b", "image": "i"},
    )


def test_lists_without_the_merge_strategy_are_replaced() -> None:
    original = pod({"name": "a", "command": ["x", "y"]}, tolerations=[{"key": "a"}])
    patch = pod({"name": "a", "command": ["z"]}, tolerations=[{"key": "b"}])
    assert patched(original, patch) == pod({"name": "a", "command": ["z"]}, tolerations=[{"key": "b"}])


def test_lists_of_scalars_with_the_merge_strategy_are_united() -> None:
    original = {"metadata": {"finalizers": ["a", "b"]}}
    assert patched(original, {"metadata": {"finalizers": ["c", "a"]}}) == {
        "metadata": {"finalizers": ["c", "a", "b"]}
    }


@pytest.mark.parametrize(
    ("struct", "path", "key", "values"),
    [
        (POD, ("spec", "volumes"), "name", ("v", "w")),
        (POD, ("spec", "hostAliases"), "ip", ("1.1.1.1", "2.2.2.2")),
        (POD, ("spec", "topologySpreadConstraints"), "topologyKey", ("x", "y")),
        (POD, ("spec", "imagePullSecrets"), "name", ("x", "y")),
        (POD, ("status", "podIPs"), "ip", ("1.1.1.1", "2.2.2.2")),
        (POD, ("metadata", "ownerReferences"), "uid", ("x", "y")),
        (SERVICE, ("spec", "ports"), "port", (80, 81)),
        (NODE, ("status", "conditions"), "type", ("x", "y")),
        (NODE, ("status", "addresses"), "type", ("x", "y")),
    ],
)
def test_merge_keys(
    struct: typetable.StructType, path: tuple[str, str], key: str, values: tuple[Any, Any]
) -> None:
    first, second = values
    original = {path[0]: {path[1]: [{key: first, "mark": 1}]}}
    result = patched(original, {path[0]: {path[1]: [{key: first, "more": 1}, {key: second}]}}, struct)
    assert result[path[0]][path[1]] == [{key: first, "mark": 1, "more": 1}, {key: second}]


def test_the_patch_decides_the_order_of_its_items_the_rest_stays_near() -> None:
    original = pod({"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"})
    assert names(patched(original, pod({"name": "d"}, {"name": "b"}))) == ["a", "c", "d", "b"]


def test_new_items_come_first() -> None:
    original = pod({"name": "a"}, {"name": "b"})
    assert names(patched(original, pod({"name": "x"}))) == ["x", "a", "b"]


def test_delete_directive_in_an_item() -> None:
    original = pod({"name": "a"}, {"name": "b"})
    assert names(patched(original, pod({"name": "a", "$patch": "delete"}))) == ["b"]


def test_delete_directive_for_a_missing_item_does_nothing() -> None:
    assert names(patched(pod({"name": "a"}), pod({"name": "x", "$patch": "delete"}))) == ["a"]


def test_replace_directive_in_a_list() -> None:
    original = pod({"name": "a", "image": "i"}, {"name": "b"})
    assert patched(original, pod({"$patch": "replace"}, {"name": "z"})) == pod({"name": "z"})


def test_replace_directive_in_a_map() -> None:
    original = {"data": {"a": "1"}}
    assert patched(original, {"data": {"$patch": "replace", "b": "2"}}, CONFIGMAP) == {"data": {"b": "2"}}


def test_delete_directive_in_a_map_empties_it() -> None:
    original = {"data": {"a": "1"}}
    assert patched(original, {"data": {"$patch": "delete"}}, CONFIGMAP) == {"data": {}}


def test_directives_for_what_is_not_there_leave_nothing_behind() -> None:
    patch = {"data": {"$patch": "replace", "a": "1"}, "metadata": {"labels": {"x": None, "y": "1"}}}
    assert patched({}, patch, CONFIGMAP) == {"metadata": {"labels": {"y": "1"}}}


def test_deletion_from_a_list_of_scalars() -> None:
    original = {"metadata": {"finalizers": ["a", "b", "c"]}}
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "x"]}}
    assert patched(original, patch) == {"metadata": {"finalizers": ["b", "c"]}}


def test_deletion_and_addition_together() -> None:
    original = {"metadata": {"finalizers": ["a", "b"]}}
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["z"]}}
    assert patched(original, patch) == {"metadata": {"finalizers": ["z", "b"]}}


def test_deletion_from_a_list_that_is_not_there() -> None:
    assert patched({"metadata": {}}, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}) == {
        "metadata": {}
    }


@pytest.mark.parametrize(
    ("live", "order", "result"),
    [
        ("abc", "cba", "cba"),
        ("abcd", "db", "acdb"),
        ("abcd", "dcba", "dcba"),
        ("ab", "xba", "ba"),
        ("abc", "", "abc"),
    ],
)
def test_set_element_order_alone_reorders(live: str, order: str, result: str) -> None:
    original = pod(*({"name": name} for name in live))
    patch = {"spec": {"$setElementOrder/containers": [{"name": name} for name in order]}}
    assert "".join(names(patched(original, patch))) == result


def test_set_element_order_with_changes() -> None:
    original = pod({"name": "a"}, {"name": "b"}, {"name": "server"})
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}],
            "containers": [{"name": "c", "image": "i"}, {"name": "a", "$patch": "delete"}],
        }
    }
    # c is in the place that a left, behind server: that is what strategicpatch of apimachinery answers
    assert patched(original, patch) == pod({"name": "server"}, {"name": "c", "image": "i"}, {"name": "b"})


def test_set_element_order_of_scalars() -> None:
    original = {"metadata": {"finalizers": ["a", "b", "c"]}}
    patch = {"metadata": {"$setElementOrder/finalizers": ["z", "c"], "finalizers": ["z"]}}
    assert patched(original, patch) == {"metadata": {"finalizers": ["z", "a", "b", "c"]}}


def test_set_element_order_of_a_list_that_is_new() -> None:
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
            "containers": [{"name": "b"}, {"name": "a"}],
        }
    }
    assert names(patched({"spec": {}}, patch)) == ["b", "a"]


def test_retain_keys() -> None:
    original = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert patched(original, patch, DEPLOYMENT) == {"spec": {"strategy": {"type": "Recreate"}}}


def test_retain_keys_in_an_item() -> None:
    original = {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}
    patch = {
        "spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}
    }
    assert patched(original, patch) == {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}}


def test_a_value_of_another_kind_replaces() -> None:
    original = {"spec": {"ports": [{"port": 80, "targetPort": 8080}]}}
    patch = {"spec": {"ports": [{"port": 80, "targetPort": "web"}]}}
    assert patched(original, patch, SERVICE) == {"spec": {"ports": [{"port": 80, "targetPort": "web"}]}}


def test_unknown_fields_are_taken_as_they_are() -> None:
    assert patched({}, {"spec": {"unknown": {"x": 1}}}) == {"spec": {"unknown": {"x": 1}}}


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        ({"data": {"$patch": "bogus"}}, 500, "unknown patch type: bogus in map: map[$patch:bogus]"),
        ({"data": {"$retainKeys": ["k"], "z": "1"}}, 400, "invalid patch format of retainKeys"),
        ({"data": {"$retainKeys": "k"}}, 400, "invalid patch format of retainKeys"),
        ({"metadata": {"$deleteFromPrimitiveList": ["a"]}}, 400, "invalid patch format of primitive list"),
        ({"metadata": {"$setElementOrder": ["a"]}}, 400, "invalid patch format of setElementOrder list"),
        (
            {"metadata": {"$setElementOrder/finalizers": 5}},
            500,
            "expected a []interface {}, but received a int64",
        ),
        (
            {"metadata": {"$setElementOrder/bogus": ["a"]}},
            500,
            'unable to find api field in struct ObjectMeta for the json field "bogus"',
        ),
        (
            {"metadata": {"$setElementOrder/finalizers": ["zz"], "finalizers": ["yy"]}},
            500,
            "The order in patch list:\n[yy]\n doesn't match $setElementOrder list:\n[zz]\n",
        ),
        (
            {"metadata": {"ownerReferences": [{"name": "x"}]}},
            500,
            "map: map[name:x] does not contain declared merge key: uid",
        ),
        (
            {"metadata": {"ownerReferences": [{"$patch": "merge", "uid": "x"}]}},
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        (
            {"metadata": {"ownerReferences": [{"$patch": "odd", "uid": "x"}]}},
            500,
            "unknown patch type: odd in map: map[$patch:odd uid:x]",
        ),
        (
            {"metadata": {"ownerReferences": ["x"]}},
            500,
            "list element types are not identical: [[map[uid:u]] [x]]",
        ),
    ],
)
def test_errors(patch: Json, code: int, message: str) -> None:
    original = {"metadata": {"finalizers": ["a"], "ownerReferences": [{"uid": "u"}]}, "data": {"a": "1"}}
    with pytest.raises(StatusError) as caught:
        patched(original, patch, CONFIGMAP)
    assert (caught.value.code, caught.value.message) == (code, message)
    assert caught.value.reason == ("BadRequest" if code == 400 else "")


def test_maps_of_objects_cannot_be_merged_into() -> None:
    crd = typetable.struct_for("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    schema = {"properties": {"a": {"type": "string"}}}
    original = {"spec": {"conversion": {"strategy": "None"}, "names": {"kind": "K"}}, "status": {}}
    assert patched(original, {"spec": {"names": {"kind": "L"}}}, crd)["spec"]["names"] == {"kind": "L"}
    inner = typetable.struct("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
    with pytest.raises(
        StatusError, match="merging an object in json but data type is not struct, instead is: map"
    ):
        patched(schema, {"properties": {"a": {"type": "integer"}}}, inner)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "unexpected end of JSON input"),
        (b"[]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
    ],
)
def test_malformed_bodies(body: bytes, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        strategic.decode(body)
    assert (caught.value.code, caught.value.message) == (400, message)


def test_null_is_an_empty_patch() -> None:
    assert strategic.decode(b"null") == {}
