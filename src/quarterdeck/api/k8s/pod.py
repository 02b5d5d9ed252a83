"""Pods: containers, probes, security, status, and the template other kinds embed.

Made by ``make kubernetes``: do not edit. What a newer server adds survives as unknown fields.
"""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api.instant import OptionalTime, Time
from quarterdeck.api.intorstring import IntOrString
from quarterdeck.api.k8s.placement import Affinity, Toleration, TopologySpreadConstraint
from quarterdeck.api.k8s.reference import (
    ConfigMapKeySelector,
    FileKeySelector,
    LocalObjectReference,
    ObjectFieldSelector,
    ObjectReference,
    ResourceFieldSelector,
    SecretKeySelector,
)
from quarterdeck.api.k8s.volume import Volume
from quarterdeck.api.marker import Atomic, Default, Int32, Int64, ListMap, ListSet, Required
from quarterdeck.api.meta import ObjectMeta
from quarterdeck.api.model import EMPTY_MAP, UNSET, Map, Maybe, Model, Seq, omitempty
from quarterdeck.api.quantity import Quantity
from quarterdeck.api.resource import Resource

__all__ = [
    "AppArmorProfile",
    "Binding",
    "Capabilities",
    "ConfigMapEnvSource",
    "Container",
    "ContainerExtendedResourceRequest",
    "ContainerPort",
    "ContainerResizePolicy",
    "ContainerRestartRule",
    "ContainerRestartRuleOnExitCodes",
    "ContainerState",
    "ContainerStateRunning",
    "ContainerStateTerminated",
    "ContainerStateWaiting",
    "ContainerStatus",
    "ContainerUser",
    "EnvFromSource",
    "EnvVar",
    "EnvVarSource",
    "EphemeralContainer",
    "ExecAction",
    "GRPCAction",
    "HTTPGetAction",
    "HTTPHeader",
    "HostAlias",
    "HostIP",
    "ImageVolumeStatus",
    "Lifecycle",
    "LifecycleHandler",
    "LinuxContainerUser",
    "NodeAllocatableResourceClaimStatus",
    "Pod",
    "PodCondition",
    "PodDNSConfig",
    "PodDNSConfigOption",
    "PodExtendedResourceClaimStatus",
    "PodIP",
    "PodOS",
    "PodReadinessGate",
    "PodResourceClaim",
    "PodResourceClaimStatus",
    "PodSchedulingGate",
    "PodSchedulingGroup",
    "PodSecurityContext",
    "PodSpec",
    "PodStatus",
    "PodTemplate",
    "PodTemplateSpec",
    "Probe",
    "ResourceClaim",
    "ResourceHealth",
    "ResourceRequirements",
    "ResourceStatus",
    "SELinuxOptions",
    "SeccompProfile",
    "SecretEnvSource",
    "SecurityContext",
    "SleepAction",
    "Sysctl",
    "TCPSocketAction",
    "VolumeDevice",
    "VolumeMount",
    "VolumeMountStatus",
    "VolumeStatus",
    "WindowsSecurityContextOptions",
]


class ContainerPort(Model):
    name: str = omitempty("")
    host_port: Annotated[Maybe[int], Int32] = UNSET
    container_port: Annotated[Maybe[int], Int32, Required()] = UNSET
    protocol: Annotated[str, Default("TCP")] = omitempty("")
    host_ip: str = omitempty("")


class ConfigMapEnvSource(Model):
    name: Annotated[str, Default("")] = omitempty("")
    optional: Maybe[bool] = UNSET


class SecretEnvSource(Model):
    name: Annotated[str, Default("")] = omitempty("")
    optional: Maybe[bool] = UNSET


class EnvFromSource(Model):
    prefix: str = omitempty("")
    config_map_ref: Maybe[ConfigMapEnvSource] = UNSET
    secret_ref: Maybe[SecretEnvSource] = UNSET


class EnvVarSource(Model):
    field_ref: Maybe[ObjectFieldSelector] = UNSET
    resource_field_ref: Maybe[ResourceFieldSelector] = UNSET
    config_map_key_ref: Maybe[ConfigMapKeySelector] = UNSET
    secret_key_ref: Maybe[SecretKeySelector] = UNSET
    file_key_ref: Maybe[FileKeySelector] = UNSET


