"""Names that others rely on: groups, labels, annotations, reasons, defaults. They are KAI-Scheduler's."""

from __future__ import annotations

from typing import Final

GROUP: Final = "scheduling.run.ai"
TOPOLOGY_GROUP: Final = "kai.scheduler"
SCHEDULER_NAME: Final = "kai-scheduler"
DEFAULT_NODE_POOL: Final = "default"


QUEUE_LABEL: Final = "kai.scheduler/queue"
"""On an owner or a pod: the queue to run in."""
POD_GROUP_ANNOTATION: Final = "pod-group-name"
"""On a pod: the PodGroup, in its namespace, that it belongs to."""
SUB_GROUP_LABEL: Final = "kai.scheduler/subgroup-name"
"""On a pod: the leaf subgroup."""
TASK_PRIORITY_LABEL: Final = "kai.scheduler/task-priority"
PRIORITY_CLASS_LABEL: Final = "priorityClassName"
PREEMPTIBILITY_LABEL: Final = "kai.scheduler/preemptibility"
PREEMPTIBLE: Final = "preemptible"
NON_PREEMPTIBLE: Final = "non-preemptible"
TOPOLOGY_ANNOTATION: Final = "kai.scheduler/topology"
TOPOLOGY_REQUIRED_ANNOTATION: Final = "kai.scheduler/topology-required-placement"
TOPOLOGY_PREFERRED_ANNOTATION: Final = "kai.scheduler/topology-preferred-placement"
SEGMENT_SIZE_ANNOTATION: Final = "kai.scheduler/segment-size"
SEGMENT_REQUIRED_ANNOTATION: Final = "kai.scheduler/segment-topology-required-placement"
SEGMENT_PREFERRED_ANNOTATION: Final = "kai.scheduler/segment-topology-preferred-placement"
NODE_POOL_LABEL: Final = "kai.scheduler/node-pool"
GPU_FRACTION_ANNOTATION: Final = "gpu-fraction"
GPU_MEMORY_ANNOTATION: Final = "gpu-memory"
GPU_FRACTION_DEVICES_ANNOTATION: Final = "gpu-fraction-num-devices"
GPU_GROUP_LABEL: Final = "runai-gpu-group"
RECEIVED_TYPE_ANNOTATION: Final = "received-resource-type"
TOP_OWNER_ANNOTATION: Final = "kai.scheduler/top-owner-metadata"
PROJECT_LABEL: Final = "project"
USER_LABEL: Final = "user"
LAST_START_ANNOTATION: Final = "kai.scheduler/last-start-timestamp"
STALE_ANNOTATION: Final = "kai.scheduler/stale-podgroup-timestamp"
SHARED_GPU_CONFIG_MAP_ANNOTATION: Final = "runai/shared-gpu-configmap"
"""On a pod: the prefix of the ConfigMaps that tell it which GPU it shares."""
GPU_FRACTION_CONTAINER_ANNOTATION: Final = "gpu-fraction-container-name"
"""On a pod: the container that uses the shared GPU, if it is not the first."""
RESERVED_DEVICE_ANNOTATION: Final = "run.ai/reserve_for_gpu_index"
"""On a reservation pod: the device it got."""
APP_LABEL: Final = "app"
RESERVATION_APP: Final = "kai-resource-reservation"
"""What reservation pods are told by."""
SELECTED_NODE_ANNOTATION: Final = "volume.kubernetes.io/selected-node"
"""On a claim: the node for which its volume is to be made."""
BOUND_BY_CONTROLLER_ANNOTATION: Final = "pv.kubernetes.io/bound-by-controller"
"""On a volume: its claim was chosen for it, and may be taken away again."""
SELECTED_NODE_LABEL: Final = "selected-node"
"""On a BindRequest: the node chosen."""

SKIP_GROUPER_ANNOTATION: Final = "kai.scheduler/skip-podgrouper"
"""``"true"`` on a pod whose PodGroup somebody else makes."""

GPU_RESOURCE: Final = "nvidia.com/gpu"


DEFAULT_QUEUE: Final = "default-queue"
DEFAULT_PARENT_QUEUE: Final = "default-parent-queue"
TRAIN: Final = "train"
BUILD: Final = "build"
INFERENCE: Final = "inference"
PRIORITY_CLASSES: Final = {TRAIN: 50, "build-preemptible": 75, BUILD: 100, INFERENCE: 125}


WEBHOOK_CONFIGURATION: Final = "kai-scheduler"
POD_GROUP_WEBHOOK: Final = "podgroup-validation.kai.scheduler"
QUEUE_WEBHOOK: Final = "queue-validation.kai.scheduler"
POD_WEBHOOK: Final = "pod-validation.kai.scheduler"
POD_MUTATION: Final = "pod-mutation.kai.scheduler"


POD_GROUPER: Final = "pod-grouper"
BINDER: Final = "binder"
RESERVATION: Final = "gpu-reservation"
SHARDS: Final = "shards"
POD_GROUP_CONTROLLER: Final = "podgroup"
QUEUE_CONTROLLER: Final = "queue"
SCHEDULER: Final = "scheduler"
FIELD_MANAGER: Final = SCHEDULER_NAME


UNSCHEDULABLE_ON_NODE_POOL: Final = "UnschedulableOnNodePool"
UNSCHEDULABLE: Final = "Unschedulable"
POD_SCHEDULED: Final = "PodScheduled"
POD_BOUND: Final = "PodBound"
BOUND: Final = "Bound"
BINDING_ERROR: Final = "BindingError"
DISRUPTION_TARGET: Final = "DisruptionTarget"
PREEMPTION_BY_SCHEDULER: Final = "PreemptionByScheduler"
NAME_TAKEN: Final = "NameTaken"
"""Condition of a pod: the name of its PodGroup is somebody else's."""
FOREIGN_OBJECT: Final = "ForeignObject"
OWN_OBJECT: Final = "OwnObject"
POD_GROUPER_WARNING: Final = "PodGrouperWarning"

PENDING: Final = "Pending"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"

REGULAR: Final = "Regular"
FRACTION: Final = "Fraction"
MIG_INSTANCE: Final = "MigInstance"
