"""Conversion: mapping, Hybrid, checks, and the review protocol."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from quarterdeck.errors import Forbidden
from quarterdeck.operators.nodegroup import names
from quarterdeck.operators.nodegroup.logic.conversion import ConversionError, convert_with
from quarterdeck.operators.nodegroup.webhooks import ClusterReader, NodeGroupConverter
from quarterdeck.runtime.webhook.convert_endpoint import ConversionEndpoint
from quarterdeck.wire.http import Request

from .clusterfake import FakeCluster

Json = dict[str, Any]


def group(version: str = names.V1ALPHA2, name: str = "worker", **spec: Any) -> Json:
    return {"apiVersion": version, "kind": names.KIND, "metadata": {"name": name}, "spec": spec}


def convert(document: Any, target: str, *permanent: str) -> Any:
    return convert_with(document, target, lambda: permanent)


def never() -> list[str]:
    raise AssertionError("the provider configuration was read")


def test_hybrid_master_is_permanent_without_the_provider_configuration() -> None:
    converted = convert_with(group(name="master", nodeType="Hybrid"), names.V1, never)
    assert converted["spec"]["nodeType"] == "CloudPermanent"


def test_hybrid_is_resolved_by_annotation_then_by_provider_configuration() -> None:
    annotated = group(nodeType="Hybrid")
    annotated["metadata"]["annotations"] = {names.PERMANENT_NODE_GROUP: "true"}
    assert convert(annotated, names.V1)["spec"]["nodeType"] == "CloudPermanent"
    annotated["metadata"]["annotations"] = {names.PERMANENT_NODE_GROUP: "True"}
    assert convert(annotated, names.V1)["spec"]["nodeType"] == "CloudStatic"
    assert convert(group(nodeType="Hybrid"), names.V1, "worker")["spec"]["nodeType"] == "CloudPermanent"


def test_hybrid_stays_hybrid_between_old_versions() -> None:
    converted = convert_with(group(nodeType="Hybrid"), names.V1ALPHA1, never)
    assert converted["spec"] == {"nodeType": "Hybrid"}


def test_an_object_of_the_wanted_version_is_returned_unchanged_whatever_it_is() -> None:
    odd = {"apiVersion": names.V1, "kind": "Other", "spec": 7, "metadata": {"annotations": {"a": 1}}}
    assert convert(odd, names.V1) is odd


def test_absent_stays_absent_and_zero_values_stay() -> None:
    bare = {"apiVersion": names.V1ALPHA1, "kind": names.KIND, "metadata": {"name": "w"}}
    assert convert(bare, names.V1) == {**bare, "apiVersion": names.V1}
    zero = {**group(names.V1ALPHA1, cri={}, kubelet={}), "status": {"ready": 0, "error": ""}}
    assert convert(zero, names.V1) == {**zero, "apiVersion": names.V1}


def test_unknown_fields_are_pruned_at_every_depth() -> None:
    document = {**group(nodeType="Cloud", kubelet={"maxPods": 1, "bogus": 1}, bogus={}), "extra": 1}
    document["spec"]["nodeTemplate"] = {"taints": [{"key": "a", "bogus": 1}]}
    assert convert(document, names.V1)["spec"] == {
        "nodeType": "CloudEphemeral",
        "kubelet": {"maxPods": 1},
        "nodeTemplate": {"taints": [{"key": "a"}]},
    }


def test_docker_settings_replace_a_stray_section_and_keep_a_chosen_type() -> None:
    document = group(names.V1ALPHA1, docker={"manage": True}, cri={"type": "Containerd", "docker": {"x": 1}})
    assert convert(document, names.V1)["spec"]["cri"] == {"type": "Containerd", "docker": {"manage": True}}


def test_containerd_v2_settings_give_way_to_containerd_settings() -> None:
    cri = {"type": "ContainerdV2", "containerd": {}, "containerdV2": {"maxConcurrentDownloads": 1}}
    converted = convert(group(names.V1, nodeType="Static", cri=cri), names.V1ALPHA2)
    assert converted["spec"]["cri"] == {"type": "Containerd", "containerd": {}}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (7, "parse object metadata: not a JSON object"),
        ({"apiVersion": 7}, "parse object metadata: apiVersion: not a string"),
        ({**group(), "metadata": []}, "parse object metadata: metadata: not a JSON object"),
        ({**group(), "metadata": {"name": 7}}, "parse object metadata: metadata.name: not a string"),
        (
            {**group(), "metadata": {"annotations": {"a": 1}}},
            "parse object metadata: metadata.annotations: not a map of strings",
        ),
        ({**group(), "kind": "NodeUser"}, "unsupported kind: NodeUser"),
        (group("deckhouse.io/v9"), "convert to hub: unsupported source version: deckhouse.io/v9"),
        (
            group(nodeType=7),
            "convert to hub: failed to unmarshal v1alpha2: spec.nodeType: expected string, got number",
        ),
        (
            {**group(), "spec": []},
            "convert to hub: failed to unmarshal v1alpha2: spec: expected object, got array",
        ),
        (
            group(nodeTemplate={"taints": [{"key": {}}]}),
            (
                "convert to hub: failed to unmarshal v1alpha2: spec.nodeTemplate.taints[0].key: "
                "expected string, got object"
            ),
        ),
        (
            group(cloudInstances={"standby": 1.5}),
            (
                "convert to hub: failed to unmarshal v1alpha2: spec.cloudInstances.standby: "
                "expected integer or string, got number"
            ),
        ),
    ],
)
def test_what_cannot_be_converted_is_refused_with_its_place_and_reason(document: Any, message: str) -> None:
    with pytest.raises(ConversionError) as error:
        convert_with(document, names.V1, never)
    assert str(error.value) == message


def test_types_are_checked_before_the_wanted_version() -> None:
    with pytest.raises(ConversionError, match="failed to unmarshal"):
        convert(group(nodeType=7), "deckhouse.io/v9")
    with pytest.raises(ConversionError, match=r"^unsupported desired version: deckhouse\.io/v9$"):
        convert(group(nodeType="Cloud"), "deckhouse.io/v9")


def review(target: str, *objects: Any) -> Json:
    request = {"uid": "u-1", "desiredAPIVersion": target, "objects": list(objects)}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}


def endpoint(cluster: FakeCluster | None = None) -> ConversionEndpoint:
    found = ConversionEndpoint()
    found.add(NodeGroupConverter(ClusterReader(cluster or FakeCluster())))
    return found


def ask(body: Any, cluster: FakeCluster | None = None) -> Json:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = asyncio.run(endpoint(cluster).handle(Request("POST", names.CONVERT_PATH, body=raw)))
    assert response.status == 200
    assert response.content_type == "application/json"
    answer: Json = json.loads(response.body)
    return answer


def failure(message: str, uid: str = "u-1") -> Json:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "response": {
            "uid": uid,
            "convertedObjects": [],
            "result": {"metadata": {}, "status": "Failure", "message": message},
        },
    }


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "failed to unmarshal conversion review"),
        (b"not json", "failed to unmarshal conversion review"),
        (b"[]", "failed to unmarshal conversion review"),
        (b'{"request": 7}', "failed to unmarshal conversion review"),
        (b'{"request": {"objects": 7}}', "failed to unmarshal conversion review"),
        (b"\xff\xfe", "failed to unmarshal conversion review"),
        (b"[" * 100_000, "failed to unmarshal conversion review"),
        (b"{}", "conversion review request is nil"),
        (b'{"request": null}', "conversion review request is nil"),
    ],
)
def test_bodies_that_are_no_review_are_answered_with_a_failure(body: bytes, message: str) -> None:
    assert ask(body) == failure(message, uid="")


def test_a_body_beyond_the_limit_is_unreadable() -> None:
    request = Request("POST", names.CONVERT_PATH, is_too_large=True)
    answer = json.loads(asyncio.run(endpoint().handle(request)).body)
    assert answer == failure("failed to read request body", uid="")


def test_an_empty_list_is_an_empty_success() -> None:
    assert ask(review(names.V1))["response"] == {
        "uid": "u-1",
        "convertedObjects": [],
        "result": {"metadata": {}, "status": "Success"},
    }


def test_objects_come_back_in_order_with_their_metadata_untouched() -> None:
    old = group(nodeType="Cloud")
    old["metadata"] |= {"uid": "x", "managedFields": [{"fieldsV1": {"f:spec": {}}}], "labels": {"a": "b"}}
    same = {**group(names.V1, nodeType="Static"), "unknown": [1]}
    answer = ask(review(names.V1, old, same, group(names.V1ALPHA1, nodeType="Static")))
    first, second, third = answer["response"]["convertedObjects"]
    assert first == {**old, "apiVersion": names.V1, "spec": {"nodeType": "CloudEphemeral"}}
    assert second == same
    assert third["apiVersion"] == names.V1


def test_one_bad_object_fails_the_review_without_objects() -> None:
    answer = ask(review(names.V1, group(nodeType="Cloud"), 7))
    assert answer == failure(
        "failed to convert object 1: parse object metadata: Expected `object`, got `int`"
    )


def test_the_provider_configuration_is_read_once_for_many_groups() -> None:
    cluster = FakeCluster()
    cluster.add_secret(
        names.PROVIDER_SECRET, **{names.PROVIDER_CONFIGURATION_KEY: b"nodeGroups: [{name: g1}, {}]"}
    )
    odd = group(name="g1", nodeType="Hybrid", unknown=1)  # converted as a document, unlike the others
    groups = [group(name=f"g{number}", nodeType="Hybrid") for number in range(3)]
    objects = ask(review(names.V1, *groups, odd), cluster)["response"]["convertedObjects"]
    types = [one["spec"]["nodeType"] for one in objects]
    assert types == ["CloudStatic", "CloudPermanent", "CloudStatic", "CloudPermanent"]
    assert cluster.reads == [names.PROVIDER_SECRET]


def test_a_missing_provider_secret_means_no_permanent_groups() -> None:
    answer = ask(review(names.V1, group(nodeType="Hybrid")))
    assert answer["response"]["convertedObjects"][0]["spec"]["nodeType"] == "CloudStatic"


@pytest.mark.parametrize(
    "content", [b"not: valid: yaml: {{", b"- a list", b"nodeGroups: 7", b"nodeGroups: [7]"]
)
def test_a_broken_provider_secret_fails_only_reviews_that_need_it(content: bytes) -> None:
    cluster = FakeCluster()
    cluster.add_secret(names.PROVIDER_SECRET, **{names.PROVIDER_CONFIGURATION_KEY: content})
    assert (
        ask(review(names.V1, group(nodeType="Cloud")), cluster)["response"]["result"]["status"] == "Success"
    )
    result = ask(review(names.V1, group(nodeType="Hybrid")), cluster)["response"]["result"]
    prefix = "failed to load provider config: failed to parse cloud-provider-cluster-configuration.yaml: "
    assert result["status"] == "Failure"
    assert result["message"].startswith(prefix)


def test_a_read_error_names_the_secret() -> None:
    cluster = FakeCluster(error=Forbidden("no access"))
    assert ask(review(names.V1, group(nodeType="Hybrid")), cluster) == failure(
        "failed to load provider config: failed to get secret "
        "kube-system/d8-provider-cluster-configuration: no access"
    )


def test_five_thousand_objects_are_converted_in_one_review() -> None:
    groups = [group(name=f"g{number}", nodeType="Hybrid") for number in range(5000)]
    objects = ask(review(names.V1, *groups))["response"]["convertedObjects"]
    assert [one["metadata"]["name"] for one in objects] == [one["metadata"]["name"] for one in groups]
