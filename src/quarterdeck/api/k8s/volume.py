"""Volumes: every source a pod can mount, persistent volumes and claims.

Made by ``make kubernetes``: do not edit. What a newer server adds survives as unknown fields.
"""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api.instant import OptionalTime, Time
from quarterdeck.api.k8s.placement import NodeSelector
from quarterdeck.api.k8s.reference import (
    LocalObjectReference,
    ObjectFieldSelector,
    ObjectReference,
    ResourceFieldSelector,
    SecretReference,
    TypedLocalObjectReference,
    TypedObjectReference,
)
from quarterdeck.api.marker import Atomic, Default, Int32, Int64, ListMap, Required
from quarterdeck.api.meta import LabelSelector, ObjectMeta
from quarterdeck.api.model import EMPTY_MAP, UNSET, Map, Maybe, Model, Seq, field, omitempty
from quarterdeck.api.quantity import Quantity
from quarterdeck.api.resource import Resource

__all__ = [
    "AWSElasticBlockStoreVolumeSource",
    "AzureDiskVolumeSource",
    "AzureFilePersistentVolumeSource",
    "AzureFileVolumeSource",
    "CSIPersistentVolumeSource",
    "CSIVolumeSource",
    "CephFSPersistentVolumeSource",
    "CephFSVolumeSource",
    "CinderPersistentVolumeSource",
    "CinderVolumeSource",
    "ClusterTrustBundleProjection",
    "ConfigMapProjection",
    "ConfigMapVolumeSource",
    "DownwardAPIProjection",
    "DownwardAPIVolumeFile",
    "DownwardAPIVolumeSource",
    "EmptyDirVolumeSource",
    "EphemeralVolumeSource",
    "FCVolumeSource",
    "FlexPersistentVolumeSource",
    "FlexVolumeSource",
    "FlockerVolumeSource",
    "GCEPersistentDiskVolumeSource",
    "GitRepoVolumeSource",
    "GlusterfsPersistentVolumeSource",
    "GlusterfsVolumeSource",
    "HostPathVolumeSource",
    "ISCSIPersistentVolumeSource",
    "ISCSIVolumeSource",
    "ImageVolumeSource",
    "KeyToPath",
    "LocalVolumeSource",
    "ModifyVolumeStatus",
    "NFSVolumeSource",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PersistentVolumeClaimCondition",
    "PersistentVolumeClaimSpec",
    "PersistentVolumeClaimStatus",
    "PersistentVolumeClaimTemplate",
    "PersistentVolumeClaimVolumeSource",
    "PersistentVolumeSpec",
    "PersistentVolumeStatus",
    "PhotonPersistentDiskVolumeSource",
    "PodCertificateProjection",
    "PortworxVolumeSource",
    "ProjectedVolumeSource",
    "QuobyteVolumeSource",
    "RBDPersistentVolumeSource",
    "RBDVolumeSource",
    "ScaleIOPersistentVolumeSource",
    "ScaleIOVolumeSource",
    "SecretProjection",
    "SecretVolumeSource",
    "ServiceAccountTokenProjection",
    "StorageOSPersistentVolumeSource",
    "StorageOSVolumeSource",
    "Volume",
    "VolumeNodeAffinity",
    "VolumeProjection",
    "VolumeResourceRequirements",
    "VsphereVirtualDiskVolumeSource",
]


class HostPathVolumeSource(Model):
    path: Annotated[str, Required()] = omitempty("")
    type: Maybe[str] = UNSET


class EmptyDirVolumeSource(Model):
    medium: str = omitempty("")
    size_limit: Maybe[Quantity] = UNSET


class GCEPersistentDiskVolumeSource(Model):
    pd_name: Annotated[str, Required()] = omitempty("")
    fs_type: str = omitempty("")
    partition: Annotated[Maybe[int], Int32] = UNSET
    read_only: Maybe[bool] = UNSET


class AWSElasticBlockStoreVolumeSource(Model):
    volume_id: Annotated[str, Required()] = omitempty("")
    fs_type: str = omitempty("")
    partition: Annotated[Maybe[int], Int32] = UNSET
    read_only: Maybe[bool] = UNSET


class GitRepoVolumeSource(Model):
    repository: Annotated[str, Required()] = omitempty("")
    revision: str = omitempty("")
    directory: str = omitempty("")


class KeyToPath(Model):
    key: Annotated[str, Required()] = omitempty("")
    path: Annotated[str, Required()] = omitempty("")
    mode: Annotated[Maybe[int], Int32] = UNSET


