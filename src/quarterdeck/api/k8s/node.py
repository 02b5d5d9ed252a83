"""Nodes.

Made by ``make kubernetes``: do not edit. What a newer server adds survives as unknown fields.
"""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api.instant import OptionalTime
from quarterdeck.api.k8s.placement import Taint
from quarterdeck.api.marker import Atomic, Int32, Int64, ListMap, ListSet, Required
from quarterdeck.api.model import EMPTY_MAP, UNSET, Map, Maybe, Model, Seq, field, omitempty
from quarterdeck.api.quantity import Quantity
from quarterdeck.api.resource import Resource

__all__ = [
    "AttachedVolume",
    "ConfigMapNodeConfigSource",
    "ContainerImage",
    "DaemonEndpoint",
    "Node",
    "NodeAddress",
    "NodeCondition",
    "NodeConfigSource",
    "NodeConfigStatus",
    "NodeDaemonEndpoints",
    "NodeFeatures",
    "NodeRuntimeHandler",
    "NodeRuntimeHandlerFeatures",
    "NodeSpec",
    "NodeStatus",
    "NodeSwapStatus",
    "NodeSystemInfo",
]


class ConfigMapNodeConfigSource(Model):
    namespace: Annotated[str, Required()] = omitempty("")
    name: Annotated[str, Required()] = omitempty("")
    uid: str = omitempty("")
    resource_version: str = omitempty("")
    kubelet_config_key: Annotated[str, Required()] = omitempty("")


class NodeConfigSource(Model):
    config_map: Maybe[ConfigMapNodeConfigSource] = UNSET


class NodeSpec(Model):
    pod_cidr: str = omitempty("")
    pod_cidrs: Annotated[Seq[str], ListSet()] = omitempty(())
    provider_id: str = omitempty("")
    unschedulable: Maybe[bool] = UNSET
    taints: Annotated[Seq[Taint], Atomic()] = omitempty(())
    config_source: Maybe[NodeConfigSource] = UNSET
    external_id: str = omitempty("")


class NodeCondition(Model):
    type: Annotated[str, Required()] = omitempty("")
    status: Annotated[str, Required()] = omitempty("")
    last_heartbeat_time: OptionalTime = UNSET
    last_transition_time: OptionalTime = UNSET
    reason: str = omitempty("")
    message: str = omitempty("")


class NodeAddress(Model):
    type: Annotated[str, Required()] = omitempty("")
    address: Annotated[str, Required()] = omitempty("")


class DaemonEndpoint(Model):
    port: Annotated[Maybe[int], Int32, Required()] = field(name="Port", default=UNSET)


class NodeDaemonEndpoints(Model):
    kubelet_endpoint: DaemonEndpoint = omitempty(DaemonEndpoint())


class NodeSwapStatus(Model):
    capacity: Annotated[Maybe[int], Int64] = UNSET


class NodeSystemInfo(Model):
    machine_id: Annotated[str, Required()] = omitempty("")
    system_uuid: Annotated[str, Required()] = omitempty("")
    boot_id: Annotated[str, Required()] = omitempty("")
    kernel_version: Annotated[str, Required()] = omitempty("")
    os_image: Annotated[str, Required()] = omitempty("")
    container_runtime_version: Annotated[str, Required()] = omitempty("")
    kubelet_version: Annotated[str, Required()] = omitempty("")
    kube_proxy_version: Annotated[str, Required()] = omitempty("")
    operating_system: Annotated[str, Required()] = omitempty("")
    architecture: Annotated[str, Required()] = omitempty("")
    swap: Maybe[NodeSwapStatus] = UNSET


class ContainerImage(Model):
    names: Annotated[Seq[str], Atomic()] = omitempty(())
    size_bytes: Annotated[Maybe[int], Int64] = UNSET


class AttachedVolume(Model):
    name: Annotated[str, Required()] = omitempty("")
    device_path: Annotated[str, Required()] = omitempty("")


class NodeConfigStatus(Model):
    assigned: Maybe[NodeConfigSource] = UNSET
    active: Maybe[NodeConfigSource] = UNSET
    last_known_good: Maybe[NodeConfigSource] = UNSET
    error: str = omitempty("")


class NodeRuntimeHandlerFeatures(Model):
    recursive_read_only_mounts: Maybe[bool] = UNSET
    user_namespaces: Maybe[bool] = UNSET


class NodeRuntimeHandler(Model):
    name: str = omitempty("")
    features: Maybe[NodeRuntimeHandlerFeatures] = UNSET


class NodeFeatures(Model):
    supplemental_groups_policy: Maybe[bool] = UNSET


class NodeStatus(Model):
    capacity: Map[str, Quantity] = omitempty(EMPTY_MAP)
    allocatable: Map[str, Quantity] = omitempty(EMPTY_MAP)
    phase: str = omitempty("")
    conditions: Annotated[Seq[NodeCondition], ListMap("type")] = omitempty(())
    addresses: Annotated[Seq[NodeAddress], ListMap("type")] = omitempty(())
    daemon_endpoints: NodeDaemonEndpoints = omitempty(NodeDaemonEndpoints())
    node_info: NodeSystemInfo = omitempty(NodeSystemInfo())
    images: Annotated[Seq[ContainerImage], Atomic()] = omitempty(())
    volumes_in_use: Annotated[Seq[str], Atomic()] = omitempty(())
    volumes_attached: Annotated[Seq[AttachedVolume], Atomic()] = omitempty(())
    config: Maybe[NodeConfigStatus] = UNSET
    runtime_handlers: Annotated[Seq[NodeRuntimeHandler], Atomic()] = omitempty(())
    features: Maybe[NodeFeatures] = UNSET
    declared_features: Annotated[Seq[str], Atomic()] = omitempty(())


class Node(Resource, version="v1", plural="nodes", scope="Cluster", short_names=["no"], status=True):
    spec: NodeSpec = omitempty(NodeSpec())
    status: NodeStatus = omitempty(NodeStatus())
