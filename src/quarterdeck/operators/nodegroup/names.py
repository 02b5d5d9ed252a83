"""Names from Deckhouse that users, nodes and other modules rely on."""

from __future__ import annotations

from typing import Final

GROUP: Final = "deckhouse.io"
KIND: Final = "NodeGroup"
V1: Final = "deckhouse.io/v1"
V1ALPHA1: Final = "deckhouse.io/v1alpha1"
V1ALPHA2: Final = "deckhouse.io/v1alpha2"
VERSIONS: Final = (V1ALPHA1, V1ALPHA2, V1)
"""Served versions, oldest first."""

CRD_NAME: Final = "nodegroups.deckhouse.io"
CRD_LABELS: Final = {"heritage": "deckhouse", "module": "node-manager"}
FIELD_MANAGER: Final = "quarterdeck-nodegroup"

CLOUD_EPHEMERAL: Final = "CloudEphemeral"
CLOUD_PERMANENT: Final = "CloudPermanent"
CLOUD_STATIC: Final = "CloudStatic"
STATIC: Final = "Static"
NODE_TYPES: Final = (CLOUD_EPHEMERAL, CLOUD_PERMANENT, CLOUD_STATIC, STATIC)

CLOUD: Final = "Cloud"
HYBRID: Final = "Hybrid"
OLD_NODE_TYPES: Final = (CLOUD, STATIC, HYBRID)

DOCKER: Final = "Docker"
CONTAINERD: Final = "Containerd"
CONTAINERD_V2: Final = "ContainerdV2"
NOT_MANAGED: Final = "NotManaged"
CRI_TYPES: Final = (DOCKER, CONTAINERD, CONTAINERD_V2, NOT_MANAGED)
OLD_CRI_TYPES: Final = (DOCKER, CONTAINERD, NOT_MANAGED)

MCM: Final = "MCM"
CAPI: Final = "CAPI"
"""Engines that order machines: Machine Controller Manager and Cluster API."""

MANUAL: Final = "Manual"
AUTOMATIC: Final = "Automatic"
ROLLING_UPDATE: Final = "RollingUpdate"
APPROVAL_MODES: Final = (MANUAL, AUTOMATIC, ROLLING_UPDATE)

DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
WINDOW_TIME: Final = r"^(?:\d|[01]\d|2[0-3]):[0-5]\d$"

INSTANCE_CLASS_KINDS: Final = (
    "OpenStackInstanceClass",
    "GCPInstanceClass",
    "VsphereInstanceClass",
    "AWSInstanceClass",
    "YandexInstanceClass",
    "AzureInstanceClass",
    "VCDInstanceClass",
    "ZvirtInstanceClass",
    "DynamixInstanceClass",
    "HuaweiCloudInstanceClass",
    "DVPInstanceClass",
)

KUBERNETES_VERSIONS: Final = ("1.32", "1.33", "1.34", "1.35", "1.36")
"""Versions a v1alpha1 group may ask for; moves with every release."""

MAX_NAME_LENGTH: Final = 42
"""63 characters of a label minus 21 of hashes."""
NAME_PATTERN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"

CONVERSION_DATA: Final = "node.deckhouse.io/conversion-data"
"""Annotation with what the object's version cannot hold; see ``logic.roundtrip``."""
PERMANENT_NODE_GROUP: Final = "node.deckhouse.io/permanent-node-group"
"""Annotation: ``"true"`` makes an old Hybrid group CloudPermanent."""
GROUP_LABEL: Final = "node.deckhouse.io/group"
"""Label of a Node: the name of its group."""
TYPE_LABEL: Final = "node.deckhouse.io/type"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
CONTAINERD_CONFIG_LABEL: Final = "node.deckhouse.io/containerd-config"
CUSTOM_CONFIG: Final = "custom"
CONTAINERD_V2_UNSUPPORTED_LABEL: Final = "node.deckhouse.io/containerd-v2-unsupported"
CONFIGURATION_CHECKSUM: Final = "node.deckhouse.io/configuration-checksum"
UPDATE_PREFIX: Final = "update.node.deckhouse.io"
DISRUPTION_REQUIRED: Final = "update.node.deckhouse.io/disruption-required"
DISRUPTION_APPROVED: Final = "update.node.deckhouse.io/disruption-approved"
USE_MCM: Final = "node.deckhouse.io/use-mcm"
MANUAL_ROLLOUT_ID: Final = "manual-rollout-id"
NODE_GROUP_LABEL: Final = "node-group"
"""Label of MachineDeployments and of Machines of Cluster API."""
TO_BE_DELETED_TAINT: Final = "ToBeDeletedByClusterAutoscaler"
SIMULATED_LABEL: Final = "quarterdeck.dev/simulated"
"""Label of Nodes that the node simulation made, the only ones it removes."""
NODE_NAME_TAKEN: Final = "NodeNameTaken"
"""A condition, and the reason of an event: somebody else's Node has the name of a simulated one."""

STANDARD_TAINT_KEYS: Final = frozenset(
    {
        "dedicated",
        "dedicated.deckhouse.io",
        "node-role.kubernetes.io/control-plane",
        "node-role.kubernetes.io/master",
        "node.deckhouse.io/etcd-arbiter",
    }
)

SYSTEM_NAMESPACE: Final = "kube-system"
MODULE_NAMESPACE: Final = "d8-cloud-instance-manager"
CLUSTER_CONFIGURATION_SECRET: Final = "d8-cluster-configuration"
CLUSTER_CONFIGURATION_KEY: Final = "cluster-configuration.yaml"
PROVIDER_SECRET: Final = "d8-provider-cluster-configuration"
PROVIDER_CONFIGURATION_KEY: Final = "cloud-provider-cluster-configuration.yaml"
DISCOVERY_DATA_KEY: Final = "cloud-provider-discovery-data.json"
CHECKSUMS_SECRET: Final = "configuration-checksums"
CLOUD_PROVIDER_SECRET: Final = "d8-node-manager-cloud-provider"
CLASS_KIND_KEY: Final = "instanceClassKind"
"""Key in ``CLOUD_PROVIDER_SECRET``: the kind of instance class that the provider uses."""
MACHINE_TYPES_KIND: Final = "InstanceTypesCatalog"
MACHINE_TYPES: Final = "for-cluster-autoscaler"
"""The catalogue of machine types."""
GLOBAL_MODULE_CONFIG: Final = "global"
MASTER: Final = "master"
"""The group of the control plane."""

CONVERT_PATH: Final = "/convert"
SIMPLE_WEBHOOK: Final = "vnodegroup.deckhouse.io"
SIMPLE_PATH: Final = "/validate-deckhouse-io-v1-nodegroup"
POLICY_WEBHOOK: Final = "nodegroup-policy.deckhouse.io"
POLICY_PATH: Final = "/validate-nodegroup-policy"
VALIDATING_CONFIGURATION: Final = "node-controller-validating"
WEBHOOK_SERVICE: Final = "node-controller-webhook"
WEBHOOK_TLS_SECRET: Final = "node-controller-webhook-tls"
CA_KEY: Final = "ca.crt"

MACHINE_FAILED: Final = "MachineFailed"
MACHINE_CREATING: Final = "MachineCreating"
MACHINE_CREATION_STARTED: Final = "Started Machine creation process"
MACHINE_CREATION_FAILED: Final = "Machine creation failed. Check events for details."