class SecretVolumeSource(Model):
    secret_name: str = omitempty("")
    items: Annotated[Seq[KeyToPath], Atomic()] = omitempty(())
    default_mode: Annotated[Maybe[int], Int32] = UNSET
    optional: Maybe[bool] = UNSET


class NFSVolumeSource(Model):
    server: Annotated[str, Required()] = omitempty("")
    path: Annotated[str, Required()] = omitempty("")
    read_only: Maybe[bool] = UNSET


class ISCSIVolumeSource(Model):
    target_portal: Annotated[str, Required()] = omitempty("")
    iqn: Annotated[str, Required()] = omitempty("")
    lun: Annotated[Maybe[int], Int32, Required()] = UNSET
    iscsi_interface: Annotated[str, Default("default")] = omitempty("")
    fs_type: str = omitempty("")
    read_only: Maybe[bool] = UNSET
    portals: Annotated[Seq[str], Atomic()] = omitempty(())
    chap_auth_discovery: Maybe[bool] = UNSET
    chap_auth_session: Maybe[bool] = UNSET
    secret_ref: Maybe[LocalObjectReference] = UNSET
    initiator_name: Maybe[str] = UNSET


class GlusterfsVolumeSource(Model):
    endpoints: Annotated[str, Required()] = omitempty("")
    path: Annotated[str, Required()] = omitempty("")
    read_only: Maybe[bool] = UNSET


class PersistentVolumeClaimVolumeSource(Model):
    claim_name: Annotated[str, Required()] = omitempty("")
    read_only: Maybe[bool] = UNSET


class RBDVolumeSource(Model):
    monitors: Annotated[Seq[str], Atomic(), Required()] = omitempty(())
    image: Annotated[str, Required()] = omitempty("")
    fs_type: str = omitempty("")
    pool: Annotated[str, Default("rbd")] = omitempty("")
    user: Annotated[str, Default("admin")] = omitempty("")
    keyring: Annotated[str, Default("/etc/ceph/keyring")] = omitempty("")
    secret_ref: Maybe[LocalObjectReference] = UNSET
    read_only: Maybe[bool] = UNSET


class FlexVolumeSource(Model):
    driver: Annotated[str, Required()] = omitempty("")
    fs_type: str = omitempty("")
    secret_ref: Maybe[LocalObjectReference] = UNSET
    read_only: Maybe[bool] = UNSET
    options: Map[str, str] = omitempty(EMPTY_MAP)


class CinderVolumeSource(Model):
    volume_id: Annotated[str, Required()] = omitempty("")
    fs_type: str = omitempty("")
    read_only: Maybe[bool] = UNSET
    secret_ref: Maybe[LocalObjectReference] = UNSET


class CephFSVolumeSource(Model):
    monitors: Annotated[Seq[str], Atomic(), Required()] = omitempty(())
    path: str = omitempty("")
    user: str = omitempty("")
    secret_file: str = omitempty("")
    secret_ref: Maybe[LocalObjectReference] = UNSET
    read_only: Maybe[bool] = UNSET


class FlockerVolumeSource(Model):
    dataset_name: str = omitempty("")
    dataset_uuid: str = omitempty("")


class DownwardAPIVolumeFile(Model):
    path: Annotated[str, Required()] = omitempty("")
    field_ref: Maybe[ObjectFieldSelector] = UNSET
    resource_field_ref: Maybe[ResourceFieldSelector] = UNSET
    mode: Annotated[Maybe[int], Int32] = UNSET


class DownwardAPIVolumeSource(Model):
    items: Annotated[Seq[DownwardAPIVolumeFile], Atomic()] = omitempty(())
    default_mode: Annotated[Maybe[int], Int32] = UNSET


class FCVolumeSource(Model):
    target_wwns: Annotated[Seq[str], Atomic()] = omitempty(())
    lun: Annotated[Maybe[int], Int32] = UNSET
    fs_type: str = omitempty("")
    read_only: Maybe[bool] = UNSET
    wwids: Annotated[Seq[str], Atomic()] = omitempty(())


class AzureFileVolumeSource(Model):
    secret_name: Annotated[str, Required()] = omitempty("")
    share_name: Annotated[str, Required()] = omitempty("")
    read_only: Maybe[bool] = UNSET


