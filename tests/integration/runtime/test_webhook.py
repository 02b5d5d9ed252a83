"""Admission and conversion end to end: what the API server makes of our answers.

What a webhook answers to the letter is tested where the endpoints are (``test_services_admission``,
``test_services_conversion``); here the server has the last word.
"""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import UNSET, DynamicObject, GroupVersionKind, Maybe, Model, Resource, crd, omitempty
from quarterdeck.api.k8s import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from quarterdeck.api.k8s.apiextensions import CustomResourceDefinition
from quarterdeck.client import MergePatch
from quarterdeck.errors import (
    ApiError,
    ErrorCause,
    ErrorDetails,
    Forbidden,
    Invalid,
    ignore_not_found,
)
from quarterdeck.runtime.webhook import Admission, Conversion, Defaulter, Denied, Spoke, Validator
from quarterdeck.testing import eventually

from .gadget import Wire

GROUP = "hooked.example.com"


class ShipSpec(Model):
    cargo: int = omitempty(0)
    deck: str = omitempty("")
    note: Maybe[str] = UNSET


class Ship(Resource, group=GROUP, version="v1"):
    """The hub."""

    spec: ShipSpec = omitempty(ShipSpec())


class OldShipSpec(Model):
    load: int = omitempty(0)
    level: str = omitempty("")


class OldShip(Resource, group=GROUP, version="v1alpha1", kind="Ship", plural="ships", storage=False):
    """The spoke."""

    spec: OldShipSpec = omitempty(OldShipSpec())


SHIP = GroupVersionKind(GROUP, "v1", "Ship")
NAME = "guarantee-webhooks"


def up(old: OldShip) -> Ship:
    if old.spec.load == 13:
        raise ValueError("unlucky")
    return Ship(metadata=old.metadata, spec=ShipSpec(cargo=old.spec.load, deck=old.spec.level))


def down(hub: Ship) -> OldShip:
    return OldShip(metadata=hub.metadata, spec=OldShipSpec(load=hub.spec.cargo, level=hub.spec.deck))


CONVERSION = Conversion(Ship, Spoke(OldShip, up, down))


def definition() -> dict[str, Any]:
    """The CRD, with a field more than the classes know: a newer version of it."""
    document = crd(Ship, OldShip)
    for version in document["spec"]["versions"]:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        spec["properties"]["sails"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return document


async def clean(wire: Wire) -> None:
    """The next test on the same server must not meet our webhooks."""
    for kind in (MutatingWebhookConfiguration, ValidatingWebhookConfiguration):
        with ignore_not_found():
            await wire.cluster.client.delete(kind, NAME)
    with ignore_not_found():
        await wire.cluster.client.delete(CustomResourceDefinition, f"ships.{GROUP}")

    async def is_gone() -> bool:
        found = await wire.cluster.client.list(CustomResourceDefinition)
        return all(each.metadata.name != f"ships.{GROUP}" for each in found)

    await eventually(is_gone)


def ship(wire: Wire, name: str, **spec: Any) -> DynamicObject:
    metadata = {"name": name, "namespace": wire.namespace}
    return DynamicObject({"apiVersion": f"{GROUP}/v1", "kind": "Ship", "metadata": metadata, "spec": spec})


def default_deck(admission: Admission, obj: Ship) -> Ship:
    return obj if obj.spec.deck else obj.evolve(spec=obj.spec.evolve(deck="main"))


def check(admission: Admission, obj: Ship) -> None:
    if obj.spec.cargo > 100:
        admission.warn("that is a lot")
        raise Denied("too heavy", ErrorCause("FieldValueInvalid", "at most 100", "spec.cargo"))
    if obj.spec.cargo == 9:
        cause = ErrorCause("FieldValueForbidden", "nine is unlucky", "spec.cargo")
        raise Invalid("Ship is invalid", details=ErrorDetails(name="x", kind="Ship", causes=(cause,)))


async def test_admission_unknown_fields_unchanged_objects_api_errors_and_the_limit(
    wire: Wire,
) -> None:
    client = wire.cluster.client
    await wire.cluster.install(definition())
    try:
        await wire.cluster.serve_webhooks(Defaulter(Ship, default_deck), Validator(Ship, check), name=NAME)

        async def is_registered() -> bool:
            made = await client.create(ship(wire, "probe", cargo=1), dry_run=True)
            return bool(made.at("spec", "deck") == "main")

        await eventually(is_registered)
        sails = {"main": {"area": 70, "ropes": ["a", "b"]}}
        made = await client.create(ship(wire, "a", cargo=5, sails=sails))
        assert made.at("spec", "deck") == "main"
        assert made.to_dict()["spec"]["sails"] == sails, "what the class does not know survives its mutation"

        same = await client.create(ship(wire, "b", cargo=5, deck="upper", sails=sails))
        assert same.to_dict()["spec"] == {"cargo": 5, "deck": "upper", "sails": sails}

        with pytest.raises(Forbidden, match="denied the request: too heavy") as denied:
            await client.create(ship(wire, "c", cargo=101))
        assert [cause.field for cause in denied.value.details.causes] == ["spec.cargo"]
        with pytest.raises(ApiError, match="Ship is invalid") as refused:
            await client.create(ship(wire, "d", cargo=9))
        assert (refused.value.code, refused.value.reason) == (422, "Invalid")
        assert [cause.message for cause in refused.value.details.causes] == ["nine is unlucky"]

        # An update sends the object twice: with the largest objects that a server stores, below 7 MiB.
        large = {"text": "x" * 1_400_000}
        kept = await client.create(ship(wire, "e", sails=large))
        await client.patch(kept, MergePatch({"spec": {"cargo": 7}}))
    finally:
        await clean(wire)


async def test_conversion_keeps_order_and_metadata_is_all_or_nothing_and_round_trips(
    wire: Wire,
) -> None:
    client = wire.cluster.client
    await wire.cluster.install(definition())
    try:
        await wire.cluster.serve_webhooks(conversions=[CONVERSION], name=NAME)
        names = [f"s{i:02}" for i in range(20)]

        async def is_converted() -> bool:
            await client.create(ship(wire, "s00", cargo=0, deck="d0"))
            found = await client.get(OldShip, "s00", wire.namespace)
            if found.spec.level != "d0":
                await client.delete(Ship, "s00", wire.namespace)
            return bool(found.spec.level == "d0")

        await eventually(is_converted)
        for i, name in enumerate(names[1:], 1):
            await client.create(ship(wire, name, cargo=i, deck=f"d{i}"))
        listed = await client.list(OldShip, namespace=wire.namespace)
        assert [(each.metadata.name, each.spec.load) for each in listed] == list(
            zip(names, range(20), strict=True)
        )
        hubs = {each.metadata.name: each for each in await client.list(Ship, namespace=wire.namespace)}
        for old in listed:
            hub = hubs[old.metadata.name]
            for field in ("uid", "resource_version", "creation_timestamp", "namespace", "generation"):
                assert getattr(old.metadata, field) == getattr(hub.metadata, field), field

        written = await client.update(listed[3].evolve(spec=OldShipSpec(load=33, level="low")))
        assert (written.spec.load, written.spec.level) == (33, "low")
        assert (await client.get(Ship, "s03", wire.namespace)).spec == ShipSpec(cargo=33, deck="low")

        with pytest.raises(ApiError, match="conversion webhook"):
            await client.create(
                OldShip(
                    metadata=listed[0].metadata.evolve(name="bad", uid="", resource_version=""),
                    spec=OldShipSpec(load=13),
                )
            )
        assert len(await client.list(Ship, namespace=wire.namespace)) == 20
    finally:
        await clean(wire)
