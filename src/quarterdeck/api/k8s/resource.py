"""Dynamic resource allocation.

Made by ``make kubernetes``: do not edit. What a newer server adds survives as unknown fields.
"""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api.instant import Time
from quarterdeck.api.k8s.placement import NodeSelector
from quarterdeck.api.marker import Atomic, Default, Int64, ListMap, Preserve, Required
from quarterdeck.api.meta import Condition, ObjectMeta
from quarterdeck.api.model import EMPTY_MAP, UNSET, JsonObjectField, Map, Maybe, Model, Seq, omitempty
from quarterdeck.api.quantity import Quantity
from quarterdeck.api.resource import Resource

__all__ = [
    "AllocatedDeviceStatus",
    "AllocationResult",
    "CELDeviceSelector",
    "CapacityRequestPolicy",
    "CapacityRequestPolicyRange",
    "CapacityRequirements",
    "Counter",
    "CounterSet",
    "Device",
    "DeviceAllocationConfiguration",
    "DeviceAllocationResult",
    "DeviceAttribute",
    "DeviceCapacity",
    "DeviceClaim",
    "DeviceClaimConfiguration",
    "DeviceClass",
    "DeviceClassConfiguration",
    "DeviceClassSpec",
    "DeviceConstraint",
    "DeviceCounterConsumption",
    "DeviceRequest",
    "DeviceRequestAllocationResult",
    "DeviceSelector",
    "DeviceSubRequest",
    "DeviceTaint",
    "DeviceToleration",
    "ExactDeviceRequest",
    "NetworkDeviceData",
    "NodeAllocatableResourceMapping",
    "OpaqueDeviceConfiguration",
    "ResourceClaim",
    "ResourceClaimConsumerReference",
    "ResourceClaimSpec",
    "ResourceClaimStatus",
    "ResourceClaimTemplate",
    "ResourceClaimTemplateSpec",
    "ResourcePool",
    "ResourceSlice",
    "ResourceSliceSpec",
]


class CELDeviceSelector(Model):
    expression: Annotated[str, Required()] = omitempty("")


class DeviceSelector(Model):
    cel: Maybe[CELDeviceSelector] = UNSET


class DeviceToleration(Model):
    key: str = omitempty("")
    operator: Annotated[str, Default("Equal")] = omitempty("")
    value: str = omitempty("")
    effect: str = omitempty("")
    toleration_seconds: Annotated[Maybe[int], Int64] = UNSET


class CapacityRequirements(Model):
    requests: Map[str, Quantity] = omitempty(EMPTY_MAP)


class ExactDeviceRequest(Model):
    device_class_name: Annotated[str, Required()] = omitempty("")
    selectors: Annotated[Seq[DeviceSelector], Atomic()] = omitempty(())
    allocation_mode: str = omitempty("")
    count: Annotated[Maybe[int], Int64] = UNSET
    admin_access: Maybe[bool] = UNSET
    tolerations: Annotated[Seq[DeviceToleration], Atomic()] = omitempty(())
    capacity: Maybe[CapacityRequirements] = UNSET


class DeviceSubRequest(Model):
    name: Annotated[str, Required()] = omitempty("")
    device_class_name: Annotated[str, Required()] = omitempty("")
    selectors: Annotated[Seq[DeviceSelector], Atomic()] = omitempty(())
    allocation_mode: str = omitempty("")
    count: Annotated[Maybe[int], Int64] = UNSET
    tolerations: Annotated[Seq[DeviceToleration], Atomic()] = omitempty(())
    capacity: Maybe[CapacityRequirements] = UNSET


class DeviceRequest(Model):
    name: Annotated[str, Required()] = omitempty("")
    exactly: Maybe[ExactDeviceRequest] = UNSET
    first_available: Annotated[Seq[DeviceSubRequest], Atomic()] = omitempty(())


class DeviceConstraint(Model):
    requests: Annotated[Seq[str], Atomic()] = omitempty(())
    match_attribute: Maybe[str] = UNSET
    distinct_attribute: Maybe[str] = UNSET


class OpaqueDeviceConfiguration(Model):
    driver: Annotated[str, Required()] = omitempty("")
    parameters: Annotated[Maybe[JsonObjectField], Preserve(), Required()] = UNSET


class DeviceClaimConfiguration(Model):
    requests: Annotated[Seq[str], Atomic()] = omitempty(())
    opaque: Maybe[OpaqueDeviceConfiguration] = UNSET


