"""Storage classes and CSI objects.

Made by ``make kubernetes``: do not edit. What a newer server adds survives as unknown fields.
"""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api.instant import OptionalTime
from quarterdeck.api.k8s.placement import TopologySelectorTerm
from quarterdeck.api.k8s.volume import PersistentVolumeSpec
from quarterdeck.api.marker import Atomic, Int32, Int64, ListMap, ListSet, Required
from quarterdeck.api.meta import LabelSelector
from quarterdeck.api.model import EMPTY_MAP, UNSET, Map, Maybe, Model, Seq, omitempty
from quarterdeck.api.quantity import Quantity
from quarterdeck.api.resource import Resource

__all__ = [
    "CSIDriver",
    "CSIDriverSpec",
    "CSINode",
    "CSINodeDriver",
    "CSINodeSpec",
    "CSIStorageCapacity",
    "StorageClass",
    "TokenRequest",
    "VolumeAttachment",
    "VolumeAttachmentSource",
    "VolumeAttachmentSpec",
    "VolumeAttachmentStatus",
    "VolumeError",
    "VolumeNodeResources",
]


class StorageClass(
    Resource,
    group="storage.k8s.io",
    version="v1",
    plural="storageclasses",
    scope="Cluster",
    short_names=["sc"],
):
    provisioner: Annotated[str, Required()] = omitempty("")
    parameters: Map[str, str] = omitempty(EMPTY_MAP)
    reclaim_policy: Maybe[str] = UNSET
    mount_options: Annotated[Seq[str], Atomic()] = omitempty(())
    allow_volume_expansion: Maybe[bool] = UNSET
    volume_binding_mode: Maybe[str] = UNSET
    allowed_topologies: Annotated[Seq[TopologySelectorTerm], Atomic()] = omitempty(())


class VolumeNodeResources(Model):
    count: Annotated[Maybe[int], Int32] = UNSET


class CSINodeDriver(Model):
    name: Annotated[str, Required()] = omitempty("")
    node_id: Annotated[str, Required()] = omitempty("")
    topology_keys: Annotated[Seq[str], Atomic()] = omitempty(())
    allocatable: Maybe[VolumeNodeResources] = UNSET


class CSINodeSpec(Model):
    drivers: Annotated[Seq[CSINodeDriver], ListMap("name"), Required()] = omitempty(())


class CSINode(Resource, group="storage.k8s.io", version="v1", plural="csinodes", scope="Cluster"):
    spec: Annotated[CSINodeSpec, Required()] = omitempty(CSINodeSpec())


class TokenRequest(Model):
    audience: Annotated[str, Required()] = omitempty("")
    expiration_seconds: Annotated[Maybe[int], Int64] = UNSET


class CSIDriverSpec(Model):
    attach_required: Maybe[bool] = UNSET
    pod_info_on_mount: Maybe[bool] = UNSET
    volume_lifecycle_modes: Annotated[Seq[str], ListSet()] = omitempty(())
    storage_capacity: Maybe[bool] = UNSET
    fs_group_policy: Maybe[str] = UNSET
    token_requests: Annotated[Seq[TokenRequest], Atomic()] = omitempty(())
    requires_republish: Maybe[bool] = UNSET
    se_linux_mount: Maybe[bool] = UNSET
    node_allocatable_update_period_seconds: Annotated[Maybe[int], Int64] = UNSET
    service_account_token_in_secrets: Maybe[bool] = UNSET
    prevent_pod_scheduling_if_missing: Maybe[bool] = UNSET


class CSIDriver(Resource, group="storage.k8s.io", version="v1", plural="csidrivers", scope="Cluster"):
    spec: Annotated[CSIDriverSpec, Required()] = omitempty(CSIDriverSpec())


class VolumeAttachmentSource(Model):
    persistent_volume_name: Maybe[str] = UNSET
    inline_volume_spec: Maybe[PersistentVolumeSpec] = UNSET


class VolumeAttachmentSpec(Model):
    attacher: Annotated[str, Required()] = omitempty("")
    source: Annotated[VolumeAttachmentSource, Required()] = omitempty(VolumeAttachmentSource())
    node_name: Annotated[str, Required()] = omitempty("")


class VolumeError(Model):
    time: OptionalTime = UNSET
    message: str = omitempty("")
    error_code: Annotated[Maybe[int], Int32] = UNSET


class VolumeAttachmentStatus(Model):
    attached: Annotated[Maybe[bool], Required()] = UNSET
    attachment_metadata: Map[str, str] = omitempty(EMPTY_MAP)
    attach_error: Maybe[VolumeError] = UNSET
    detach_error: Maybe[VolumeError] = UNSET


class VolumeAttachment(
    Resource, group="storage.k8s.io", version="v1", plural="volumeattachments", scope="Cluster", status=True
):
    spec: Annotated[VolumeAttachmentSpec, Required()] = omitempty(VolumeAttachmentSpec())
    status: VolumeAttachmentStatus = omitempty(VolumeAttachmentStatus())


class CSIStorageCapacity(Resource, group="storage.k8s.io", version="v1", plural="csistoragecapacities"):
    node_topology: Maybe[LabelSelector] = UNSET
    storage_class_name: Annotated[str, Required()] = omitempty("")
    capacity: Maybe[Quantity] = UNSET
    maximum_volume_size: Maybe[Quantity] = UNSET