class EnvVar(Model):
    name: Annotated[str, Required()] = omitempty("")
    value: str = omitempty("")
    value_from: Maybe[EnvVarSource] = UNSET


class ResourceClaim(Model):
    name: Annotated[str, Required()] = omitempty("")
    request: str = omitempty("")


class ResourceRequirements(Model):
    limits: Map[str, Quantity] = omitempty(EMPTY_MAP)
    requests: Map[str, Quantity] = omitempty(EMPTY_MAP)
    claims: Annotated[Seq[ResourceClaim], ListMap("name")] = omitempty(())


class ContainerResizePolicy(Model):
    resource_name: Annotated[str, Required()] = omitempty("")
    restart_policy: Annotated[str, Required()] = omitempty("")


class ContainerRestartRuleOnExitCodes(Model):
    operator: Annotated[str, Required()] = omitempty("")
    values: Annotated[Seq[int], ListSet()] = omitempty(())


class ContainerRestartRule(Model):
    action: Annotated[str, Required()] = omitempty("")
    exit_codes: Maybe[ContainerRestartRuleOnExitCodes] = UNSET


class VolumeMount(Model):
    name: Annotated[str, Required()] = omitempty("")
    read_only: Maybe[bool] = UNSET
    recursive_read_only: Maybe[str] = UNSET
    mount_path: Annotated[str, Required()] = omitempty("")
    sub_path: str = omitempty("")
    mount_propagation: Maybe[str] = UNSET
    sub_path_expr: str = omitempty("")


class VolumeDevice(Model):
    name: Annotated[str, Required()] = omitempty("")
    device_path: Annotated[str, Required()] = omitempty("")


class ExecAction(Model):
    command: Annotated[Seq[str], Atomic()] = omitempty(())


class HTTPHeader(Model):
    name: Annotated[str, Required()] = omitempty("")
    value: Annotated[str, Required()] = omitempty("")


class HTTPGetAction(Model):
    path: str = omitempty("")
    port: Annotated[Maybe[IntOrString], Required()] = UNSET
    host: str = omitempty("")
    scheme: str = omitempty("")
    http_headers: Annotated[Seq[HTTPHeader], Atomic()] = omitempty(())


class TCPSocketAction(Model):
    port: Annotated[Maybe[IntOrString], Required()] = UNSET
    host: str = omitempty("")


class GRPCAction(Model):
    port: Annotated[Maybe[int], Int32, Required()] = UNSET
    service: Annotated[Maybe[str], Default("")] = UNSET


class Probe(Model):
    exec: Maybe[ExecAction] = UNSET
    http_get: Maybe[HTTPGetAction] = UNSET
    tcp_socket: Maybe[TCPSocketAction] = UNSET
    grpc: Maybe[GRPCAction] = UNSET
    initial_delay_seconds: Annotated[Maybe[int], Int32] = UNSET
    timeout_seconds: Annotated[Maybe[int], Int32] = UNSET
    period_seconds: Annotated[Maybe[int], Int32] = UNSET
    success_threshold: Annotated[Maybe[int], Int32] = UNSET
    failure_threshold: Annotated[Maybe[int], Int32] = UNSET
    termination_grace_period_seconds: Annotated[Maybe[int], Int64] = UNSET


class SleepAction(Model):
    seconds: Annotated[Maybe[int], Int64, Required()] = UNSET


class LifecycleHandler(Model):
    exec: Maybe[ExecAction] = UNSET
    http_get: Maybe[HTTPGetAction] = UNSET
    tcp_socket: Maybe[TCPSocketAction] = UNSET
    sleep: Maybe[SleepAction] = UNSET


class Lifecycle(Model):
    post_start: Maybe[LifecycleHandler] = UNSET
    pre_stop: Maybe[LifecycleHandler] = UNSET
    stop_signal: Maybe[str] = UNSET


class Capabilities(Model):
    add: Annotated[Seq[str], Atomic()] = omitempty(())
    drop: Annotated[Seq[str], Atomic()] = omitempty(())


class SELinuxOptions(Model):
    user: str = omitempty("")
    role: str = omitempty("")
    type: str = omitempty("")
    level: str = omitempty("")