class ConfigMapVolumeSource(Model):
    name: Annotated[str, Default("")] = omitempty("")
    items: Annotated[Seq[KeyToPath], Atomic()] = omitempty(())
    default_mode: Annotated[Maybe[int], Int32] = UNSET
    optional: Maybe[bool] = UNSET


class VsphereVirtualDiskVolumeSource(Model):
    volume_path: Annotated[str, Required()] = omitempty("")
    fs_type: str = omitempty("")
    storage_policy_name: str = omitempty("")
    storage_policy_id: str = omitempty("")


class QuobyteVolumeSource(Model):
    registry: Annotated[str, Required()] = omitempty("")
    volume: Annotated[str, Required()] = omitempty("")
    read_only: Maybe[bool] = UNSET
    user: str = omitempty("")
    group: str = omitempty("")
    tenant: str = omitempty("")


class AzureDiskVolumeSource(Model):
    disk_name: Annotated[str, Required()] = omitempty("")
    disk_uri: Annotated[str, Required()] = omitempty("")
    caching_mode: Annotated[Maybe[str], Default("ReadWrite")] = UNSET
    fs_type: Annotated[Maybe[str], Default("ext4")] = UNSET
    read_only: Annotated[Maybe[bool], Default(False)] = UNSET
    kind: Annotated[Maybe[str], Default("Shared")] = UNSET


class PhotonPersistentDiskVolumeSource(Model):
    pd_id: Annotated[str, Required()] = omitempty("")
    fs_type: str = omitempty("")


class SecretProjection(Model):
    name: Annotated[str, Default("")] = omitempty("")
    items: Annotated[Seq[KeyToPath], Atomic()] = omitempty(())
    optional: Maybe[bool] = UNSET


class DownwardAPIProjection(Model):
    items: Annotated[Seq[DownwardAPIVolumeFile], Atomic()] = omitempty(())


class ConfigMapProjection(Model):
    name: Annotated[str, Default("")] = omitempty("")
    items: Annotated[Seq[KeyToPath], Atomic()] = omitempty(())
    optional: Maybe[bool] = UNSET


class ServiceAccountTokenProjection(Model):
    audience: str = omitempty("")
    expiration_seconds: Annotated[Maybe[int], Int64] = UNSET
    path: Annotated[str, Required()] = omitempty("")


class ClusterTrustBundleProjection(Model):
    name: Maybe[str] = UNSET
    signer_name: Maybe[str] = UNSET
    label_selector: Maybe[LabelSelector] = UNSET
    optional: Maybe[bool] = UNSET
    path: Annotated[str, Required()] = omitempty("")


class PodCertificateProjection(Model):
    signer_name: Annotated[str, Required()] = omitempty("")
    key_type: Annotated[str, Required()] = omitempty("")
    max_expiration_seconds: Annotated[Maybe[int], Int32] = UNSET
    credential_bundle_path: str = omitempty("")
    key_path: str = omitempty("")
    certificate_chain_path: str = omitempty("")
    user_annotations: Map[str, str] = omitempty(EMPTY_MAP)


class VolumeProjection(Model):
    secret: Maybe[SecretProjection] = UNSET
    downward_api: Maybe[DownwardAPIProjection] = field(name="downwardAPI", default=UNSET)
    config_map: Maybe[ConfigMapProjection] = UNSET
    service_account_token: Maybe[ServiceAccountTokenProjection] = UNSET
    cluster_trust_bundle: Maybe[ClusterTrustBundleProjection] = UNSET
    pod_certificate: Maybe[PodCertificateProjection] = UNSET


class ProjectedVolumeSource(Model):
    sources: Annotated[Seq[VolumeProjection], Atomic()] = omitempty(())
    default_mode: Annotated[Maybe[int], Int32] = UNSET


class PortworxVolumeSource(Model):
    volume_id: Annotated[str, Required()] = omitempty("")
    fs_type: str = omitempty("")
    read_only: Maybe[bool] = UNSET


class ScaleIOVolumeSource(Model):
    gateway: Annotated[str, Required()] = omitempty("")
    system: Annotated[str, Required()] = omitempty("")
    secret_ref: Annotated[Maybe[LocalObjectReference], Required()] = UNSET
    ssl_enabled: Maybe[bool] = UNSET
    protection_domain: str = omitempty("")
    storage_pool: str = omitempty("")
    storage_mode: Annotated[str, Default("ThinProvisioned")] = omitempty("")
    volume_name: str = omitempty("")
    fs_type: Annotated[str, Default("xfs")] = omitempty("")
    read_only: Maybe[bool] = UNSET


