"""`quarterdeck uninstall` of one installation among several."""

from __future__ import annotations

import argparse

import pytest

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import Namespace
from quarterdeck.api.k8s.rbac import Role
from quarterdeck.cli.error import CommandError
from quarterdeck.cli.uninstall import uninstall
from quarterdeck.operators.grove.assembly import GroveOperator
from quarterdeck.operators.grove.types import PodGang
from quarterdeck.testing import TestCluster
from tests.unit.operators.grove.grovekit import light_definitions

FINALIZER = "scheduler.grove.io/backend"
ROLE = "quarterdeck.sys-a.quarterdeck"


def words(**values: object) -> argparse.Namespace:
    usual = {
        "namespace": "sys-a",
        "name": "quarterdeck",
        "watch_namespaces": ("team-a",),
        "yes": True,
        "purge": False,
        "webhooks_only": False,
    }
    return argparse.Namespace(**{**usual, **values})


async def test_what_other_installations_serve_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    async with TestCluster(crds=light_definitions()) as cluster:
        client = cluster.client
        for team in ("team-a", "team-b"):
            await client.create(Namespace(metadata=ObjectMeta(name=team)))
            metadata = ObjectMeta(name="g", namespace=team, finalizers=(FINALIZER,))
            await client.create(PodGang(metadata=metadata))
            await client.create(Role(metadata=ObjectMeta(name=ROLE, namespace=team)))
        assert await uninstall(client, [GroveOperator()], words()) == 0
        assert f"removed finalizer {FINALIZER} of PodGang team-a/g" in capsys.readouterr().out
        held = {each.metadata.namespace: each.metadata.finalizers for each in await client.list(PodGang)}
        assert held == {"team-a": (), "team-b": (FINALIZER,)}
        assert [
            each.metadata.namespace for each in await client.list(Role) if each.metadata.name == ROLE
        ] == ["team-b"]


async def test_definitions_are_not_taken_from_other_installations() -> None:
    async with TestCluster() as cluster:
        with pytest.raises(CommandError, match="--purge takes the definitions away from other installations"):
            await uninstall(cluster.client, [GroveOperator()], words(purge=True))
