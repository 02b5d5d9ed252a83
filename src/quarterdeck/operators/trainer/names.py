"""Names that others rely on: group, labels, environment variables, reasons. They are Kubeflow Trainer's."""

from __future__ import annotations

from typing import Final

GROUP: Final = "trainer.kubeflow.org"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

TRAIN_JOB: Final = "TrainJob"
TRAINING_RUNTIME: Final = "TrainingRuntime"
CLUSTER_TRAINING_RUNTIME: Final = "ClusterTrainingRuntime"

CONTROLLER: Final = "trainer.kubeflow.org/trainjob-controller"
"""The value of ``spec.managedBy`` that means this operator."""
MULTIKUEUE: Final = "kueue.x-k8s.io/multikueue"

ANCESTOR_LABEL: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
"""On the template of a replicated job: which part of a TrainJob configures it."""
SUPPORT_LABEL: Final = "trainer.kubeflow.org/support"
DEPRECATED: Final = "deprecated"
VALIDATION_LABEL: Final = "trainer.kubeflow.org/webhook-validation"
"""On a runtime: ``disabled`` keeps the webhooks from looking at it."""
DISABLED: Final = "disabled"
PUBLIC_CONFIG: Final = "kubeflow-trainer-public"
"""The ConfigMap that says which release this is, readable by every user."""
RELEASE: Final = "v2.3.0"
"""The release of Kubeflow Trainer whose manifests and SDK work."""
FINALIZER: Final = "trainer.kubeflow.org/resource-in-use"
FIELD_MANAGER: Final = "trainer"

KEY_DIGEST: Final = "trainer.kubeflow.org/key-sha256"
"""Annotation of a snapshot: SHA-256 of the key that the pods of the JobSet mount."""
PROCESSES_PER_NODE: Final = "trainer.kubeflow.org/processes-per-node"
"""Annotation of a snapshot: the processes that the JobSet was rendered with; nothing else of it tells."""
RECORD: Final = (KEY_DIGEST, PROCESSES_PER_NODE)

# Steps of a TrainJob, which are also names of jobs and containers.
DATASET_INITIALIZER: Final = "dataset-initializer"
MODEL_INITIALIZER: Final = "model-initializer"
TRAINER: Final = "trainer"
STEPS: Final = (DATASET_INITIALIZER, MODEL_INITIALIZER, TRAINER)
NODE: Final = "node"
"""The job and the container that train."""
LAUNCHER: Final = "launcher"
RESERVED_CONTAINERS: Final = (DATASET_INITIALIZER, MODEL_INITIALIZER, NODE)

INITIALIZER_VOLUME: Final = "initializer"
STORAGE_URI: Final = "STORAGE_URI"
CACHE_SCHEME: Final = "cache://"
"""Of datasets that an initializer keeps in memory."""
TRAINER_PORT: Final = 29500
RANK_FIELD: Final = "metadata.annotations['batch.kubernetes.io/job-completion-index']"

# Torch.
PET_NNODES: Final = "PET_NNODES"
PET_NPROC_PER_NODE: Final = "PET_NPROC_PER_NODE"
PET_NODE_RANK: Final = "PET_NODE_RANK"
PET_MASTER_ADDR: Final = "PET_MASTER_ADDR"
PET_MASTER_PORT: Final = "PET_MASTER_PORT"
TORCH_RESERVED: Final = (
    PET_NNODES,
    PET_NPROC_PER_NODE,
    PET_NODE_RANK,
    PET_MASTER_ADDR,
    PET_MASTER_PORT,
)
AUTO: Final = "auto"
CPU: Final = "cpu"
GPU: Final = "gpu"
PROCESS_WORDS: Final = (AUTO, CPU, GPU)