class StorageOSVolumeSource(Model):
    volume_name: str = omitempty("")
    volume_namespace: str = omitempty("")
    fs_type: str = omitempty("")
    read_only: Maybe[bool] = UNSET
    secret_ref: Maybe[LocalObjectReference] = UNSET


class CSIVolumeSource(Model):
    driver: Annotated[str, Required()] = omitempty("")
    read_only: Maybe[bool] = UNSET
    fs_type: Maybe[str] = UNSET
    volume_attributes: Map[str, str] = omitempty(EMPTY_MAP)
    node_publish_secret_ref: Maybe[LocalObjectReference] = UNSET


class VolumeResourceRequirements(Model):
    limits: Map[str, Quantity] = omitempty(EMPTY_MAP)
    requests: Map[str, Quantity] = omitempty(EMPTY_MAP)


class PersistentVolumeClaimSpec(Model):
    access_modes: Annotated[Seq[str], Atomic()] = omitempty(())
    selector: Maybe[LabelSelector] = UNSET
    resources: VolumeResourceRequirements = omitempty(VolumeResourceRequirements())
    volume_name: str = omitempty("")
    storage_class_name: Maybe[str] = UNSET
    volume_mode: Maybe[str] = UNSET
    data_source: Maybe[TypedLocalObjectReference] = UNSET
    data_source_ref: Maybe[TypedObjectReference] = UNSET
    volume_attributes_class_name: Maybe[str] = UNSET


class PersistentVolumeClaimTemplate(Model):
    metadata: ObjectMeta = omitempty(ObjectMeta())
    spec: Annotated[PersistentVolumeClaimSpec, Required()] = omitempty(PersistentVolumeClaimSpec())


class EphemeralVolumeSource(Model):
    volume_claim_template: Maybe[PersistentVolumeClaimTemplate] = UNSET


class ImageVolumeSource(Model):
    reference: str = omitempty("")
    pull_policy: str = omitempty("")


class Volume(Model):
    name: Annotated[str, Required()] = omitempty("")
    host_path: Maybe[HostPathVolumeSource] = UNSET
    empty_dir: Maybe[EmptyDirVolumeSource] = UNSET
    gce_persistent_disk: Maybe[GCEPersistentDiskVolumeSource] = UNSET
    aws_elastic_block_store: Maybe[AWSElasticBlockStoreVolumeSource] = UNSET
    git_repo: Maybe[GitRepoVolumeSource] = UNSET
    secret: Maybe[SecretVolumeSource] = UNSET
    nfs: Maybe[NFSVolumeSource] = UNSET
    iscsi: Maybe[ISCSIVolumeSource] = UNSET
    glusterfs: Maybe[GlusterfsVolumeSource] = UNSET
    persistent_volume_claim: Maybe[PersistentVolumeClaimVolumeSource] = UNSET
    rbd: Maybe[RBDVolumeSource] = UNSET
    flex_volume: Maybe[FlexVolumeSource] = UNSET
    cinder: Maybe[CinderVolumeSource] = UNSET
    cephfs: Maybe[CephFSVolumeSource] = UNSET
    flocker: Maybe[FlockerVolumeSource] = UNSET
    downward_api: Maybe[DownwardAPIVolumeSource] = field(name="downwardAPI", default=UNSET)
    fc: Maybe[FCVolumeSource] = UNSET
    azure_file: Maybe[AzureFileVolumeSource] = UNSET
    config_map: Maybe[ConfigMapVolumeSource] = UNSET
    vsphere_volume: Maybe[VsphereVirtualDiskVolumeSource] = UNSET
    quobyte: Maybe[QuobyteVolumeSource] = UNSET
    azure_disk: Maybe[AzureDiskVolumeSource] = UNSET
    photon_persistent_disk: Maybe[PhotonPersistentDiskVolumeSource] = UNSET
    projected: Maybe[ProjectedVolumeSource] = UNSET
    portworx_volume: Maybe[PortworxVolumeSource] = UNSET
    scale_io: Maybe[ScaleIOVolumeSource] = field(name="scaleIO", default=UNSET)
    storageos: Maybe[StorageOSVolumeSource] = UNSET
    csi: Maybe[CSIVolumeSource] = UNSET
    ephemeral: Maybe[EphemeralVolumeSource] = UNSET
    image: Maybe[ImageVolumeSource] = UNSET


