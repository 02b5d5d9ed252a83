"""Ranges of Services are ready, and kept while they are used; policies are seen."""

from __future__ import annotations

import asyncio
from typing import Any

from quarterdeck.api import DynamicObject, GroupVersionKind
from quarterdeck.api.k8s import ValidatingAdmissionPolicy
from quarterdeck.client import Client
from quarterdeck.cluster.servicecidr import FINALIZER

from .clusterkit import exists
from .conftest import Settle

RANGE = GroupVersionKind("networking.k8s.io", "v1", "ServiceCIDR")


def conditions(found: DynamicObject) -> list[tuple[Any, ...]]:
    told = found.get("status", {}).get("conditions") or ()
    return [(each["type"], each["status"], each.get("reason", "")) for each in told]


async def test_the_range_of_the_cluster_is_ready_and_stays(client: Client, settle: Settle) -> None:
    found = await client.get(RANGE, "kubernetes")
    assert conditions(found) == [("Ready", "True", "")]
    assert FINALIZER in found.metadata.finalizers
    await client.delete(found)
    await settle()
    assert conditions(await client.get(RANGE, "kubernetes")) == [("Ready", "False", "Terminating")]


async def test_a_range_that_nobody_uses_goes_after_ten_seconds(client: Client, settle: Settle) -> None:
    metadata = {"name": "more"}
    document = {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": metadata}
    await client.create(DynamicObject({**document, "spec": {"cidrs": ["10.7.0.0/24"]}}))
    await settle()
    await client.delete(await client.get(RANGE, "more"))
    await asyncio.sleep(5)
    assert await exists(client, RANGE, "more")
    await asyncio.sleep(10)
    assert not await exists(client, RANGE, "more")


async def test_a_validating_policy_says_that_it_was_seen(client: Client, settle: Settle) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    document = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "true"}],
        },
    }
    await client.create(DynamicObject(document))
    await settle()
    found = await client.get(ValidatingAdmissionPolicy, "p")
    assert found.status.observed_generation == found.metadata.generation