# MPI.
OPEN_MPI: Final = "OpenMPI"
OMPI_HOSTFILE: Final = "OMPI_MCA_orte_default_hostfile"
OMPI_KEEP_FQDN: Final = "OMPI_MCA_orte_keep_fqdn_hostnames"
OMPI_SLOTS: Final = "OMPI_MCA_orte_set_default_slots"
OMPI_RSH_ARGS: Final = "OMPI_MCA_plm_rsh_args"
MPI_RESERVED: Final = (OMPI_HOSTFILE, OMPI_KEEP_FQDN, OMPI_SLOTS, OMPI_RSH_ARGS)
SSH_VOLUME: Final = "mpi-ssh-auth"
HOSTFILE_VOLUME: Final = "mpi-hostfile"
HOSTFILE_DIRECTORY: Final = "/etc/mpi"
HOSTFILE: Final = "hostfile"
SSH_PRIVATE_KEY: Final = "ssh-privatekey"
SSH_PUBLIC_KEY: Final = "ssh-publickey"
SSH_SECRET_TYPE: Final = "kubernetes.io/ssh-auth"

# JAX and XGBoost.
JAX_NUM_PROCESSES: Final = "JAX_NUM_PROCESSES"
JAX_PROCESS_ID: Final = "JAX_PROCESS_ID"
JAX_COORDINATOR_ADDRESS: Final = "JAX_COORDINATOR_ADDRESS"
JAX_RESERVED: Final = (JAX_NUM_PROCESSES, JAX_PROCESS_ID, JAX_COORDINATOR_ADDRESS)
DMLC_TRACKER_URI: Final = "DMLC_TRACKER_URI"
DMLC_TRACKER_PORT: Final = "DMLC_TRACKER_PORT"
DMLC_TASK_ID: Final = "DMLC_TASK_ID"
DMLC_NUM_WORKER: Final = "DMLC_NUM_WORKER"
XGBOOST_RESERVED: Final = (DMLC_TRACKER_URI, DMLC_TRACKER_PORT, DMLC_TASK_ID, DMLC_NUM_WORKER)

# Flux.
FLUX_INSTALLER: Final = "flux-installer"
FLUX_INSTALLER_IMAGE: Final = "ghcr.io/converged-computing/flux-view-ubuntu:tag-jammy"
FLUX_VIEW_IMAGE: Final = "FLUX_VIEW_IMAGE"
FLUX_NETWORK_DEVICE: Final = "FLUX_NETWORK_DEVICE"
FLUX_QUEUE_POLICY: Final = "FLUX_QUEUE_POLICY"
FLUX_INSTALL_VOLUME: Final = "flux-install"
FLUX_INSTALL_PATH: Final = "/mnt/flux"
FLUX_SOFTWARE_VOLUME: Final = "spack-install"
FLUX_SOFTWARE_PATH: Final = "/opt/software"
FLUX_CONFIG_PATH: Final = "/etc/flux-config"
FLUX_CURVE_VOLUME: Final = "flux-curve"
FLUX_CURVE_PATH: Final = "/curve"
FLUX_MEMORY_VOLUME: Final = "shared-memory"
FLUX_MEMORY_PATH: Final = "/dev/shm"  # noqa: S108  a path in pods
CURVE_CERTIFICATE: Final = "curve.cert"

# Reports of progress.
SERVER_URL: Final = "KUBEFLOW_TRAINER_SERVER_URL"
SERVER_CA_CERT: Final = "KUBEFLOW_TRAINER_SERVER_CA_CERT"
SERVER_TOKEN: Final = "KUBEFLOW_TRAINER_SERVER_TOKEN"
SERVER_MOUNT: Final = "/var/run/secrets/kubeflow/trainer"
TOKEN_VOLUME: Final = "kubeflow-trainer-token"
PROGRESS_MANAGER: Final = "trainer-status"
"""Field manager of what trainings report."""

# Gang schedulers.
COSCHEDULING_GROUP: Final = "scheduling.x-k8s.io"
COSCHEDULING_LABEL: Final = "scheduling.x-k8s.io/pod-group"
VOLCANO_GROUP: Final = "scheduling.volcano.sh"
VOLCANO_ANNOTATION: Final = "scheduling.k8s.io/group-name"
VOLCANO_QUEUE: Final = "scheduling.volcano.sh/queue-name"
SYSTEM_PRIORITIES: Final = ("system-cluster-critical", "system-node-critical")