class GlusterfsPersistentVolumeSource(Model):
    endpoints: Annotated[str, Required()] = omitempty("")
    path: Annotated[str, Required()] = omitempty("")
    read_only: Maybe[bool] = UNSET
    endpoints_namespace: Maybe[str] = UNSET


class RBDPersistentVolumeSource(Model):
    monitors: Annotated[Seq[str], Atomic(), Required()] = omitempty(())
    image: Annotated[str, Required()] = omitempty("")
    fs_type: str = omitempty("")
    pool: Annotated[str, Default("rbd")] = omitempty("")
    user: Annotated[str, Default("admin")] = omitempty("")
    keyring: Annotated[str, Default("/etc/ceph/keyring")] = omitempty("")
    secret_ref: Maybe[SecretReference] = UNSET
    read_only: Maybe[bool] = UNSET


class ISCSIPersistentVolumeSource(Model):
    target_portal: Annotated[str, Required()] = omitempty("")
    iqn: Annotated[str, Required()] = omitempty("")
    lun: Annotated[Maybe[int], Int32, Required()] = UNSET
    iscsi_interface: Annotated[str, Default("default")] = omitempty("")
    fs_type: str = omitempty("")
    read_only: Maybe[bool] = UNSET
    portals: Annotated[Seq[str], Atomic()] = omitempty(())
    chap_auth_discovery: Maybe[bool] = UNSET
    chap_auth_session: Maybe[bool] = UNSET
    secret_ref: Maybe[SecretReference] = UNSET
    initiator_name: Maybe[str] = UNSET


class CinderPersistentVolumeSource(Model):
    volume_id: Annotated[str, Required()] = omitempty("")
    fs_type: str = omitempty("")
    read_only: Maybe[bool] = UNSET
    secret_ref: Maybe[SecretReference] = UNSET


class CephFSPersistentVolumeSource(Model):
    monitors: Annotated[Seq[str], Atomic(), Required()] = omitempty(())
    path: str = omitempty("")
    user: str = omitempty("")
    secret_file: str = omitempty("")
    secret_ref: Maybe[SecretReference] = UNSET
    read_only: Maybe[bool] = UNSET


class FlexPersistentVolumeSource(Model):
    driver: Annotated[str, Required()] = omitempty("")
    fs_type: str = omitempty("")
    secret_ref: Maybe[SecretReference] = UNSET
    read_only: Maybe[bool] = UNSET
    options: Map[str, str] = omitempty(EMPTY_MAP)


class AzureFilePersistentVolumeSource(Model):
    secret_name: Annotated[str, Required()] = omitempty("")
    share_name: Annotated[str, Required()] = omitempty("")
    read_only: Maybe[bool] = UNSET
    secret_namespace: Maybe[str] = UNSET


class ScaleIOPersistentVolumeSource(Model):
    gateway: Annotated[str, Required()] = omitempty("")
    system: Annotated[str, Required()] = omitempty("")
    secret_ref: Annotated[Maybe[SecretReference], Required()] = UNSET
    ssl_enabled: Maybe[bool] = UNSET
    protection_domain: str = omitempty("")
    storage_pool: str = omitempty("")
    storage_mode: Annotated[str, Default("ThinProvisioned")] = omitempty("")
    volume_name: str = omitempty("")
    fs_type: Annotated[str, Default("xfs")] = omitempty("")
    read_only: Maybe[bool] = UNSET


class LocalVolumeSource(Model):
    path: Annotated[str, Required()] = omitempty("")
    fs_type: Maybe[str] = UNSET


class StorageOSPersistentVolumeSource(Model):
    volume_name: str = omitempty("")
    volume_namespace: str = omitempty("")
    fs_type: str = omitempty("")
    read_only: Maybe[bool] = UNSET
    secret_ref: Maybe[ObjectReference] = UNSET


class CSIPersistentVolumeSource(Model):
    driver: Annotated[str, Required()] = omitempty("")
    volume_handle: Annotated[str, Required()] = omitempty("")
    read_only: Maybe[bool] = UNSET
    fs_type: str = omitempty("")
    volume_attributes: Map[str, str] = omitempty(EMPTY_MAP)
    controller_publish_secret_ref: Maybe[SecretReference] = UNSET
    node_stage_secret_ref: Maybe[SecretReference] = UNSET
    node_publish_secret_ref: Maybe[SecretReference] = UNSET
    controller_expand_secret_ref: Maybe[SecretReference] = UNSET
    node_expand_secret_ref: Maybe[SecretReference] = UNSET


class VolumeNodeAffinity(Model):
    required: Maybe[NodeSelector] = UNSET


