"""Objects that became invalid and are being deleted: no webhook of any operator keeps their finalizers on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from quarterdeck.api import DynamicObject, GroupVersionKind
from quarterdeck.client import Client, MergePatch
from quarterdeck.errors import Forbidden, Invalid, NotFound
from quarterdeck.operators.jobset.webhooks import jobset_webhooks
from quarterdeck.operators.kai.types import PodGroup, Queue
from quarterdeck.operators.kai.webhooks.podgroup import pod_group_webhook
from quarterdeck.operators.kai.webhooks.queue import queue_webhook
from quarterdeck.operators.nodegroup.types import definition
from quarterdeck.operators.nodegroup.webhooks import ClusterReader, LiveReader, policy_webhook, simple_webhook
from quarterdeck.operators.trainer.assembly import trainer_webhooks
from quarterdeck.operators.trainer.settings import TrainerSettings
from quarterdeck.runtime.webhook import AdmissionWebhook
from quarterdeck.testing import TestCluster
from tests.unit.operators.jobset.jobsetkit import document, part
from tests.unit.operators.kai.kaikit import group, queue

from . import trainercases
from .trainercluster import LIGHT

Json = dict[str, Any]
Webhooks = Callable[[Client], Sequence[AdmissionWebhook]]


class Row(msgspec.Struct, frozen=True):
    """An object that was stored before the rules."""

    installs: Sequence[Any]
    invalid: Json
    webhooks: Webhooks


def group_hooks(client: Client) -> Sequence[AdmissionWebhook]:
    reader = ClusterReader(LiveReader(client))
    return policy_webhook(reader), simple_webhook(reader)


def train_hooks(client: Client) -> Sequence[AdmissionWebhook]:
    return trainer_webhooks(client, TrainerSettings())


NODES = {
    "apiVersion": "deckhouse.io/v1",
    "kind": "NodeGroup",
    "metadata": {"name": "worker"},
    "spec": {"nodeType": "Static", "cri": {"type": "Docker"}},
}
ROWS = {
    "PodGroup": Row(
        [PodGroup],
        group("g", subGroups=[{"name": "a", "minMember": 1, "parent": "nobody"}]),
        lambda _: [pod_group_webhook()],
    ),
    "Queue": Row([Queue], {**queue("q"), "spec": {}}, lambda _: [queue_webhook()]),
    "NodeGroup": Row([definition()], NODES, group_hooks),
    "JobSet": Row(LIGHT, document(part("a" * 63)), lambda _: jobset_webhooks()),
    "TrainJob": Row(LIGHT, trainercases.train_job(), train_hooks),
}


@pytest.mark.parametrize("kind", ROWS)
async def test_the_last_finalizer_of_an_invalid_object_comes_off(kind: str) -> None:
    row = ROWS[kind]
    async with TestCluster(crds=list(row.installs)) as cluster:
        client = cluster.client
        held = {**row.invalid["metadata"], "finalizers": ["example.com/wait"]}
        made = await client.create(DynamicObject({**row.invalid, "metadata": held}))
        await client.delete(made)
        await cluster.serve_webhooks(*row.webhooks(client))
        new = {**row.invalid["metadata"], "name": "new"}
        with pytest.raises((Forbidden, Invalid)):
            await client.create(DynamicObject({**row.invalid, "metadata": new}), dry_run=True)
        await client.patch(made, MergePatch({"metadata": {"labels": {"still": "editable"}}}))
        await client.patch(made, MergePatch({"metadata": {"finalizers": None}}))
        with pytest.raises(NotFound):
            await client.get(
                GroupVersionKind.parse(made.api_version, made.kind),
                made.metadata.name,
                made.metadata.namespace,
            )
