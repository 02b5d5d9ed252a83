"""Conversion: order, all or nothing, what must not change, and there and back again."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from quarterdeck.api import GroupVersionKind, ObjectMeta, Resource, crd
from quarterdeck.errors import ConfigError
from quarterdeck.runtime.certificate import FileCertificates
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.runtime.webhook import (
    Conversion,
    Converter,
    ReviewConversion,
    ReviewFailed,
    Spoke,
    Unconvertible,
    UrlTarget,
    WebhookInstaller,
    WebhookOptions,
    WebhookServer,
    assert_roundtrip,
    stash,
    unstash,
)
from quarterdeck.runtime.webhook.convert_endpoint import ConversionEndpoint
from quarterdeck.wire.http import Request
from tests.unit.runtime.servicekit import (
    DEFINITION,
    Authority,
    BetaPool,
    Gang,
    OldPool,
    OldPoolSpec,
    Pool,
    PoolSpec,
    Web,
    client_of,
    embedded,
    install,
)

pytestmark = pytest.mark.real_time

V1, BETA, OLD = "example.io/v1", "example.io/v1beta1", "example.io/v1alpha1"


def old_to_hub(old: OldPool) -> Pool:
    metadata, kept = unstash(old.metadata)
    zone = kept.get("zone", "")
    return Pool(metadata=metadata, spec=PoolSpec(cidr=old.spec.network, zone=zone, sizes=old.spec.sizes))


def hub_to_old(hub: Pool) -> OldPool:
    metadata = stash(hub.metadata, {"zone": hub.spec.zone} if hub.spec.zone else {})
    return OldPool(metadata=metadata, spec=OldPoolSpec(network=hub.spec.cidr, sizes=hub.spec.sizes))


def conversion(**options: Any) -> Conversion:
    return Conversion(Pool, BetaPool, Spoke(OldPool, old_to_hub, hub_to_old), **options)


def pool(version: str = V1, name: str = "a", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": version,
        "kind": "Pool",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 3},
        "spec": spec,
    }


def review(desired: str, *objects: Any, version: str = "v1") -> dict[str, Any]:
    return {
        "apiVersion": f"apiextensions.k8s.io/{version}",
        "kind": "ConversionReview",
        "request": {"uid": "u-1", "desiredAPIVersion": desired, "objects": list(objects)},
    }


async def ask(body: Any, *conversions: Converter, metrics: RuntimeMetrics | None = None) -> dict[str, Any]:
    endpoint = ConversionEndpoint(panics=metrics.conversion_panics if metrics is not None else None)
    for each in conversions or (conversion(),):
        endpoint.add(each)
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = await endpoint.handle(Request("POST", "/convert", body=raw))
    assert response.status == 200
    answer: dict[str, Any] = json.loads(response.body)
    assert answer["kind"] == "ConversionReview"
    return answer


async def objects(body: Any, *conversions: Converter) -> list[dict[str, Any]]:
    answer = (await ask(body, *conversions))["response"]
    assert answer["result"]["status"] == "Success", answer
    assert answer["uid"] == "u-1"
    converted: list[dict[str, Any]] = answer["convertedObjects"]
    return converted


async def failure(body: Any, *conversions: Converter, metrics: RuntimeMetrics | None = None) -> str:
    answer = (await ask(body, *conversions, metrics=metrics))["response"]
    assert answer["result"]["status"] == "Failure"
    assert answer["convertedObjects"] == [], "all or nothing"
    message: str = answer["result"]["message"]
    return message


async def test_objects_of_mixed_versions_come_back_converted_and_in_order() -> None:
    sent = [
        pool(OLD, "a", network="10.0.0.0/8", sizes=[1]),
        pool(BETA, "b", net="10.1.0.0/16", zone="z"),
        pool(OLD, "c", network="10.2.0.0/16"),
        *(pool(BETA, f"n{i}", net=str(i)) for i in range(100)),
    ]
    converted = await objects(review(V1, *sent))
    assert [each["metadata"]["name"] for each in converted] == [each["metadata"]["name"] for each in sent]
    assert {each["apiVersion"] for each in converted} == {V1}
    assert converted[0]["spec"] == {"cidr": "10.0.0.0/8", "sizes": [1]}
    assert converted[1]["spec"] == {"cidr": "10.1.0.0/16", "zone": "z"}
    assert [each["metadata"] for each in converted] == [each["metadata"] for each in sent]


async def test_two_spokes_go_through_the_hub() -> None:
    [converted] = await objects(review(OLD, pool(BETA, net="10.0.0.0/8", zone="z")))
    assert converted["apiVersion"] == OLD
    assert converted["spec"] == {"network": "10.0.0.0/8"}
    assert "z" in converted["metadata"]["annotations"]["quarterdeck.io/conversion-data"]


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_the_envelope_is_echoed_and_an_empty_list_is_a_success(version: str) -> None:
    answer = await ask(review(V1, version=version))
    assert answer["apiVersion"] == f"apiextensions.k8s.io/{version}"
    assert answer["response"]["convertedObjects"] == []
    assert answer["response"]["result"] == {"metadata": {}, "status": "Success"}


async def test_unknown_fields_and_metadata_survive() -> None:
    sent = pool(BETA, net="x", future={"deep": True})
    sent["metadata"] |= {
        "labels": {"a": "b"},
        "futureMeta": 1,
        "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}],
        "creationTimestamp": None,
    }
    [converted] = await objects(review(V1, sent))
    assert converted["metadata"] == sent["metadata"]


async def test_one_bad_object_fails_the_whole_review() -> None:
    message = await failure(review(V1, pool(BETA, net="x"), pool(BETA, net=7), pool(BETA, net="y")))
    assert message.startswith("failed to convert object 1: convert to hub: failed to unmarshal v1beta1: ")
    assert "spec.net" in message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "failed to unmarshal conversion review"),
        (b"{", "failed to unmarshal conversion review"),
        (b"[]", "failed to unmarshal conversion review"),
        (b'{"kind":"\xff"}', "failed to unmarshal conversion review"),
        (b"[" * 100_000, "failed to unmarshal conversion review"),
        (
            json.dumps(review(V1, "@")).encode().replace(b'"@"', b'{"a":' * 20_000 + b"1" + b"}" * 20_000),
            "failed to unmarshal conversion review",
        ),
        ({"apiVersion": "v1", "kind": "Pod"}, "failed to unmarshal conversion review"),
        (
            {"apiVersion": "apiextensions.k8s.io/v2", "kind": "ConversionReview", "request": {}},
            "failed to unmarshal conversion review",
        ),
        (
            {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"},
            "conversion review request is nil",
        ),
        ({}, "conversion review request is nil"),
        ({"request": None}, "conversion review request is nil"),
        (review(V1, "text"), "failed to convert object 0: parse object metadata: "),
        (
            review(V1, {"apiVersion": OLD, "kind": "Lake"}),
            "failed to convert object 0: unsupported kind: Lake",
        ),
        (
            review(V1, pool("elsewhere.io/v1")),
            "failed to convert object 0: convert to hub: unsupported source version: elsewhere.io/v1",
        ),
        (
            review(V1, {"kind": "Pool"}),
            "failed to convert object 0: convert to hub: unsupported source version: ",
        ),
        (
            review(V1, pool("example.io/v9")),
            "failed to convert object 0: convert to hub: unsupported source version: example.io/v9",
        ),
        (
            review("example.io/v9", pool(OLD)),
            "failed to convert object 0: unsupported desired version: example.io/v9",
        ),
        (
            review("other.io/v1", pool(OLD)),
            (
                "failed to convert object 0: "
                "src example.io/v1alpha1 and dst other.io does not belong to same API Group"
            ),
        ),
        (
            review(V1, pool(V1)),
            "failed to convert object 0: conversion is not allowed between same type example.io/v1 Pool",
        ),
    ],
)
async def test_bad_input_is_a_failure_inside_a_review(body: Any, message: str) -> None:
    answer = await failure(body)
    assert answer == message if not message.endswith(": ") else answer.startswith(message)


async def test_the_same_version_can_be_kept() -> None:
    [kept] = await objects(review(V1, pool(V1, cidr="x", odd=1)), conversion(same_version="keep"))
    assert kept == pool(V1, cidr="x", odd=1)


async def test_an_unknown_kind_that_needs_no_conversion_is_handed_back() -> None:
    lake = {"apiVersion": V1, "kind": "Lake", "depth": 7}
    assert await objects(review(V1, pool(OLD), lake)) == [pool(V1), lake]


class Counting:
    """A converter of its own: knows both ends, and what it has seen in this review."""

    gvk = GroupVersionKind("example.io", "v1", "Well")
    definition = "wells.example.io"

    async def begin(self, target: str) -> ReviewConversion:
        if target == "example.io/closed":
            raise Unconvertible("no permission to look")
        return CountingReview(target)


class CountingReview:
    def __init__(self, target: str) -> None:
        self._target = target
        self._seen = 0

    def run(self, raw: msgspec.Raw, source: str | None = None) -> bytes | Awaitable[bytes] | None:
        if source is None:
            return None
        self._seen += 1
        if self._seen > 3:
            raise ReviewFailed("too many wells")
        document = json.loads(bytes(raw))
        return json.dumps({**document, "apiVersion": self._target, "was": source, "at": self._seen}).encode()


async def test_a_converter_of_its_own_shares_the_endpoint_and_sees_a_whole_review() -> None:
    def well(version: str) -> dict[str, Any]:
        return {"apiVersion": version, "kind": "Well"}

    sent = [well(OLD), pool(OLD, network="x"), well(BETA)]
    converted = await objects(review(V1, *sent), conversion(), Counting())
    assert [(each.get("was"), each.get("at")) for each in converted] == [(OLD, 1), (None, None), (BETA, 2)]
    assert converted[1]["spec"] == {"cidr": "x"}
    assert await failure(review(V1, *[well(OLD)] * 4), Counting()) == "too many wells"
    assert await failure(review("example.io/closed", well(OLD)), Counting()) == "no permission to look"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "b"}, "metadata.name"),
        ({"uid": "other"}, "metadata.uid"),
        ({"generation": 4}, "metadata.generation"),
        ({"finalizers": ("x",)}, "metadata.finalizers"),
        ({"owner_references": ()}, ""),
        ({"labels": {"a": "b"}, "annotations": {"c": "d"}}, ""),
    ],
)
async def test_metadata_other_than_labels_and_annotations_must_not_change(
    change: dict[str, Any], field: str
) -> None:
    def to_hub(old: OldPool) -> Pool:
        return Pool(metadata=old.metadata.evolve(**change))

    changing = Conversion(Pool, Spoke(OldPool, to_hub, hub_to_old))
    if not field:
        await objects(review(V1, pool(OLD)), changing)
        return
    message = await failure(review(V1, pool(OLD)), changing)
    assert message.startswith(f"failed to convert object 0: the converter changed {field}: ")


async def test_kind_and_version_of_the_result_are_checked() -> None:
    wrong_class = Conversion(Pool, Spoke(OldPool, lambda old: Gang(metadata=old.metadata), hub_to_old))
    message = await failure(review(V1, pool(OLD)), wrong_class)
    assert "the converter returned example.io/v1 Gang instead of example.io/v1 Pool" in message
    wrong_version = Conversion(
        Pool, Spoke(OldPool, lambda old: old_to_hub(old).evolve(api_version="example.io/v3"), hub_to_old)
    )
    assert "returned example.io/v3 Pool" in await failure(review(V1, pool(OLD)), wrong_version)
    nothing = Conversion(Pool, Spoke(OldPool, lambda old: None, hub_to_old))
    assert "returned a NoneType" in await failure(review(V1, pool(OLD)), nothing)


async def test_a_panic_is_a_failure_that_says_little_and_is_counted() -> None:
    metrics = RuntimeMetrics()
    broken = Conversion(Pool, Spoke(OldPool, lambda old: 1 / 0, hub_to_old))
    assert await failure(review(V1, pool(OLD)), broken, metrics=metrics) == (
        "internal error occurred during conversion"
    )
    assert metrics.conversion_panics.value == 1
    refusing = Conversion(Pool, Spoke(OldPool, _refuse, hub_to_old))
    assert await failure(review(V1, pool(OLD)), refusing, metrics=metrics) == (
        "failed to convert object 0: no room for it"
    )
    assert metrics.conversion_panics.value == 1


def _refuse(old: OldPool) -> Pool:
    raise Unconvertible("no room for it")


async def test_functions_may_wait_and_preparation_fails_the_review_as_a_whole() -> None:
    prepared: list[str] = []

    async def prepare() -> None:
        prepared.append("once")
        if len(prepared) > 1:
            raise Unconvertible("failed to load provider config")

    async def to_hub(old: OldPool) -> Pool:
        await asyncio.sleep(0)
        return old_to_hub(old)

    waiting = Conversion(Pool, BetaPool, Spoke(OldPool, to_hub, hub_to_old), prepare=prepare)
    converted = await objects(review(BETA, pool(OLD, "a", network="x"), pool(OLD, "b", network="y")), waiting)
    assert [each["spec"]["net"] for each in converted] == ["x", "y"]
    assert prepared == ["once"]
    assert await failure(review(BETA, pool(OLD)), waiting) == "failed to load provider config"


async def test_plain_dictionaries_are_converted_and_checked_too() -> None:
    hub, spoke = (
        GroupVersionKind("example.io", "v1", "Pool"),
        GroupVersionKind("example.io", "v1alpha1", "Pool"),
    )

    def to_hub(document: dict[str, Any]) -> dict[str, Any]:
        document["apiVersion"] = V1
        document["spec"] = {"cidr": document["spec"].pop("network", "")}
        return document

    def renaming(document: dict[str, Any]) -> dict[str, Any]:
        document["metadata"]["name"] = "another"
        return to_hub(document)

    dynamic = Conversion(hub, Spoke(spoke, to_hub, lambda document: document))
    [converted] = await objects(review(V1, pool(OLD, network="x")), dynamic)
    assert converted["spec"] == {"cidr": "x"}
    message = await failure(review(V1, pool(OLD)), Conversion(hub, Spoke(spoke, renaming, renaming)))
    assert "the converter changed metadata.name: 'a' != 'another'" in message


@pytest.mark.parametrize(
    ("head", "named"),
    [({"kind": "Gang"}, "example.io/v1 Gang"), ({"apiVersion": OLD}, "example.io/v1alpha1 Pool")],
)
async def test_kind_and_version_of_a_plain_dictionary_are_checked(head: dict[str, str], named: str) -> None:
    def to_hub(document: dict[str, Any]) -> dict[str, Any]:
        return {**document, "apiVersion": V1, **head}

    hub, spoke = (GroupVersionKind("example.io", version, "Pool") for version in ("v1", "v1alpha1"))
    message = await failure(review(V1, pool(OLD)), Conversion(hub, Spoke(spoke, to_hub, to_hub)))
    assert f"the converter returned {named} instead of example.io/v1 Pool" in message


class OneWayPool(Resource, group="example.io", version="v2", kind="Pool", plural="pools", storage=False):
    def to_hub(self) -> Pool:
        return Pool(metadata=self.metadata)


def test_versions_must_belong_together() -> None:
    with pytest.raises(ConfigError, match=r"Gang.example.io cannot be converted to Pool.example.io"):
        Conversion(Pool, Spoke(Gang, lambda x: x, lambda x: x))
    with pytest.raises(ConfigError, match="version v1 is given twice"):
        Conversion(Pool, Spoke(Pool, lambda x: x, lambda x: x))
    with pytest.raises(ConfigError, match="is a spoke without conversion"):
        Conversion(Pool, OldPool)
    with pytest.raises(ConfigError, match="is a spoke without conversion"):
        Conversion(Pool, OneWayPool)
    endpoint = ConversionEndpoint()
    endpoint.add(conversion())
    with pytest.raises(ConfigError, match=r"multiple hubs defined for group-kind 'Pool.example.io'"):
        endpoint.add(conversion())


async def test_each_step_of_a_way_may_wait_and_is_taken_once() -> None:
    taken: list[str] = []

    async def to_hub(old: OldPool) -> Pool:
        taken.append("up")
        return old_to_hub(old)

    async def from_hub(hub: Pool) -> BetaPool:
        taken.append("down")
        return BetaPool.from_hub(hub)

    waiting = Conversion(Pool, Spoke(BetaPool, BetaPool.to_hub, from_hub), Spoke(OldPool, to_hub, hub_to_old))
    [converted] = await objects(review(BETA, pool(OLD, network="x")), waiting)
    assert converted["spec"]["net"] == "x"
    assert taken == ["up", "down"]


def test_what_is_no_json_is_nobody_elses_to_convert() -> None:
    plan = conversion().plan(OLD, V1)
    with pytest.raises(Unconvertible, match="failed to unmarshal v1alpha1"):
        plan.run(msgspec.Raw(b"{no json"))
    assert plan.run(msgspec.Raw(b'{"apiVersion":"other/v1","kind":"Pool","spec":7}')) is None


async def test_a_request_that_is_too_large_is_a_failure_inside_a_review() -> None:
    request = Request("POST", "/convert", is_too_large=True)
    answer = json.loads((await ConversionEndpoint().handle(request)).body)
    assert answer["apiVersion"] == "apiextensions.k8s.io/v1"
    assert answer["response"]["result"]["message"] == "failed to read request body"


async def test_metadata_is_compared_between_a_class_and_a_dictionary() -> None:
    wanted = GroupVersionKind("example.io", "v1alpha1", "Pool")

    def down(hub: Pool) -> dict[str, Any]:
        return {**hub.to_dict(), "apiVersion": OLD}

    def spoil(hub: Pool) -> dict[str, Any]:
        made = down(hub)
        return {**made, "metadata": {**made["metadata"], "uid": "other"}}

    def up(old: dict[str, Any]) -> Pool:
        return Pool(metadata=ObjectMeta(name=old["metadata"]["name"]))

    body = review(OLD, pool(cidr="x"))
    [converted] = await objects(body, Conversion(Pool, Spoke(wanted, up, down)))
    assert converted["metadata"]["uid"] == "uid-a"
    assert "changed metadata.uid" in await failure(body, Conversion(Pool, Spoke(wanted, up, spoil)))


@pytest.mark.parametrize(("size", "is_carried"), [(200 * 1024, True), (200 * 1024 + 1, False)])
def test_a_stash_holds_two_hundred_kibibytes(size: int, is_carried: bool) -> None:
    metadata = ObjectMeta(name="a")
    data = {"x": "y" * (size - len('{"x":""}'))}
    assert (stash(metadata, data) is not metadata) is is_carried
    assert unstash(metadata.evolve(annotations={"quarterdeck.io/conversion-data": "[1]"})) == (metadata, {})


def test_round_trips_lose_nothing() -> None:
    assert_roundtrip(conversion(), examples=200)


def test_a_lossy_conversion_is_found_and_named() -> None:
    lossy = Conversion(
        Pool, Spoke(OldPool, old_to_hub, lambda hub: hub_to_old(hub).evolve(metadata=hub.metadata))
    )
    with pytest.raises(AssertionError, match="Pool v1 → v1alpha1 → v1 is not the same object"):
        assert_roundtrip(lossy)
    assert_roundtrip(lossy, lossless=False)


def test_objects_can_be_made_by_hand() -> None:
    made: list[str] = []

    def make(kind: type[Resource], rng: random.Random) -> Resource:
        made.append(kind.type_info.version)
        return kind(metadata=ObjectMeta(name="x"))

    assert_roundtrip(conversion(), examples=2, make=make)
    assert sorted(made) == 4 * ["v1"] + 4 * ["v1alpha1"] + 4 * ["v1beta1"], "twice from each to each other"
    made.clear()
    assert_roundtrip(conversion(), examples=1, make=make, lossless=False)
    assert sorted(made) == ["v1alpha1", "v1beta1"], "from each spoke to the hub and back"


def test_a_stash_is_gone_after_it_was_taken_and_garbage_in_it_is_ignored() -> None:
    metadata = ObjectMeta(name="a", annotations={"keep": "me"})
    stashed = stash(metadata, {"b": 1, "a": [2]})
    assert stashed.annotations["quarterdeck.io/conversion-data"] == '{"a":[2],"b":1}'
    assert unstash(stashed) == (metadata, {"a": [2], "b": 1})
    assert unstash(metadata) == (metadata, {})
    assert stash(metadata, {}) is metadata
    spoiled = metadata.evolve(annotations={"quarterdeck.io/conversion-data": "{"})
    assert unstash(spoiled)[1] == {}
    assert "quarterdeck.io/conversion-data" not in stash(metadata, {"x": "y" * 300_000}).annotations


async def test_an_api_server_stores_the_hub_and_serves_the_spokes(tmp_path: Path) -> None:
    authority = Authority()
    authority.issue(tmp_path)
    hooks = WebhookServer(WebhookOptions(host="127.0.0.1", port=0), certificates=FileCertificates(tmp_path))
    hooks.add_conversion(conversion())
    async with embedded() as server, hooks:
        client = client_of(server)
        await install(client, crd(Pool, BetaPool, OldPool))
        target = UrlTarget(f"https://localhost:{hooks.port}")
        publish = WebhookInstaller(client, "pools", target, conversions=hooks.conversions)
        assert await publish(authority.pem)
        assert (await client.get(DEFINITION, "pools.example.io")).at(
            "spec", "conversion", "strategy"
        ) == "Webhook"
        for index in range(5):
            spec = PoolSpec(cidr=f"10.{index}.0.0/16", zone="z", sizes=(index,))
            metadata = ObjectMeta(name=f"p{index}", namespace="default")
            await client.create(Pool(metadata=metadata, spec=spec))
        listed = await client.list(OldPool, namespace="default")
        assert [each.spec.network for each in listed] == [f"10.{index}.0.0/16" for index in range(5)]
        old = listed[2]
        await client.update(old.evolve(spec=old.spec.evolve(network="192.168.0.0/16")))
        back = await client.get(Pool, "p2", "default")
        assert (back.spec.cidr, back.spec.zone) == ("192.168.0.0/16", "z"), (
            "the zone survived in the annotation"
        )
        assert (await client.get(BetaPool, "p2", "default")).spec.net == "192.168.0.0/16"


async def test_a_long_list_does_not_hold_up_the_loop(tmp_path: Path) -> None:
    authority = Authority()
    authority.issue(tmp_path)
    hooks = WebhookServer(WebhookOptions(host="127.0.0.1", port=0), certificates=FileCertificates(tmp_path))
    hooks.add_conversion(conversion())
    async with hooks:
        web = await Web.connect(hooks.port, authority.client_context())
        many = review(
            V1, *(pool(OLD, f"p{i}", network="10.0.0.0/8", sizes=list(range(40))) for i in range(5000))
        )
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        answer = await web.post("/convert", many)
        counting.cancel()
        await asyncio.wait([counting])
        assert len(answer["response"]["convertedObjects"]) == 5000
        assert turns > 10
        await web.close()