class PersistentVolumeSpec(Model):
    capacity: Map[str, Quantity] = omitempty(EMPTY_MAP)
    gce_persistent_disk: Maybe[GCEPersistentDiskVolumeSource] = UNSET
    aws_elastic_block_store: Maybe[AWSElasticBlockStoreVolumeSource] = UNSET
    host_path: Maybe[HostPathVolumeSource] = UNSET
    glusterfs: Maybe[GlusterfsPersistentVolumeSource] = UNSET
    nfs: Maybe[NFSVolumeSource] = UNSET
    rbd: Maybe[RBDPersistentVolumeSource] = UNSET
    iscsi: Maybe[ISCSIPersistentVolumeSource] = UNSET
    cinder: Maybe[CinderPersistentVolumeSource] = UNSET
    cephfs: Maybe[CephFSPersistentVolumeSource] = UNSET
    fc: Maybe[FCVolumeSource] = UNSET
    flocker: Maybe[FlockerVolumeSource] = UNSET
    flex_volume: Maybe[FlexPersistentVolumeSource] = UNSET
    azure_file: Maybe[AzureFilePersistentVolumeSource] = UNSET
    vsphere_volume: Maybe[VsphereVirtualDiskVolumeSource] = UNSET
    quobyte: Maybe[QuobyteVolumeSource] = UNSET
    azure_disk: Maybe[AzureDiskVolumeSource] = UNSET
    photon_persistent_disk: Maybe[PhotonPersistentDiskVolumeSource] = UNSET
    portworx_volume: Maybe[PortworxVolumeSource] = UNSET
    scale_io: Maybe[ScaleIOPersistentVolumeSource] = field(name="scaleIO", default=UNSET)
    local: Maybe[LocalVolumeSource] = UNSET
    storageos: Maybe[StorageOSPersistentVolumeSource] = UNSET
    csi: Maybe[CSIPersistentVolumeSource] = UNSET
    access_modes: Annotated[Seq[str], Atomic()] = omitempty(())
    claim_ref: Maybe[ObjectReference] = UNSET
    persistent_volume_reclaim_policy: str = omitempty("")
    storage_class_name: str = omitempty("")
    mount_options: Annotated[Seq[str], Atomic()] = omitempty(())
    volume_mode: Maybe[str] = UNSET
    node_affinity: Maybe[VolumeNodeAffinity] = UNSET
    volume_attributes_class_name: Maybe[str] = UNSET


class PersistentVolumeStatus(Model):
    phase: str = omitempty("")
    message: str = omitempty("")
    reason: str = omitempty("")
    last_phase_transition_time: Maybe[Time] = UNSET


class PersistentVolume(
    Resource, version="v1", plural="persistentvolumes", scope="Cluster", short_names=["pv"], status=True
):
    spec: PersistentVolumeSpec = omitempty(PersistentVolumeSpec())
    status: PersistentVolumeStatus = omitempty(PersistentVolumeStatus())


class PersistentVolumeClaimCondition(Model):
    type: Annotated[str, Required()] = omitempty("")
    status: Annotated[str, Required()] = omitempty("")
    last_probe_time: OptionalTime = UNSET
    last_transition_time: OptionalTime = UNSET
    reason: str = omitempty("")
    message: str = omitempty("")


class ModifyVolumeStatus(Model):
    target_volume_attributes_class_name: str = omitempty("")
    status: Annotated[str, Required()] = omitempty("")


class PersistentVolumeClaimStatus(Model):
    phase: str = omitempty("")
    access_modes: Annotated[Seq[str], Atomic()] = omitempty(())
    capacity: Map[str, Quantity] = omitempty(EMPTY_MAP)
    conditions: Annotated[Seq[PersistentVolumeClaimCondition], ListMap("type")] = omitempty(())
    allocated_resources: Map[str, Quantity] = omitempty(EMPTY_MAP)
    allocated_resource_statuses: Map[str, str] = omitempty(EMPTY_MAP)
    current_volume_attributes_class_name: Maybe[str] = UNSET
    modify_volume_status: Maybe[ModifyVolumeStatus] = UNSET


class PersistentVolumeClaim(
    Resource, version="v1", plural="persistentvolumeclaims", short_names=["pvc"], status=True
):
    spec: PersistentVolumeClaimSpec = omitempty(PersistentVolumeClaimSpec())
    status: PersistentVolumeClaimStatus = omitempty(PersistentVolumeClaimStatus())
