"""Names that others rely on: groups, labels, annotations, finalizers, reasons. They are Grove's and KAI's."""

from __future__ import annotations

from typing import Final

GROUP: Final = "grove.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
SCHEDULER_GROUP: Final = "scheduler.grove.io"
SCHEDULER_API_VERSION: Final = f"{SCHEDULER_GROUP}/{VERSION}"
CONFIG_API_VERSION: Final = "operator.config.grove.io/v1alpha1"
CONFIG_KIND: Final = "OperatorConfiguration"

# -- labels ---------------------------------------------------------------------------------------------

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
PART_OF: Final = "app.kubernetes.io/part-of"
COMPONENT: Final = "app.kubernetes.io/component"
NAME: Final = "app.kubernetes.io/name"
OPERATOR: Final = "grove-operator"
"""Value of ``managed-by``, and who reports events."""

PREFIX: Final = "grove.io/"
SET_INDEX: Final = "grove.io/podcliqueset-replica-index"
PODGANG: Final = "grove.io/podgang"
BASE_PODGANG: Final = "grove.io/base-podgang"
SCALING_GROUP: Final = "grove.io/podcliquescalinggroup"
SCALING_GROUP_INDEX: Final = "grove.io/podcliquescalinggroup-replica-index"
TEMPLATE_HASH: Final = "grove.io/pod-template-hash"
PODCLIQUE: Final = "grove.io/podclique"
POD_INDEX: Final = "grove.io/podclique-pod-index"
SCHEDULER_NAME: Final = "grove.io/scheduler-name"
"""On a PodGang: the backend that owns it."""

SERVICE_COMPONENT: Final = "pcs-headless-service"
ROLE_COMPONENT: Final = "pod-role"
ROLE_BINDING_COMPONENT: Final = "pod-role-binding"
ACCOUNT_COMPONENT: Final = "pod-service-account"
TOKEN_COMPONENT: Final = "pod-sa-token-secret"
SCALING_GROUP_COMPONENT: Final = "pcs-podcliquescalinggroup"
AUTOSCALER_COMPONENT: Final = "pcs-hpa"
PODGANG_COMPONENT: Final = "podgang"
SET_CLIQUE_COMPONENT: Final = "pcs-podclique"
GROUP_CLIQUE_COMPONENT: Final = "pcsg-podclique"
CLAIM_COMPONENT: Final = "resource-claim"

# -- annotations ----------------------------------------------------------------------------------------

DISABLE_PROTECTION: Final = "grove.io/disable-managed-resource-protection"
RECONCILE_TRIGGER: Final = "grove.io/reconcile-trigger"
TOPOLOGY_NAME: Final = "grove.io/topology-name"
MNNVL_GROUP: Final = "grove.io/mnnvl-group"
HASH_VERSION: Final = "quarterdeck.io/grove-hash-version"
"""On a PodCliqueSet: who computes its hashes. Those of other implementations do not compare with ours."""
OUR_HASH_VERSION: Final = "1"

# -- finalizers and gates -------------------------------------------------------------------------------

SET_FINALIZER: Final = "grove.io/podcliqueset.grove.io"
CLIQUE_FINALIZER: Final = "grove.io/podclique.grove.io"
GROUP_FINALIZER: Final = "grove.io/podcliquescalinggroup.grove.io"
BACKEND_FINALIZER: Final = "scheduler.grove.io/backend"
GATE: Final = "grove.io/podgang-pending-creation"

# -- controllers and webhooks ---------------------------------------------------------------------------

SET_CONTROLLER: Final = "podcliqueset-controller"
CLIQUE_CONTROLLER: Final = "podclique-controller"
GROUP_CONTROLLER: Final = "podcliquescalinggroup-controller"
TOPOLOGY_CONTROLLER: Final = "clustertopology-controller"
BACKEND_CONTROLLER: Final = "backend"
FIELD_MANAGER: Final = "grove-operator"