# Conditions of a TrainJob.
SUSPENDED: Final = "Suspended"
COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
RESUMED: Final = "Resumed"
RUNTIME_NOT_SUPPORTED: Final = "TrainingRuntimeNotSupported"
DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
JOBSET_MISSING: Final = "JobSetMissing"
"""A condition that only stays as long as there is no JobSet on the cluster; upstream has none for it."""
JOBSET_NOT_INSTALLED: Final = "JobSetNotInstalled"
JOBSET_INSTALLED: Final = "JobSetInstalled"
NAME_TAKEN: Final = "NameTaken"
"""Condition: an object of a TrainJob would have a name that somebody else's object has."""
FOREIGN_OBJECT: Final = "ForeignObject"
OWN_OBJECTS: Final = "OwnObjects"

# Reasons of events.
CREATION_FAILED: Final = "TrainJobResourcesCreationFailed"
RESERVED_ENV_IGNORED: Final = "ReservedEnvIgnored"
RESERVED_ENV_DRIFT: Final = "ReservedEnvDrift"
SSH_SECRET_REPLACED: Final = "SSHAuthSecretReplaced"
CURVE_SECRET_REPLACED: Final = "FluxCurveSecretReplaced"
JOBSET_RECREATED: Final = "JobSetRecreated"
STATUS_WRITE_FAILED: Final = "StatusUpdateFailed"
FINALIZER_WRITE_FAILED: Final = "FinalizerUpdateFailed"
RUNTIME_GONE: Final = "RuntimeGone"

TRAIN_JOB_CONTROLLER: Final = "trainjob_controller"
TRAINING_RUNTIME_CONTROLLER: Final = "trainingruntime_controller"
CLUSTER_TRAINING_RUNTIME_CONTROLLER: Final = "clustertrainingruntime_controller"
TRAIN_JOB_COMPONENT: Final = "trainer-trainjob-controller"
TRAINING_RUNTIME_COMPONENT: Final = "trainer-trainingruntime-controller"
CLUSTER_TRAINING_RUNTIME_COMPONENT: Final = "trainer-clustertrainingruntime-controller"

WEBHOOK_CONFIGURATION: Final = "validator.trainer.kubeflow.org"
DEPRECATION_POLICY: Final = (
    "https://www.kubeflow.org/docs/components/trainer/operator-guides/runtime/#runtime-deprecation-policy"
)


def registry_key(kind: str, group: str) -> str:
    """What a runtime implementation is known by."""
    return f"{kind}.{group}"


def ssh_secret_name(job: str) -> str:
    """The Secret with the SSH keys of an MPI TrainJob."""
    return f"{job}-{SSH_VOLUME}"


def curve_secret_name(job: str) -> str:
    """The Secret with the key of a Flux TrainJob."""
    return f"{job}-{FLUX_CURVE_VOLUME}"


def flux_scripts_name(job: str) -> str:
    """The ConfigMap with the scripts of a Flux TrainJob."""
    return f"{job}-flux-entrypoint"


def hostfile_name(job: str) -> str:
    """The ConfigMap with the hostfile of an MPI TrainJob."""
    return f"{job}-{HOSTFILE_VOLUME}"


def tls_config_name(job: str) -> str:
    """The ConfigMap with the authorities that the server of reports is trusted by."""
    return f"{job}-tls-config"


def status_path(namespace: str, job: str) -> str:
    """Where a TrainJob is reported about."""
    return f"/apis/{API_VERSION}/namespaces/{namespace}/trainjobs/{job}/status"


def status_audience(namespace: str, job: str) -> str:
    """Whom the tokens of a TrainJob's pods are meant for."""
    return f"{API_VERSION}/namespaces/{namespace}/trainjobs/{job}/status"


def snapshot_name(job: str) -> str:
    """The ConfigMap with the runtime as a TrainJob first saw it."""
    return f"{job}-runtime-snapshot"
