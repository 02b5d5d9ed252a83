"""CRD version conversion: by relabelling and by webhook."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from quarterdeck.apiserver.crd.conversion import Converter
from quarterdeck.apiserver.status import StatusError
from quarterdeck.apiserver.webhookclient import WebhookClient

from .hookendpoint import Answer, hook_endpoint, http

Json = dict[str, Any]


def thing(name: str = "t", version: str = "v1", **metadata: Any) -> Json:
    meta = {"name": name, "namespace": "team", "uid": f"u-{name}", **metadata}
    return {"apiVersion": f"ex.io/{version}", "kind": "Thing", "metadata": meta, "spec": {"size": 1}}


def reviewer(change: Callable[[Json], Any] = lambda obj: None, **response: Any) -> Answer:
    """Answers with every object in the wanted version, each changed by `change`."""

    def answer(path: str, body: bytes) -> bytes:
        review = json.loads(body)
        request = review["request"]
        objects = request["objects"]
        for obj in objects:
            obj["apiVersion"] = request["desiredAPIVersion"]
            change(obj)
        whole = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects}
        return http(
            {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": {**whole, **response}}
        )

    return answer


def convert(answer: Answer, *objects: Json, to: str = "ex.io/v2") -> tuple[list[Json], list[Json]]:
    """The converted objects and the reviews that were sent."""

    async def run() -> tuple[list[Json], list[Json]]:
        async with hook_endpoint(answer) as server:
            client = WebhookClient()
            hook = {"clientConfig": server.config("/convert"), "conversionReviewVersions": ["v1"]}
            crd = {"spec": {"group": "ex.io", "conversion": {"strategy": "Webhook", "webhook": hook}}}
            try:
                return await Converter(crd, client).convert(objects, to), server.reviews()
            finally:
                client.close()

    return asyncio.run(run())


def failure(answer: Answer, *objects: Json) -> str:
    with pytest.raises(StatusError) as raised:
        convert(answer, *(objects or (thing(),)))
    assert (raised.value.code, raised.value.reason) == (500, "")
    return raised.value.message


def test_strategy_none_changes_the_api_version_only() -> None:
    converter = Converter({"spec": {"group": "ex.io"}})
    assert not converter.uses_webhook
    assert converter.relabel(thing(), "ex.io/v2") == thing(version="v2")
    assert asyncio.run(converter.convert([thing()], "ex.io/v2")) == [thing(version="v2")]


def test_all_objects_go_in_one_review_and_come_back_in_order() -> None:
    objects = [thing("a"), thing("b", "v2"), thing("c")]
    converted, reviews = convert(reviewer(lambda obj: obj["spec"].update(size=2)), *objects)
    assert [obj["metadata"]["name"] for obj in converted] == ["a", "b", "c"]
    assert [obj["spec"]["size"] for obj in converted] == [2, 1, 2]
    [review] = reviews
    assert (review["kind"], review["apiVersion"]) == ("ConversionReview", "apiextensions.k8s.io/v1")
    assert review["request"]["desiredAPIVersion"] == "ex.io/v2"
    assert review["request"]["objects"] == [thing("a"), thing("c")]


def test_the_webhook_is_called_at_its_cleaned_path() -> None:
    async def run() -> list[str]:
        async with hook_endpoint(reviewer()) as server:
            client = WebhookClient()
            hook = {"clientConfig": server.config("//convert/"), "conversionReviewVersions": ["v1"]}
            crd = {"spec": {"group": "ex.io", "conversion": {"strategy": "Webhook", "webhook": hook}}}
            try:
                await Converter(crd, client).convert([thing()], "ex.io/v2")
            finally:
                client.close()
            return [path.partition("?")[0] for path, _ in server.requests]

    assert asyncio.run(run()) == ["/convert"]


def test_objects_in_the_wanted_version_cause_no_call() -> None:
    converted, reviews = convert(reviewer(), thing(version="v2"))
    assert converted == [thing(version="v2")]
    assert reviews == []


def test_labels_and_annotations_may_change_other_metadata_may_not() -> None:
    def change(obj: Json) -> None:
        obj["metadata"].update(
            labels={"converted": "yes"}, annotations={"a": "b"}, finalizers=["x.y/z"], resourceVersion="9"
        )

    [converted], _ = convert(reviewer(change), thing(labels={"l": "1"}, generation=3))
    assert converted["metadata"] == {
        "name": "t",
        "namespace": "team",
        "uid": "u-t",
        "generation": 3,
        "labels": {"converted": "yes"},
        "annotations": {"a": "b"},
    }


def test_labels_left_out_are_removed() -> None:
    [converted], _ = convert(reviewer(lambda obj: obj["metadata"].pop("labels")), thing(labels={"l": "1"}))
    assert "labels" not in converted["metadata"]


PREFIX = "conversion webhook for ex.io/v1, Kind=Thing "


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ({"result": {"status": "Failure", "message": "nope"}}, "failed: nope"),
        (
            {"result": {"status": "Failure"}},
            "failed: response.result.status was 'Failure', not 'Success'",
        ),
        ({"result": {}}, "failed: response.result.status was '', not 'Success'"),
        ({"convertedObjects": []}, "returned 0 objects, expected 1"),
    ],
)
def test_answers_without_the_objects(response: Json, text: str) -> None:
    assert failure(reviewer(**response)) == PREFIX + text


def test_a_foreign_uid_is_refused() -> None:
    text = failure(reviewer(uid="other"))
    assert text.startswith(f'{PREFIX}failed: expected response.uid="')
    assert text.endswith('", got "other"')


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            lambda obj: obj["metadata"].update(name="z"),
            "returned invalid object: must have the same name: t != z",
        ),
        (
            lambda obj: obj["metadata"].update(namespace="z"),
            "returned invalid object: must have the same namespace: team != z",
        ),
        (
            lambda obj: obj["metadata"].update(uid="z"),
            "returned invalid object: must have the same UID: u-t != z",
        ),
        (
            lambda obj: obj.update(kind="Z"),
            "returned invalid object at index 0: invalid kind (expected Thing, received Z)",
        ),
        (
            lambda obj: obj.update(apiVersion="ex.io/v1"),
            "returned invalid object at index 0: invalid groupVersion (expected ex.io/v2, received ex.io/v1)",
        ),
        (
            lambda obj: obj.pop("metadata"),
            "returned invalid object: must have the same name: t != ",
        ),
        (
            lambda obj: obj["metadata"].update(labels={"a": 1}),
            (
                "returned invalid metadata: metadata.labels[a] must be a string, "
                "but is int64 in converted object"
            ),
        ),
        (
            lambda obj: obj["metadata"].update(labels="x"),
            "returned invalid metadata: invalid metadata.labels of type string in converted object",
        ),
    ],
)
def test_objects_that_lost_their_identity(change: Callable[[Json], Any], text: str) -> None:
    assert failure(reviewer(change)) == PREFIX + text


def test_invalid_labels_are_explained() -> None:
    text = failure(reviewer(lambda obj: obj["metadata"].update(labels={"a b": "c"})))
    assert text.startswith(f'{PREFIX}returned invalid metadata: metadata.labels: Invalid value: "a b": ')


def test_one_bad_object_of_several_is_named_by_its_place() -> None:
    def change(obj: Json) -> None:
        if obj["metadata"]["name"] == "b":
            obj["metadata"]["uid"] = "z"

    assert failure(reviewer(change), thing("a"), thing("b")) == (
        f"{PREFIX}returned invalid converted object at index 1: must have the same UID: u-b != z"
    )


def test_a_broken_endpoint_is_explained() -> None:
    answer = http(b"boom", status=500, media="text/plain")
    assert failure(lambda path, body: answer) == (
        f'{PREFIX}failed: an error on the server ("boom") has prevented the request from succeeding'
    )
    assert failure(lambda path, body: None).endswith('/convert?timeout=30s": EOF')