class WindowsSecurityContextOptions(Model):
    gmsa_credential_spec_name: Maybe[str] = UNSET
    gmsa_credential_spec: Maybe[str] = UNSET
    run_as_user_name: Maybe[str] = UNSET
    host_process: Maybe[bool] = UNSET


class SeccompProfile(Model):
    type: Annotated[str, Required()] = omitempty("")
    localhost_profile: Maybe[str] = UNSET


class AppArmorProfile(Model):
    type: Annotated[str, Required()] = omitempty("")
    localhost_profile: Maybe[str] = UNSET


class SecurityContext(Model):
    capabilities: Maybe[Capabilities] = UNSET
    privileged: Maybe[bool] = UNSET
    se_linux_options: Maybe[SELinuxOptions] = UNSET
    windows_options: Maybe[WindowsSecurityContextOptions] = UNSET
    run_as_user: Annotated[Maybe[int], Int64] = UNSET
    run_as_group: Annotated[Maybe[int], Int64] = UNSET
    run_as_non_root: Maybe[bool] = UNSET
    read_only_root_filesystem: Maybe[bool] = UNSET
    allow_privilege_escalation: Maybe[bool] = UNSET
    proc_mount: Maybe[str] = UNSET
    seccomp_profile: Maybe[SeccompProfile] = UNSET
    app_armor_profile: Maybe[AppArmorProfile] = UNSET


class Container(Model):
    name: Annotated[str, Required()] = omitempty("")
    image: str = omitempty("")
    command: Annotated[Seq[str], Atomic()] = omitempty(())
    args: Annotated[Seq[str], Atomic()] = omitempty(())
    working_dir: str = omitempty("")
    ports: Annotated[Seq[ContainerPort], ListMap("containerPort", "protocol")] = omitempty(())
    env_from: Annotated[Seq[EnvFromSource], Atomic()] = omitempty(())
    env: Annotated[Seq[EnvVar], ListMap("name")] = omitempty(())
    resources: ResourceRequirements = omitempty(ResourceRequirements())
    resize_policy: Annotated[Seq[ContainerResizePolicy], Atomic()] = omitempty(())
    restart_policy: Maybe[str] = UNSET
    restart_policy_rules: Annotated[Seq[ContainerRestartRule], Atomic()] = omitempty(())
    volume_mounts: Annotated[Seq[VolumeMount], ListMap("mountPath")] = omitempty(())
    volume_devices: Annotated[Seq[VolumeDevice], ListMap("devicePath")] = omitempty(())
    liveness_probe: Maybe[Probe] = UNSET
    readiness_probe: Maybe[Probe] = UNSET
    startup_probe: Maybe[Probe] = UNSET
    lifecycle: Maybe[Lifecycle] = UNSET
    termination_message_path: str = omitempty("")
    termination_message_policy: str = omitempty("")
    image_pull_policy: str = omitempty("")
    security_context: Maybe[SecurityContext] = UNSET
    stdin: Maybe[bool] = UNSET
    stdin_once: Maybe[bool] = UNSET
    tty: Maybe[bool] = UNSET


class EphemeralContainer(Model):
    name: Annotated[str, Required()] = omitempty("")
    image: str = omitempty("")
    command: Annotated[Seq[str], Atomic()] = omitempty(())
    args: Annotated[Seq[str], Atomic()] = omitempty(())
    working_dir: str = omitempty("")
    ports: Annotated[Seq[ContainerPort], ListMap("containerPort", "protocol")] = omitempty(())
    env_from: Annotated[Seq[EnvFromSource], Atomic()] = omitempty(())
    env: Annotated[Seq[EnvVar], ListMap("name")] = omitempty(())
    resources: ResourceRequirements = omitempty(ResourceRequirements())
    resize_policy: Annotated[Seq[ContainerResizePolicy], Atomic()] = omitempty(())
    restart_policy: Maybe[str] = UNSET
    restart_policy_rules: Annotated[Seq[ContainerRestartRule], Atomic()] = omitempty(())
    volume_mounts: Annotated[Seq[VolumeMount], ListMap("mountPath")] = omitempty(())
    volume_devices: Annotated[Seq[VolumeDevice], ListMap("devicePath")] = omitempty(())
    liveness_probe: Maybe[Probe] = UNSET
    readiness_probe: Maybe[Probe] = UNSET
    startup_probe: Maybe[Probe] = UNSET
    lifecycle: Maybe[Lifecycle] = UNSET
    termination_message_path: str = omitempty("")
    termination_message_policy: str = omitempty("")
    image_pull_policy: str = omitempty("")
    security_context: Maybe[SecurityContext] = UNSET
    stdin: Maybe[bool] = UNSET
    stdin_once: Maybe[bool] = UNSET
    tty: Maybe[bool] = UNSET
    target_container_name: str = omitempty("")


