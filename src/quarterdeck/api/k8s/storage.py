"""Storage classes and CSI objects.

Fields follow k8s.io/api v0.36.3; what a newer server adds survives as unknown fields.
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


class StorageClass(Resource, group="storage.k8s.io", version="v1", scope="Cluster", short_names=["sc"]):
    """Parameters for a class of storage for which PersistentVolumes can be dynamically provisioned."""

    provisioner: Annotated[str, Required()] = omitempty("")
    parameters: Map[str, str] = omitempty(EMPTY_MAP)
    reclaim_policy: Maybe[str] = UNSET
    mount_options: Annotated[Seq[str], Atomic()] = omitempty(())
    allow_volume_expansion: Maybe[bool] = UNSET
    volume_binding_mode: Maybe[str] = UNSET
    allowed_topologies: Annotated[Seq[TopologySelectorTerm], Atomic()] = omitempty(())


class VolumeNodeResources(Model):
    """Set of resource limits for scheduling of volumes."""

    count: Annotated[Maybe[int], Int32] = UNSET


class CSINodeDriver(Model):
    """Information about the specification of one CSI driver installed on a node."""

    name: Annotated[str, Required()] = omitempty("")
    node_id: Annotated[str, Required()] = omitempty("")
    topology_keys: Annotated[Seq[str], Atomic()] = omitempty(())
    allocatable: Maybe[VolumeNodeResources] = UNSET


class CSINodeSpec(Model):
    """Information about the specification of all CSI drivers installed on a node."""

    drivers: Annotated[Seq[CSINodeDriver], ListMap("name"), Required()] = omitempty(())


class CSINode(Resource, group="storage.k8s.io", version="v1", scope="Cluster"):
    """Information about all CSI drivers installed on a node."""

    spec: Annotated[CSINodeSpec, Required()] = omitempty(CSINodeSpec())


class TokenRequest(Model):
    """Parameters of a service account token."""

    audience: Annotated[str, Required()] = omitempty("")
    expiration_seconds: Annotated[Maybe[int], Int64] = UNSET


class CSIDriverSpec(Model):
    """Specification of a CSIDriver."""

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


class CSIDriver(Resource, group="storage.k8s.io", version="v1", scope="Cluster"):
    """CSIDriver captures information about a Container Storage Interface (CSI) volume driver deployed …"""

    spec: Annotated[CSIDriverSpec, Required()] = omitempty(CSIDriverSpec())


class VolumeAttachmentSource(Model):
    """Volume that should be attached."""

    persistent_volume_name: Maybe[str] = UNSET
    inline_volume_spec: Maybe[PersistentVolumeSpec] = UNSET


class VolumeAttachmentSpec(Model):
    """Specification of a VolumeAttachment request."""

    attacher: Annotated[str, Required()] = omitempty("")
    source: Annotated[VolumeAttachmentSource, Required()] = omitempty(VolumeAttachmentSource())
    node_name: Annotated[str, Required()] = omitempty("")


class VolumeError(Model):
    """VolumeError captures an error encountered during a volume operation."""

    time: OptionalTime = UNSET
    message: str = omitempty("")
    error_code: Annotated[Maybe[int], Int32] = UNSET


class VolumeAttachmentStatus(Model):
    """Status of a VolumeAttachment request."""

    attached: Annotated[Maybe[bool], Required()] = UNSET
    attachment_metadata: Map[str, str] = omitempty(EMPTY_MAP)
    attach_error: Maybe[VolumeError] = UNSET
    detach_error: Maybe[VolumeError] = UNSET


class VolumeAttachment(Resource, group="storage.k8s.io", version="v1", scope="Cluster", status=True):
    """VolumeAttachment captures the intent to attach or detach the specified volume to/from the …"""

    spec: Annotated[VolumeAttachmentSpec, Required()] = omitempty(VolumeAttachmentSpec())
    status: VolumeAttachmentStatus = omitempty(VolumeAttachmentStatus())


class CSIStorageCapacity(Resource, group="storage.k8s.io", version="v1"):
    """CSIStorageCapacity stores the result of one CSI GetCapacity call."""

    node_topology: Maybe[LabelSelector] = UNSET
    storage_class_name: Annotated[str, Required()] = omitempty("")
    capacity: Maybe[Quantity] = UNSET
    maximum_volume_size: Maybe[Quantity] = UNSET