class DeviceClaim(Model):
    requests: Annotated[Seq[DeviceRequest], Atomic()] = omitempty(())
    constraints: Annotated[Seq[DeviceConstraint], Atomic()] = omitempty(())
    config: Annotated[Seq[DeviceClaimConfiguration], Atomic()] = omitempty(())


class ResourceClaimSpec(Model):
    devices: DeviceClaim = omitempty(DeviceClaim())


class DeviceRequestAllocationResult(Model):
    request: Annotated[str, Required()] = omitempty("")
    driver: Annotated[str, Required()] = omitempty("")
    pool: Annotated[str, Required()] = omitempty("")
    device: Annotated[str, Required()] = omitempty("")
    admin_access: Maybe[bool] = UNSET
    tolerations: Annotated[Seq[DeviceToleration], Atomic()] = omitempty(())
    binding_conditions: Annotated[Seq[str], Atomic()] = omitempty(())
    binding_failure_conditions: Annotated[Seq[str], Atomic()] = omitempty(())
    share_id: Maybe[str] = UNSET
    consumed_capacity: Map[str, Quantity] = omitempty(EMPTY_MAP)


class DeviceAllocationConfiguration(Model):
    source: Annotated[str, Required()] = omitempty("")
    requests: Annotated[Seq[str], Atomic()] = omitempty(())
    opaque: Maybe[OpaqueDeviceConfiguration] = UNSET


class DeviceAllocationResult(Model):
    results: Annotated[Seq[DeviceRequestAllocationResult], Atomic()] = omitempty(())
    config: Annotated[Seq[DeviceAllocationConfiguration], Atomic()] = omitempty(())


class AllocationResult(Model):
    devices: DeviceAllocationResult = omitempty(DeviceAllocationResult())
    node_selector: Maybe[NodeSelector] = UNSET
    allocation_timestamp: Maybe[Time] = UNSET


class ResourceClaimConsumerReference(Model):
    api_group: str = omitempty("")
    resource: Annotated[str, Required()] = omitempty("")
    name: Annotated[str, Required()] = omitempty("")
    uid: Annotated[str, Required()] = omitempty("")


class NetworkDeviceData(Model):
    interface_name: str = omitempty("")
    ips: Annotated[Seq[str], Atomic()] = omitempty(())
    hardware_address: str = omitempty("")


class AllocatedDeviceStatus(Model):
    driver: Annotated[str, Required()] = omitempty("")
    pool: Annotated[str, Required()] = omitempty("")
    device: Annotated[str, Required()] = omitempty("")
    share_id: Maybe[str] = UNSET
    conditions: Annotated[Seq[Condition], ListMap("type")] = omitempty(())
    data: Annotated[Maybe[JsonObjectField], Preserve()] = UNSET
    network_data: Maybe[NetworkDeviceData] = UNSET


class ResourceClaimStatus(Model):
    allocation: Maybe[AllocationResult] = UNSET
    reserved_for: Annotated[Seq[ResourceClaimConsumerReference], ListMap("uid")] = omitempty(())
    devices: Annotated[Seq[AllocatedDeviceStatus], ListMap("driver", "device", "pool", "shareID")] = (
        omitempty(())
    )


class ResourceClaim(Resource, group="resource.k8s.io", version="v1", plural="resourceclaims", status=True):
    spec: Annotated[ResourceClaimSpec, Required()] = omitempty(ResourceClaimSpec())
    status: ResourceClaimStatus = omitempty(ResourceClaimStatus())


class ResourceClaimTemplateSpec(Model):
    metadata: ObjectMeta = omitempty(ObjectMeta())
    spec: Annotated[ResourceClaimSpec, Required()] = omitempty(ResourceClaimSpec())


class ResourceClaimTemplate(Resource, group="resource.k8s.io", version="v1", plural="resourceclaimtemplates"):
    spec: Annotated[ResourceClaimTemplateSpec, Required()] = omitempty(ResourceClaimTemplateSpec())


class DeviceClassConfiguration(Model):
    opaque: Maybe[OpaqueDeviceConfiguration] = UNSET


class DeviceClassSpec(Model):
    selectors: Annotated[Seq[DeviceSelector], Atomic()] = omitempty(())
    config: Annotated[Seq[DeviceClassConfiguration], Atomic()] = omitempty(())
    extended_resource_name: Maybe[str] = UNSET