class Sysctl(Model):
    name: Annotated[str, Required()] = omitempty("")
    value: Annotated[str, Required()] = omitempty("")


class PodSecurityContext(Model):
    se_linux_options: Maybe[SELinuxOptions] = UNSET
    windows_options: Maybe[WindowsSecurityContextOptions] = UNSET
    run_as_user: Annotated[Maybe[int], Int64] = UNSET
    run_as_group: Annotated[Maybe[int], Int64] = UNSET
    run_as_non_root: Maybe[bool] = UNSET
    supplemental_groups: Annotated[Seq[int], Atomic()] = omitempty(())
    supplemental_groups_policy: Maybe[str] = UNSET
    fs_group: Annotated[Maybe[int], Int64] = UNSET
    sysctls: Annotated[Seq[Sysctl], Atomic()] = omitempty(())
    fs_group_change_policy: Maybe[str] = UNSET
    seccomp_profile: Maybe[SeccompProfile] = UNSET
    app_armor_profile: Maybe[AppArmorProfile] = UNSET
    se_linux_change_policy: Maybe[str] = UNSET


class HostAlias(Model):
    ip: Annotated[str, Required()] = omitempty("")
    hostnames: Annotated[Seq[str], Atomic()] = omitempty(())


class PodDNSConfigOption(Model):
    name: str = omitempty("")
    value: Maybe[str] = UNSET


class PodDNSConfig(Model):
    nameservers: Annotated[Seq[str], Atomic()] = omitempty(())
    searches: Annotated[Seq[str], Atomic()] = omitempty(())
    options: Annotated[Seq[PodDNSConfigOption], Atomic()] = omitempty(())


class PodReadinessGate(Model):
    condition_type: Annotated[str, Required()] = omitempty("")


class PodOS(Model):
    name: Annotated[str, Required()] = omitempty("")


class PodSchedulingGate(Model):
    name: Annotated[str, Required()] = omitempty("")


class PodResourceClaim(Model):
    name: Annotated[str, Required()] = omitempty("")
    resource_claim_name: Maybe[str] = UNSET
    resource_claim_template_name: Maybe[str] = UNSET


class PodSchedulingGroup(Model):
    pod_group_name: Maybe[str] = UNSET


