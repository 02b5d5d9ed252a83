"""Devices of simulated nodes: the GPUs that a node has, as a driver would publish them.

A node with ``nvidia.com/gpu: 8`` gets a ResourceSlice of the driver ``gpu.nvidia.com`` with eight devices; so
it is with any ``<vendor>/gpu``. The DeviceClass of the same name is made with the first of them. A device
that is claimed is not taken away from what the node has of the resource: use one or the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final

from quarterdeck.api import Key, ObjectMeta, Quantity, owner_reference
from quarterdeck.api.k8s import DeviceClass, Node, ResourceSlice
from quarterdeck.api.k8s.resource import (
    CELDeviceSelector,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClassSpec,
    DeviceSelector,
    ResourcePool,
    ResourceSliceSpec,
)
from quarterdeck.cluster.node import names
from quarterdeck.errors import NotFound, ignore_already_exists, ignore_not_found
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Result

NAME: Final = "simulated-device-controller"
_GPU: Final = "/gpu"
_MOST_DEVICES: Final = 128
_MEMORY: Final = "80Gi"
_PRODUCT: Final = "Simulated GPU"


def device_slice(node: Node, resource: str) -> ResourceSlice:
    """What the driver of a resource publishes about a node."""
    vendor = resource.removesuffix(_GPU)
    labels = node.metadata.labels
    product = labels.get(f"{vendor}/gpu.product", _PRODUCT)
    memory = labels.get(f"{vendor}/gpu.memory", "")
    size = Quantity(f"{memory}Mi" if memory.isdigit() else _MEMORY)
    name = node.metadata.name
    count = min(node.status.allocatable[resource].value, _MOST_DEVICES)
    devices = tuple(
        Device(
            name=f"gpu-{number}",
            attributes={
                "type": DeviceAttribute(string="gpu"),
                "productName": DeviceAttribute(string=product),
                "uuid": DeviceAttribute(string=_uuid(f"{node.metadata.uid} {resource} {number}")),
                "index": DeviceAttribute(int_=number),
            },
            capacity={"memory": DeviceCapacity(value=size)},
        )
        for number in range(count)
    )
    return ResourceSlice(
        metadata=ObjectMeta(name=f"{name}-gpu.{vendor}", owner_references=(owner_reference(node),)),
        spec=ResourceSliceSpec(
            driver=f"gpu.{vendor}",
            node_name=name,
            pool=ResourcePool(name=name, generation=1, resource_slice_count=1),
            devices=devices,
        ),
    )


def _uuid(seed: str) -> str:
    digest = hashlib.sha256(seed.encode()).hexdigest()
    return f"GPU-{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"


async def _publish(ctx: Context[Node]) -> Result | None:
    node = ctx.obj
    for resource, amount in node.status.allocatable.items():
        if not resource.endswith(_GPU) or amount.value < 1:
            continue
        wanted = device_slice(node, resource)
        try:
            known = await ctx.get(ResourceSlice, wanted.metadata.name)
        except NotFound:
            await _make_class(ctx, wanted.spec.driver)
            with ignore_already_exists():
                await ctx.create(wanted)
            continue
        if _is_of_earlier(known, node):  # its end wakes the node, which publishes its own
            with ignore_not_found():
                await ctx.client.delete(known, uid=known.metadata.uid)
        elif len(known.spec.devices) != len(wanted.spec.devices):
            pool = known.spec.pool
            generation = pool.generation + 1 if isinstance(pool.generation, int) else 1
            spec = wanted.spec.evolve(pool=wanted.spec.pool.evolve(generation=generation))
            await ctx.client.update(known.evolve(spec=spec))
    return None


def _is_of_earlier(known: ResourceSlice, node: Node) -> bool:
    """Whether a slice was published by a node that had this name before."""
    owners = [each for each in known.metadata.owner_references if each.kind == "Node"]
    return bool(owners) and all(each.uid != node.metadata.uid for each in owners)


def _to_node(_context: MapContext, published: ResourceSlice) -> Iterable[Key]:
    return (Key("", published.spec.node_name),) if published.spec.node_name else ()


async def _make_class(ctx: Context[Node], driver: str) -> None:
    try:
        await ctx.get(DeviceClass, driver)
    except NotFound:
        selector = DeviceSelector(cel=CELDeviceSelector(expression=f"device.driver == '{driver}'"))
        made = DeviceClass(metadata=ObjectMeta(name=driver), spec=DeviceClassSpec(selectors=(selector,)))
        with ignore_already_exists():
            await ctx.create(made)


def _has_devices(event: ObjectEvent[Any]) -> bool:
    entry = event.entry
    return entry.labels.get(names.SIMULATED) == "true" and b'/gpu":' in entry.raw


_NODES: Final = Predicate(
    "nodes_with_devices", create=_has_devices, update=_has_devices, delete=lambda _: False
)
_GONE: Final = Predicate("gone", create=lambda _: False, update=lambda _: False)
_NEVER: Final = Predicate("never", create=lambda _: False, update=lambda _: False, delete=lambda _: False)


def simulated_device_controller() -> Controller[Node]:
    """The controller, for ``manager.add``."""
    return (
        Builder(name=NAME)
        .for_(Node, predicates=[_NODES])
        .watches(ResourceSlice, to=_to_node, predicates=[_GONE])
        .watches(DeviceClass, predicates=[_NEVER])
        .rbac(
            Rule(
                groups=("resource.k8s.io",),
                resources=("resourceslices",),
                verbs=("create", "delete", "update"),
            ),
            Rule(groups=("resource.k8s.io",), resources=("deviceclasses",), verbs=("create",)),
        )
        .options(field_manager=NAME)
        .build(_publish)
    )