class DeviceClass(Resource, group="resource.k8s.io", version="v1", plural="deviceclasses", scope="Cluster"):
    spec: Annotated[DeviceClassSpec, Required()] = omitempty(DeviceClassSpec())


class ResourcePool(Model):
    name: Annotated[str, Required()] = omitempty("")
    generation: Annotated[Maybe[int], Int64, Required()] = UNSET
    resource_slice_count: Annotated[Maybe[int], Int64, Required()] = UNSET


class DeviceAttribute(Model):
    int_: Annotated[Maybe[int], Int64] = UNSET
    bool_: Maybe[bool] = UNSET
    string: Maybe[str] = UNSET
    version: Maybe[str] = UNSET
    ints: Annotated[Seq[int], Atomic()] = omitempty(())
    bools: Annotated[Seq[bool], Atomic()] = omitempty(())
    strings: Annotated[Seq[str], Atomic()] = omitempty(())
    versions: Annotated[Seq[str], Atomic()] = omitempty(())


class CapacityRequestPolicyRange(Model):
    min: Annotated[Maybe[Quantity], Required()] = UNSET
    max: Maybe[Quantity] = UNSET
    step: Maybe[Quantity] = UNSET


class CapacityRequestPolicy(Model):
    default: Maybe[Quantity] = UNSET
    valid_values: Annotated[Seq[Quantity], Atomic()] = omitempty(())
    valid_range: Maybe[CapacityRequestPolicyRange] = UNSET


class DeviceCapacity(Model):
    value: Annotated[Maybe[Quantity], Required()] = UNSET
    request_policy: Maybe[CapacityRequestPolicy] = UNSET


class Counter(Model):
    value: Annotated[Maybe[Quantity], Required()] = UNSET


class DeviceCounterConsumption(Model):
    counter_set: Annotated[str, Required()] = omitempty("")
    counters: Annotated[Map[str, Counter], Required()] = omitempty(EMPTY_MAP)


class DeviceTaint(Model):
    key: Annotated[str, Required()] = omitempty("")
    value: str = omitempty("")
    effect: Annotated[str, Required()] = omitempty("")
    time_added: Maybe[Time] = UNSET


class NodeAllocatableResourceMapping(Model):
    capacity_key: Maybe[str] = UNSET
    allocation_multiplier: Maybe[Quantity] = UNSET


class Device(Model):
    name: Annotated[str, Required()] = omitempty("")
    attributes: Map[str, DeviceAttribute] = omitempty(EMPTY_MAP)
    capacity: Map[str, DeviceCapacity] = omitempty(EMPTY_MAP)
    consumes_counters: Annotated[Seq[DeviceCounterConsumption], Atomic()] = omitempty(())
    node_name: Maybe[str] = UNSET
    node_selector: Maybe[NodeSelector] = UNSET
    all_nodes: Maybe[bool] = UNSET
    taints: Annotated[Seq[DeviceTaint], Atomic()] = omitempty(())
    binds_to_node: Maybe[bool] = UNSET
    binding_conditions: Annotated[Seq[str], Atomic()] = omitempty(())
    binding_failure_conditions: Annotated[Seq[str], Atomic()] = omitempty(())
    allow_multiple_allocations: Maybe[bool] = UNSET
    node_allocatable_resource_mappings: Map[str, NodeAllocatableResourceMapping] = omitempty(EMPTY_MAP)


class CounterSet(Model):
    name: Annotated[str, Required()] = omitempty("")
    counters: Annotated[Map[str, Counter], Required()] = omitempty(EMPTY_MAP)


class ResourceSliceSpec(Model):
    driver: Annotated[str, Required()] = omitempty("")
    pool: Annotated[ResourcePool, Required()] = omitempty(ResourcePool())
    node_name: Maybe[str] = UNSET
    node_selector: Maybe[NodeSelector] = UNSET
    all_nodes: Maybe[bool] = UNSET
    devices: Annotated[Seq[Device], Atomic()] = omitempty(())
    per_device_node_selection: Maybe[bool] = UNSET
    shared_counters: Annotated[Seq[CounterSet], Atomic()] = omitempty(())


class ResourceSlice(
    Resource, group="resource.k8s.io", version="v1", plural="resourceslices", scope="Cluster"
):
    spec: Annotated[ResourceSliceSpec, Required()] = omitempty(ResourceSliceSpec())