class PodSpec(Model):
    volumes: Annotated[Seq[Volume], ListMap("name")] = omitempty(())
    init_containers: Annotated[Seq[Container], ListMap("name")] = omitempty(())
    containers: Annotated[Seq[Container], ListMap("name"), Required()] = omitempty(())
    ephemeral_containers: Annotated[Seq[EphemeralContainer], ListMap("name")] = omitempty(())
    restart_policy: str = omitempty("")
    termination_grace_period_seconds: Annotated[Maybe[int], Int64] = UNSET
    active_deadline_seconds: Annotated[Maybe[int], Int64] = UNSET
    dns_policy: str = omitempty("")
    node_selector: Annotated[Map[str, str], Atomic()] = omitempty(EMPTY_MAP)
    service_account_name: str = omitempty("")
    service_account: str = omitempty("")
    automount_service_account_token: Maybe[bool] = UNSET
    node_name: str = omitempty("")
    host_network: Maybe[bool] = UNSET
    host_pid: Maybe[bool] = UNSET
    host_ipc: Maybe[bool] = UNSET
    share_process_namespace: Maybe[bool] = UNSET
    security_context: Maybe[PodSecurityContext] = UNSET
    image_pull_secrets: Annotated[Seq[LocalObjectReference], ListMap("name")] = omitempty(())
    hostname: str = omitempty("")
    subdomain: str = omitempty("")
    affinity: Maybe[Affinity] = UNSET
    scheduler_name: str = omitempty("")
    tolerations: Annotated[Seq[Toleration], Atomic()] = omitempty(())
    host_aliases: Annotated[Seq[HostAlias], ListMap("ip")] = omitempty(())
    priority_class_name: str = omitempty("")
    priority: Annotated[Maybe[int], Int32] = UNSET
    dns_config: Maybe[PodDNSConfig] = UNSET
    readiness_gates: Annotated[Seq[PodReadinessGate], Atomic()] = omitempty(())
    runtime_class_name: Maybe[str] = UNSET
    enable_service_links: Maybe[bool] = UNSET
    preemption_policy: Maybe[str] = UNSET
    overhead: Map[str, Quantity] = omitempty(EMPTY_MAP)
    topology_spread_constraints: Annotated[
        Seq[TopologySpreadConstraint], ListMap("topologyKey", "whenUnsatisfiable")
    ] = omitempty(())
    set_hostname_as_fqdn: Maybe[bool] = UNSET
    os: Maybe[PodOS] = UNSET
    host_users: Maybe[bool] = UNSET
    scheduling_gates: Annotated[Seq[PodSchedulingGate], ListMap("name")] = omitempty(())
    resource_claims: Annotated[Seq[PodResourceClaim], ListMap("name")] = omitempty(())
    resources: Maybe[ResourceRequirements] = UNSET
    hostname_override: Maybe[str] = UNSET
    scheduling_group: Maybe[PodSchedulingGroup] = UNSET


class PodCondition(Model):
    type: Annotated[str, Required()] = omitempty("")
    observed_generation: Annotated[Maybe[int], Int64] = UNSET
    status: Annotated[str, Required()] = omitempty("")
    last_probe_time: OptionalTime = UNSET
    last_transition_time: OptionalTime = UNSET
    reason: str = omitempty("")
    message: str = omitempty("")


class HostIP(Model):
    ip: Annotated[str, Required()] = omitempty("")


class PodIP(Model):
    ip: Annotated[str, Required()] = omitempty("")


class ContainerStateWaiting(Model):
    reason: str = omitempty("")
    message: str = omitempty("")


class ContainerStateRunning(Model):
    started_at: OptionalTime = UNSET


class ContainerStateTerminated(Model):
    exit_code: Annotated[Maybe[int], Int32, Required()] = UNSET
    signal: Annotated[Maybe[int], Int32] = UNSET
    reason: str = omitempty("")
    message: str = omitempty("")
    started_at: OptionalTime = UNSET
    finished_at: OptionalTime = UNSET
    container_id: str = omitempty("")


class ContainerState(Model):
    waiting: Maybe[ContainerStateWaiting] = UNSET
    running: Maybe[ContainerStateRunning] = UNSET
    terminated: Maybe[ContainerStateTerminated] = UNSET


class ImageVolumeStatus(Model):
    image_ref: Annotated[str, Required()] = omitempty("")


class VolumeStatus(Model):
    image: Maybe[ImageVolumeStatus] = UNSET


class VolumeMountStatus(Model):
    name: Annotated[str, Required()] = omitempty("")
    mount_path: Annotated[str, Required()] = omitempty("")
    read_only: Maybe[bool] = UNSET
    recursive_read_only: Maybe[str] = UNSET
    volume_status: Maybe[VolumeStatus] = UNSET


class LinuxContainerUser(Model):
    uid: Annotated[Maybe[int], Int64, Required()] = UNSET
    gid: Annotated[Maybe[int], Int64, Required()] = UNSET
    supplemental_groups: Annotated[Seq[int], Atomic()] = omitempty(())


class ContainerUser(Model):
    linux: Maybe[LinuxContainerUser] = UNSET


class ResourceHealth(Model):
    resource_id: Annotated[str, Required()] = omitempty("")
    health: str = omitempty("")
    message: Maybe[str] = UNSET


class ResourceStatus(Model):
    name: Annotated[str, Required()] = omitempty("")
    resources: Annotated[Seq[ResourceHealth], ListMap("resourceID")] = omitempty(())


