"""What `quarterdeck finalizers purge` lets go of, and what it leaves."""

from __future__ import annotations

import argparse

import pytest

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import ConfigMap, Namespace, Secret
from quarterdeck.cli import finalizers
from quarterdeck.client import Client
from quarterdeck.errors import NotFound
from quarterdeck.testing import TestCluster

OLD = "gone.example.io/cleanup"


def purge_arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    finalizers.add_command(parser.add_subparsers())
    return parser.parse_args(["finalizers", "purge", OLD, *words])


@pytest.fixture
async def client(cluster: TestCluster) -> Client:
    """A cluster with objects that a controller left behind, one of them not being deleted."""
    client = cluster.client
    for name in ("a", "b"):
        await client.create(Namespace(metadata=ObjectMeta(name=name)))
    for namespace, name, names in (("a", "stuck", [OLD]), ("b", "shared", [OLD, "here.example.io/x"])):
        metadata = ObjectMeta(name=name, namespace=namespace, finalizers=tuple(names))
        await client.delete(await client.create(ConfigMap(metadata=metadata)))
    await client.create(Secret(metadata=ObjectMeta(name="alive", namespace="a", finalizers=(OLD,))))
    return client


async def test_nothing_is_changed_before_it_is_confirmed(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await finalizers.purge(client, purge_arguments()) == 0
    assert capsys.readouterr().out.splitlines() == [
        "configmaps a/stuck: would be removed",
        "configmaps b/shared: would be removed",
    ]
    assert (await client.get(ConfigMap, "stuck", "a")).metadata.finalizers == (OLD,)


async def test_objects_that_are_being_deleted_are_let_go(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await finalizers.purge(client, purge_arguments("--yes")) == 0
    assert "configmaps a/stuck: removed" in capsys.readouterr().out
    with pytest.raises(NotFound):
        await client.get(ConfigMap, "stuck", "a")
    assert (await client.get(ConfigMap, "shared", "b")).metadata.finalizers == ("here.example.io/x",)
    assert (await client.get(Secret, "alive", "a")).metadata.finalizers == (OLD,)
    assert await finalizers.purge(client, purge_arguments("--yes")) == 0
    assert capsys.readouterr().out == f"nothing is held back by {OLD}\n"


async def test_what_is_looked_at_can_be_chosen(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    assert await finalizers.purge(client, purge_arguments("secrets", "--all", "--yes")) == 0
    assert await finalizers.purge(client, purge_arguments("cm", "-n", "b")) == 0
    assert capsys.readouterr().out.splitlines() == [
        "secrets a/alive: removed",
        "configmaps b/shared: would be removed",
    ]
    assert (await client.get(Secret, "alive", "a")).metadata.finalizers == ()
