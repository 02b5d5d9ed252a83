"""What the kit installs is in force when it returns: nobody waits, nothing is stored unconverted."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import DynamicObject, Model, ObjectMeta, Resource, crd, omitempty
from quarterdeck.errors import ApiError
from quarterdeck.runtime.webhook import Conversion, Spoke
from quarterdeck.testing import TestCluster

GROUP = "force.example.com"


class BoatSpec(Model):
    cargo: int = omitempty(0)


class Boat(Resource, group=GROUP, version="v1"):
    """The hub, which is stored."""

    spec: BoatSpec = omitempty(BoatSpec())


class OldBoatSpec(Model):
    load: int = omitempty(0)


class OldBoat(Resource, group=GROUP, version="v1alpha1", kind="Boat", plural="boats", storage=False):
    """The spoke."""

    spec: OldBoatSpec = omitempty(OldBoatSpec())


CONVERSION = Conversion(
    Boat,
    Spoke(
        OldBoat,
        lambda old: Boat(metadata=old.metadata, spec=BoatSpec(cargo=old.spec.load)),
        lambda hub: OldBoat(metadata=hub.metadata, spec=OldBoatSpec(load=hub.spec.cargo)),
    ),
)


def old_boat(name: str) -> OldBoat:
    return OldBoat(metadata=ObjectMeta(name=name, namespace="default"), spec=OldBoatSpec(load=7))


async def test_an_object_written_right_after_its_conversion_was_served_is_converted(
    cluster: TestCluster,
) -> None:
    await cluster.install(crd(Boat, OldBoat))
    await cluster.serve_webhooks(conversions=[CONVERSION])
    await cluster.client.create(old_boat("a"))
    assert (await cluster.client.get(Boat, "a", "default")).spec.cargo == 7


async def test_a_definition_that_is_installed_again_is_what_the_next_object_is_checked_against(
    cluster: TestCluster,
) -> None:
    client = cluster.client
    document = crd(Boat, OldBoat)
    await cluster.install(document)
    for most in range(1, 6):
        cargo: dict[str, Any] = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        cargo["spec"]["properties"]["cargo"]["maximum"] = most
        await cluster.install(document)
        boat = {"apiVersion": f"{GROUP}/v1", "kind": "Boat", "spec": {"cargo": most + 1}}
        with pytest.raises(ApiError, match=f"should be less than or equal to {most}"):
            await client.create(
                DynamicObject({**boat, "metadata": {"name": f"b{most}", "namespace": "default"}})
            )


async def test_a_new_version_is_served_when_install_returns(cluster: TestCluster) -> None:
    await cluster.install(crd(Boat))
    await cluster.install(crd(Boat, OldBoat))
    await cluster.client.create(old_boat("a"))
