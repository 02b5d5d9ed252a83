"""What defaulting webhooks answer: patches that hold the change and nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quarterdeck.runtime.webhook import (
    Admission,
    Chain,
    Defaulter,
    Denied,
    Validator,
)
from quarterdeck.wire.patch import apply_json_patch
from tests.unit.runtime.servicekit import Gang
from tests.unit.runtime.webhook.admissionkit import DYNAMIC, ask, default_queue, document, patch_of, review

pytestmark = pytest.mark.real_time


async def test_an_unchanged_object_is_allowed_without_a_patch() -> None:
    answer = await ask(Defaulter(Gang, default_queue), review(document(queue="mine")))
    assert answer["response"] == {"uid": "u-1", "allowed": True, "status": {"metadata": {}, "code": 200}}
    equal = Defaulter(Gang, lambda admission, gang: gang.evolve(spec=gang.spec.evolve()))
    assert "patch" not in (await ask(equal, review(document(queue="mine"))))["response"]


async def test_a_patch_holds_the_change_and_nothing_else() -> None:
    raw = document(tags={}, subGroups=[{"name": "a"}], minMember=3)
    answer = await ask(Defaulter(Gang, default_queue), review(raw))
    # not replicas (a default of the class), not tags (empty, so the class leaves it out)
    assert patch_of(answer) == [{"op": "add", "path": "/spec/queue", "value": "default"}]


async def test_unknown_fields_survive_a_mutation_at_every_depth() -> None:
    raw = document(
        subGroups=[{"name": "a", "future": {"deep": [1, {"x": None}]}}, {"name": "b", "minMember": 2}],
        future="kept",
    )
    raw["metadata"]["futureMeta"] = "kept"
    raw["topLevel"] = ["kept"]

    def change(admission: Admission, gang: Gang) -> Gang:
        draft = gang.draft()
        draft.spec.queue = "q"
        draft.spec.sub_groups[0].min_member = 4
        draft.metadata.labels["team"] = "a"
        return draft.done()

    operations = patch_of(await ask(Defaulter(Gang, change), review(raw)))
    assert not [operation for operation in operations if operation["op"] == "remove"]
    result = apply_json_patch(raw, operations)
    assert result["spec"]["subGroups"][0] == {
        "name": "a", "future": {"deep": [1, {"x": None}]}, "minMember": 4
    }  # fmt: skip
    assert result["spec"]["subGroups"][1] == {"name": "b", "minMember": 2}
    assert result["spec"]["future"] == "kept"
    assert result["topLevel"] == ["kept"]
    assert result["metadata"] == {**raw["metadata"], "labels": {"team": "a"}}


async def test_removing_a_list_element_keeps_what_the_others_had() -> None:
    raw = document(subGroups=[{"name": "a"}, {"name": "b", "future": 1}, {"name": "c"}])

    def change(admission: Admission, gang: Gang) -> Gang:
        return gang.evolve(spec=gang.spec.evolve(sub_groups=gang.spec.sub_groups[1:]))

    result = apply_json_patch(raw, patch_of(await ask(Defaulter(Gang, change), review(raw))))
    assert result["spec"]["subGroups"] == [{"name": "b", "future": 1}, {"name": "c"}]


async def test_changes_run_in_order_and_delete_asks_nobody() -> None:
    def twice(admission: Admission, gang: Gang) -> Gang:
        return gang.evolve(spec=gang.spec.evolve(replicas=gang.spec.replicas * 2))

    async def plus_one(admission: Admission, gang: Gang) -> Gang:
        await asyncio.sleep(0)
        return gang.evolve(spec=gang.spec.evolve(replicas=gang.spec.replicas + 1))

    defaulter = Defaulter(Gang, twice, plus_one, twice)
    operations = patch_of(await ask(defaulter, review(document(replicas=3))))
    assert operations == [{"op": "replace", "path": "/spec/replicas", "value": 14}]
    deleted = await ask(defaulter, review(None, old=document(), operation="DELETE"))
    assert deleted["response"]["allowed"] is True
    assert "patch" not in deleted["response"]


async def test_a_defaulter_that_forgets_to_return_is_a_panic_and_may_deny() -> None:
    forgetful = Defaulter(Gang, lambda admission, gang: None)  # type: ignore[arg-type,return-value]  # the point
    answer = await ask(forgetful, review(document()))
    assert (
        answer["response"]["status"]["message"]
        == "panic: a defaulting function must return the object [recovered]"
    )

    def deny(admission: Admission, gang: Gang) -> Gang:
        raise Denied("closed")

    assert (await ask(Defaulter(Gang, deny), review(document())))["response"]["status"]["code"] == 403


async def test_dictionaries_may_be_changed_in_place() -> None:
    def change(admission: Admission, gang: dict[str, Any]) -> None:
        gang["spec"]["queue"] = "q"

    operations = patch_of(await ask(Defaulter(DYNAMIC, change), review(document(future=1))))
    assert operations == [{"op": "add", "path": "/spec/queue", "value": "q"}]
    assert "patch" not in (await ask(Defaulter(DYNAMIC, change), review(document(queue="q"))))["response"]


async def test_a_chain_feeds_each_the_object_of_the_one_before_and_sends_one_patch() -> None:
    def replicas(admission: Admission, gang: dict[str, Any]) -> dict[str, Any]:
        assert gang["spec"]["queue"] == "default", "sees the change of the one before"
        admission.warn("scaled")
        return {**gang, "spec": {**gang["spec"], "replicas": 5}}

    def check(admission: Admission, gang: Gang) -> None:
        if gang.spec.replicas > 4:
            admission.warn("large")
        if gang.spec.min_member == 0:
            raise Denied("minMember must be at least 1")

    chain = Chain(Defaulter(Gang, default_queue), Defaulter(DYNAMIC, replicas), Validator(Gang, check))
    assert (chain.path, chain.is_mutating) == ("/mutate-example-io-v1-gang", True)
    answer = await ask(chain, review(document(future=1)))
    assert apply_json_patch(document(future=1), patch_of(answer))["spec"] == {
        "future": 1, "queue": "default", "replicas": 5
    }  # fmt: skip
    assert answer["response"]["warnings"] == ["scaled", "large"]
    denied = await ask(chain, review(document(minMember=0)))
    assert denied["response"]["allowed"] is False
    assert denied["response"]["warnings"] == ["scaled", "large"]
    assert "patch" not in denied["response"]
