"""Names that others rely on: group, labels, finalizer, reasons, metric labels. They are plexaubnet's."""

from __future__ import annotations

from typing import Final

GROUP: Final = "plexaubnet.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

IPAM_LABEL: Final = "plexaubnet.io/ipam"
"""``"true"`` on child pools made for a SubnetPoolClaim."""
PARENT_LABEL: Final = "plexaubnet.io/parent"
"""On a child pool: the name of its parent, in the same namespace."""
CLUSTER_LABEL: Final = "plexaubnet.io/cluster-id"
"""On Subnets made by the allocator: the cluster ID, where it is a legal label value."""
FINALIZER: Final = "ipam.plexaubnet.io/finalizer"
"""On pools and SubnetPoolClaims: they stay as long as something is cut from them."""
RESERVATIONS: Final = "ipam.plexaubnet.io/reservations"
"""Annotation of a pool in strict mode: what allocators are about to create in it."""
POD_RANGES_LABEL: Final = "quarterdeck.dev/pod-ranges-of-zone"
"""On a pool that nodes get their pod ranges from: the zone of those nodes; empty for zones without a pool."""
ZONE_LABEL: Final = "topology.kubernetes.io/zone"

COMPONENT: Final = "plexaubnet-controller"
"""Who reports events."""
FIELD_MANAGER: Final = "plexaubnet-controller"

SUBNET_CONTROLLER: Final = "subnet-controller"
POOL_STATUS_CONTROLLER: Final = "PoolStatus"
POOL_RELEASE_CONTROLLER: Final = "subnetpool-release"
CLAIM_CONTROLLER: Final = "subnetclaim"
POOL_CLAIM_CONTROLLER: Final = "subnetpoolclaim"
POD_RANGE_CONTROLLER: Final = "node-pod-range"

WEBHOOK_CONFIGURATION: Final = "plexaubnet-ipam"
TRIGGER_PATH: Final = "/requeue/subnetpools/"
"""Prefix of the external trigger; namespace and name follow."""

PENDING: Final = "Pending"
BOUND: Final = "Bound"
ERROR: Final = "Error"
ALLOCATED: Final = "Allocated"
FAILED: Final = "Failed"

LINEAR: Final = "Linear"
BUDDY: Final = "Buddy"
CHILD_POOL: Final = "child-pool"
"""What stands for the cluster ID of a child pool's range."""

NAME_TAKEN: Final = "NameTaken"
"""Reason of an event: what an object would be called belongs to somebody else."""
READY: Final = "Ready"
EXHAUSTED: Final = "Exhausted"
CONSISTENT: Final = "Consistent"
CIDRS_OMITTED: Final = "AllocatedCIDRsOmitted"
DELETION_BLOCKED: Final = "DeletionBlocked"