DEFAULTING_WEBHOOK: Final = "pcs.defaulting.webhooks.grove.io"
DEFAULTING_PATH: Final = "/webhooks/default-podcliqueset"
VALIDATING_WEBHOOK: Final = "pcs.validating.webhooks.grove.io"
VALIDATING_PATH: Final = "/webhooks/validate-podcliqueset"
TOPOLOGY_WEBHOOK: Final = "clustertopology.validating.webhooks.grove.io"
TOPOLOGY_PATH: Final = "/webhooks/validate-clustertopology"
GROUP_WEBHOOK: Final = "pcsg.validating.webhooks.grove.io"
GROUP_PATH: Final = "/webhooks/validate-podcliquescalinggroup"
AUTHORIZER_WEBHOOK: Final = "authorizer.webhooks.grove.io"
AUTHORIZER_PATH: Final = "/webhooks/authorizer-webhook"
DEFAULTING_CONFIGURATION: Final = "podcliqueset-defaulting-webhook"
VALIDATING_CONFIGURATION: Final = "podcliqueset-validating-webhook"
TOPOLOGY_CONFIGURATION: Final = "clustertopology-validating-webhook"
GROUP_CONFIGURATION: Final = "podcliquescalinggroup-validating-webhook"
AUTHORIZER_CONFIGURATION: Final = "authorizer-webhook"

# -- startup --------------------------------------------------------------------------------------------

ANY_ORDER: Final = "CliqueStartupTypeAnyOrder"
IN_ORDER: Final = "CliqueStartupTypeInOrder"
EXPLICIT: Final = "CliqueStartupTypeExplicit"
STARTUP_TYPES: Final = (ANY_ORDER, IN_ORDER, EXPLICIT)
INIT_CONTAINER: Final = "grove-initc"
INIT_IMAGE_ENV: Final = "GROVE_INIT_CONTAINER_IMAGE"
TOKEN_VOLUME: Final = "sa-token-secret-vol"
TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
POD_INFO_VOLUME: Final = "pod-info-vol"
POD_INFO_PATH: Final = "/var/grove/pod-info"
ACCOUNT_ENV: Final = "GROVE_OPERATOR_SERVICE_ACCOUNT_NAME"

# -- updates --------------------------------------------------------------------------------------------

ROLLING_RECREATE: Final = "RollingRecreate"
ON_DELETE: Final = "OnDelete"

# -- topology -------------------------------------------------------------------------------------------

DEFAULT_TOPOLOGY: Final = "grove-topology"
DOMAINS: Final = ("region", "zone", "datacenter", "block", "rack", "host", "numa")
"""Well-known domains, the widest first."""
HOST: Final = "host"
HOSTNAME_KEY: Final = "kubernetes.io/hostname"
DOMAIN_PATTERN: Final = r"^[a-z][a-z0-9-]*$"
LEVEL_KEY_PATTERN: Final = (
    r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"
)
ALL_REPLICAS: Final = "AllReplicas"
PER_REPLICA: Final = "PerReplica"

# -- conditions -----------------------------------------------------------------------------------------

TOPOLOGY_LEVELS_UNAVAILABLE: Final = "TopologyLevelsUnavailable"
PODCLIQUE_SCHEDULED: Final = "PodCliqueScheduled"
MIN_AVAILABLE_BREACHED: Final = "MinAvailableBreached"
GANG_TERMINATION: Final = "GangTerminationInProgress"
INITIALIZED: Final = "Initialized"
TOPOLOGY_DRIFT: Final = "SchedulerTopologyDrift"
BACKEND_READY: Final = "SchedulerBackendReady"

# -- backends -------------------------------------------------------------------------------------------

KAI_SCHEDULER: Final = "kai-scheduler"
DEFAULT_SCHEDULER: Final = "default-scheduler"
BACKEND_ENTRY_POINTS: Final = "quarterdeck.scheduler_backends"
STATUS_CONFIG_MAP: Final = "grove-operator-status"
STATUS_PATH: Final = "/status"

KAI_PODGANG: Final = "kai.scheduler/podgang"
KAI_PODGROUP: Final = "kai.scheduler/podgroup"
KAI_SKIP_GROUPER: Final = "kai.scheduler/skip-podgrouper"
KAI_GROUP_NAME: Final = "pod-group-name"
KAI_SUBGROUP: Final = "kai.scheduler/subgroup-name"
KAI_QUEUE: Final = "kai.scheduler/queue"
KAI_NODE_POOL: Final = "kai.scheduler/node-pool"
KAI_TOPOLOGY: Final = "kai.scheduler/topology"

# -- other ----------------------------------------------------------------------------------------------

RETRY: Final = 5.0
"""Seconds until something that is not there yet is looked for again."""
MAX_NAMES: Final = 45
"""Characters that the names in the name of a pod may have together."""