class ContainerStatus(Model):
    name: Annotated[str, Required()] = omitempty("")
    state: ContainerState = omitempty(ContainerState())
    last_state: ContainerState = omitempty(ContainerState())
    ready: Annotated[Maybe[bool], Required()] = UNSET
    restart_count: Annotated[Maybe[int], Int32, Required()] = UNSET
    image: Annotated[str, Required()] = omitempty("")
    image_id: Annotated[str, Required()] = omitempty("")
    container_id: str = omitempty("")
    started: Maybe[bool] = UNSET
    allocated_resources: Map[str, Quantity] = omitempty(EMPTY_MAP)
    resources: Maybe[ResourceRequirements] = UNSET
    volume_mounts: Annotated[Seq[VolumeMountStatus], ListMap("mountPath")] = omitempty(())
    user: Maybe[ContainerUser] = UNSET
    allocated_resources_status: Annotated[Seq[ResourceStatus], ListMap("name")] = omitempty(())
    stop_signal: Maybe[str] = UNSET


class PodResourceClaimStatus(Model):
    name: Annotated[str, Required()] = omitempty("")
    resource_claim_name: Maybe[str] = UNSET


class ContainerExtendedResourceRequest(Model):
    container_name: Annotated[str, Required()] = omitempty("")
    resource_name: Annotated[str, Required()] = omitempty("")
    request_name: Annotated[str, Required()] = omitempty("")


class PodExtendedResourceClaimStatus(Model):
    request_mappings: Annotated[Seq[ContainerExtendedResourceRequest], Atomic(), Required()] = omitempty(())
    resource_claim_name: Annotated[str, Required()] = omitempty("")


class NodeAllocatableResourceClaimStatus(Model):
    resource_claim_name: Annotated[str, Required()] = omitempty("")
    containers: Annotated[Seq[str], ListSet()] = omitempty(())
    resources: Annotated[Map[str, Quantity], Required()] = omitempty(EMPTY_MAP)


class PodStatus(Model):
    observed_generation: Annotated[Maybe[int], Int64] = UNSET
    phase: str = omitempty("")
    conditions: Annotated[Seq[PodCondition], ListMap("type")] = omitempty(())
    message: str = omitempty("")
    reason: str = omitempty("")
    nominated_node_name: str = omitempty("")
    host_ip: str = omitempty("")
    host_ips: Annotated[Seq[HostIP], Atomic()] = omitempty(())
    pod_ip: str = omitempty("")
    pod_ips: Annotated[Seq[PodIP], ListMap("ip")] = omitempty(())
    start_time: Maybe[Time] = UNSET
    init_container_statuses: Annotated[Seq[ContainerStatus], Atomic()] = omitempty(())
    container_statuses: Annotated[Seq[ContainerStatus], Atomic()] = omitempty(())
    qos_class: str = omitempty("")
    ephemeral_container_statuses: Annotated[Seq[ContainerStatus], Atomic()] = omitempty(())
    resize: str = omitempty("")
    resource_claim_statuses: Annotated[Seq[PodResourceClaimStatus], ListMap("name")] = omitempty(())
    extended_resource_claim_status: Maybe[PodExtendedResourceClaimStatus] = UNSET
    allocated_resources: Map[str, Quantity] = omitempty(EMPTY_MAP)
    resources: Maybe[ResourceRequirements] = UNSET
    node_allocatable_resource_claim_statuses: Annotated[Seq[NodeAllocatableResourceClaimStatus], Atomic()] = (
        omitempty(())
    )


class Pod(Resource, version="v1", plural="pods", short_names=["po"], status=True):
    spec: PodSpec = omitempty(PodSpec())
    status: PodStatus = omitempty(PodStatus())


class PodTemplateSpec(Model):
    metadata: ObjectMeta = omitempty(ObjectMeta())
    spec: PodSpec = omitempty(PodSpec())


class PodTemplate(Resource, version="v1", plural="podtemplates"):
    template: PodTemplateSpec = omitempty(PodTemplateSpec())


class Binding(Resource, version="v1", plural="bindings"):
    target: Annotated[ObjectReference, Required()] = omitempty(ObjectReference())
