"""Dynamic resource allocation.

Fields follow k8s.io/api v0.36.3; what a newer server adds survives as unknown fields.
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
    """CEL expression for selecting a device."""

    expression: Annotated[str, Required()] = omitempty("")


class DeviceSelector(Model):
    """DeviceSelector must have exactly one field set."""

    cel: Maybe[CELDeviceSelector] = UNSET


class DeviceToleration(Model):
    """The ResourceClaim this DeviceToleration is attached to tolerates any taint that matches the …"""

    key: str = omitempty("")
    operator: Annotated[str, Default("Equal")] = omitempty("")
    value: str = omitempty("")
    effect: str = omitempty("")
    toleration_seconds: Annotated[Maybe[int], Int64] = UNSET


class CapacityRequirements(Model):
    """Capacity requirements for a specific device request."""

    requests: Map[str, Quantity] = omitempty(EMPTY_MAP)


class ExactDeviceRequest(Model):
    """Request for one or more identical devices."""

    device_class_name: Annotated[str, Required()] = omitempty("")
    selectors: Annotated[Seq[DeviceSelector], Atomic()] = omitempty(())
    allocation_mode: str = omitempty("")
    count: Annotated[Maybe[int], Int64] = UNSET
    admin_access: Maybe[bool] = UNSET
    tolerations: Annotated[Seq[DeviceToleration], Atomic()] = omitempty(())
    capacity: Maybe[CapacityRequirements] = UNSET


class DeviceSubRequest(Model):
    """Request for device provided in the claim.spec.devices.requests[].firstAvailable array."""

    name: Annotated[str, Required()] = omitempty("")
    device_class_name: Annotated[str, Required()] = omitempty("")
    selectors: Annotated[Seq[DeviceSelector], Atomic()] = omitempty(())
    allocation_mode: str = omitempty("")
    count: Annotated[Maybe[int], Int64] = UNSET
    tolerations: Annotated[Seq[DeviceToleration], Atomic()] = omitempty(())
    capacity: Maybe[CapacityRequirements] = UNSET


class DeviceRequest(Model):
    """Request for devices required for a claim."""

    name: Annotated[str, Required()] = omitempty("")
    exactly: Maybe[ExactDeviceRequest] = UNSET
    first_available: Annotated[Seq[DeviceSubRequest], Atomic()] = omitempty(())


class DeviceConstraint(Model):
    """DeviceConstraint must have exactly one field set besides Requests."""

    requests: Annotated[Seq[str], Atomic()] = omitempty(())
    match_attribute: Maybe[str] = UNSET
    distinct_attribute: Maybe[str] = UNSET


class OpaqueDeviceConfiguration(Model):
    """Configuration parameters for a driver in a format defined by the driver vendor."""

    driver: Annotated[str, Required()] = omitempty("")
    parameters: Annotated[Maybe[JsonObjectField], Preserve(), Required()] = UNSET


class DeviceClaimConfiguration(Model):
    """Used for configuration parameters in DeviceClaim."""

    requests: Annotated[Seq[str], Atomic()] = omitempty(())
    opaque: Maybe[OpaqueDeviceConfiguration] = UNSET


class DeviceClaim(Model):
    """How to request devices with a ResourceClaim."""

    requests: Annotated[Seq[DeviceRequest], Atomic()] = omitempty(())
    constraints: Annotated[Seq[DeviceConstraint], Atomic()] = omitempty(())
    config: Annotated[Seq[DeviceClaimConfiguration], Atomic()] = omitempty(())


class ResourceClaimSpec(Model):
    """What is being requested in a ResourceClaim and how to configure it."""

    devices: DeviceClaim = omitempty(DeviceClaim())


class DeviceRequestAllocationResult(Model):
    """Allocation result for one request."""

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
    """DeviceAllocationConfiguration gets embedded in an AllocationResult."""

    source: Annotated[str, Required()] = omitempty("")
    requests: Annotated[Seq[str], Atomic()] = omitempty(())
    opaque: Maybe[OpaqueDeviceConfiguration] = UNSET


class DeviceAllocationResult(Model):
    """Result of allocating devices."""

    results: Annotated[Seq[DeviceRequestAllocationResult], Atomic()] = omitempty(())
    config: Annotated[Seq[DeviceAllocationConfiguration], Atomic()] = omitempty(())


class AllocationResult(Model):
    """Ttributes of an allocated resource."""

    devices: DeviceAllocationResult = omitempty(DeviceAllocationResult())
    node_selector: Maybe[NodeSelector] = UNSET
    allocation_timestamp: Maybe[Time] = UNSET


class ResourceClaimConsumerReference(Model):
    """Enough information to let you locate the consumer of a ResourceClaim."""

    api_group: str = omitempty("")
    resource: Annotated[str, Required()] = omitempty("")
    name: Annotated[str, Required()] = omitempty("")
    uid: Annotated[str, Required()] = omitempty("")


class NetworkDeviceData(Model):
    """NetworkDeviceData provides network-related details for the allocated device."""

    interface_name: str = omitempty("")
    ips: Annotated[Seq[str], Atomic()] = omitempty(())
    hardware_address: str = omitempty("")


class AllocatedDeviceStatus(Model):
    """Status of an allocated device, if the driver chooses to report it."""

    driver: Annotated[str, Required()] = omitempty("")
    pool: Annotated[str, Required()] = omitempty("")
    device: Annotated[str, Required()] = omitempty("")
    share_id: Maybe[str] = UNSET
    conditions: Annotated[Seq[Condition], ListMap("type")] = omitempty(())
    data: Annotated[Maybe[JsonObjectField], Preserve()] = UNSET
    network_data: Maybe[NetworkDeviceData] = UNSET


class ResourceClaimStatus(Model):
    """ResourceClaimStatus tracks whether the resource has been allocated and what the result of that was."""

    allocation: Maybe[AllocationResult] = UNSET
    reserved_for: Annotated[Seq[ResourceClaimConsumerReference], ListMap("uid")] = omitempty(())
    devices: Annotated[Seq[AllocatedDeviceStatus], ListMap("driver", "device", "pool", "shareID")] = (
        omitempty(())
    )


class ResourceClaim(Resource, group="resource.k8s.io", version="v1", status=True):
    """Request for access to resources in the cluster, for use by workloads."""

    spec: Annotated[ResourceClaimSpec, Required()] = omitempty(ResourceClaimSpec())
    status: ResourceClaimStatus = omitempty(ResourceClaimStatus())


class ResourceClaimTemplateSpec(Model):
    """Metadata and fields for a ResourceClaim."""

    metadata: ObjectMeta = omitempty(ObjectMeta())
    spec: Annotated[ResourceClaimSpec, Required()] = omitempty(ResourceClaimSpec())


class ResourceClaimTemplate(Resource, group="resource.k8s.io", version="v1"):
    """Used to produce ResourceClaim objects."""

    spec: Annotated[ResourceClaimTemplateSpec, Required()] = omitempty(ResourceClaimTemplateSpec())


class DeviceClassConfiguration(Model):
    """Used in DeviceClass."""

    opaque: Maybe[OpaqueDeviceConfiguration] = UNSET


class DeviceClassSpec(Model):
    """Used in a [DeviceClass] to define what can be allocated and how to configure it."""

    selectors: Annotated[Seq[DeviceSelector], Atomic()] = omitempty(())
    config: Annotated[Seq[DeviceClassConfiguration], Atomic()] = omitempty(())
    extended_resource_name: Maybe[str] = UNSET


class DeviceClass(Resource, group="resource.k8s.io", version="v1", scope="Cluster"):
    """Vendor- or admin-provided resource that contains device configuration and selectors."""

    spec: Annotated[DeviceClassSpec, Required()] = omitempty(DeviceClassSpec())


class ResourcePool(Model):
    """Pool that ResourceSlices belong to."""

    name: Annotated[str, Required()] = omitempty("")
    generation: Annotated[Maybe[int], Int64, Required()] = UNSET
    resource_slice_count: Annotated[Maybe[int], Int64, Required()] = UNSET


class DeviceAttribute(Model):
    """DeviceAttribute must have exactly one field set."""

    int_: Annotated[Maybe[int], Int64] = UNSET
    bool_: Maybe[bool] = UNSET
    string: Maybe[str] = UNSET
    version: Maybe[str] = UNSET
    ints: Annotated[Seq[int], Atomic()] = omitempty(())
    bools: Annotated[Seq[bool], Atomic()] = omitempty(())
    strings: Annotated[Seq[str], Atomic()] = omitempty(())
    versions: Annotated[Seq[str], Atomic()] = omitempty(())


class CapacityRequestPolicyRange(Model):
    """Valid range for consumable capacity values."""

    min: Annotated[Maybe[Quantity], Required()] = UNSET
    max: Maybe[Quantity] = UNSET
    step: Maybe[Quantity] = UNSET


class CapacityRequestPolicy(Model):
    """How requests consume device capacity."""

    default: Maybe[Quantity] = UNSET
    valid_values: Annotated[Seq[Quantity], Atomic()] = omitempty(())
    valid_range: Maybe[CapacityRequestPolicyRange] = UNSET


class DeviceCapacity(Model):
    """Quantity associated with a device."""

    value: Annotated[Maybe[Quantity], Required()] = UNSET
    request_policy: Maybe[CapacityRequestPolicy] = UNSET


class Counter(Model):
    """Quantity associated with a device."""

    value: Annotated[Maybe[Quantity], Required()] = UNSET


class DeviceCounterConsumption(Model):
    """Set of counters that a device will consume from a CounterSet."""

    counter_set: Annotated[str, Required()] = omitempty("")
    counters: Annotated[Map[str, Counter], Required()] = omitempty(EMPTY_MAP)


class DeviceTaint(Model):
    """The device this taint is attached to has the 'effect' on any claim which does not tolerate the …"""

    key: Annotated[str, Required()] = omitempty("")
    value: str = omitempty("")
    effect: Annotated[str, Required()] = omitempty("")
    time_added: Maybe[Time] = UNSET


class NodeAllocatableResourceMapping(Model):
    """Translation between the DRA device/capacity units requested to the corresponding quantity of the …"""

    capacity_key: Maybe[str] = UNSET
    allocation_multiplier: Maybe[Quantity] = UNSET


class Device(Model):
    """One individual hardware instance that can be selected based on its attributes."""

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
    """Named set of counters that are available to be used by devices defined in the ResourcePool."""

    name: Annotated[str, Required()] = omitempty("")
    counters: Annotated[Map[str, Counter], Required()] = omitempty(EMPTY_MAP)


class ResourceSliceSpec(Model):
    """Information published by the driver in one ResourceSlice."""

    driver: Annotated[str, Required()] = omitempty("")
    pool: Annotated[ResourcePool, Required()] = omitempty(ResourcePool())
    node_name: Maybe[str] = UNSET
    node_selector: Maybe[NodeSelector] = UNSET
    all_nodes: Maybe[bool] = UNSET
    devices: Annotated[Seq[Device], Atomic()] = omitempty(())
    per_device_node_selection: Maybe[bool] = UNSET
    shared_counters: Annotated[Seq[CounterSet], Atomic()] = omitempty(())


class ResourceSlice(Resource, group="resource.k8s.io", version="v1", scope="Cluster"):
    """One or more resources in a pool of similar resources, managed by a common driver."""

    spec: Annotated[ResourceSliceSpec, Required()] = omitempty(ResourceSliceSpec())
