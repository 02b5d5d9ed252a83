"""TrainingRuntime and ClusterTrainingRuntime: how TrainJobs are run, in one namespace or in all."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import UNSET, Maybe, Model, ObjectMeta, Resource, Seq, omitempty
from quarterdeck.api.intorstring import IntOrString
from quarterdeck.api.k8s import MetricSpec
from quarterdeck.api.marker import Atomic, Cel, Default, Enum, Int32, Len, ListMap, ListSet, Required
from quarterdeck.operators.jobset.types import JobSetSpec
from quarterdeck.operators.trainer import names

from .constraint import LABEL


class ElasticPolicy(Model):
    """Accepted, without effect."""

    max_restarts: Annotated[Maybe[int], Int32] = UNSET
    """Restarts of the workers before the training fails."""
    min_nodes: Annotated[Maybe[int], Int32] = UNSET
    """The fewest nodes it trains on."""
    max_nodes: Annotated[Maybe[int], Int32] = UNSET
    """The most nodes it trains on."""
    metrics: Annotated[Seq[MetricSpec], Atomic()] = omitempty(())


class EnvInjectionTarget(Model):
    """More containers that get the variables of the policy."""

    job_name: Annotated[str, Required(), LABEL] = omitempty("")
    """A replicated job."""
    container_names: Annotated[
        Seq[Annotated[str, Len(max=63)]],
        Required(),
        ListSet(),
        Len(1, 8),
        Cel(
            f"!self.exists(name, name == '{names.NODE}')",
            message="containerNames must not include the main node container because PET_* envs are "
            "always injected into it",
        ),
    ] = omitempty(())
    """Containers of it that get the variables."""


class EnvInjection(Model):
    """Which containers get the variables of the policy besides the main one."""

    targets: Annotated[Seq[EnvInjectionTarget], ListMap("jobName"), Len(max=16)] = omitempty(())


class TorchPolicy(Model):
    """Torch: variables for torchrun."""

    num_proc_per_node: Annotated[
        Maybe[IntOrString],
        Default(names.AUTO),
        Cel(
            "self > 0 || self in ['auto', 'cpu', 'gpu']",
            message="NumProcPerNode must be equal to auto, cpu, gpu, or int value",
        ),
    ] = UNSET
    """Processes on each node: a number, auto, cpu or gpu."""
    elastic_policy: Maybe[ElasticPolicy] = UNSET
    env_injection: Maybe[EnvInjection] = UNSET


class MpiPolicy(Model):
    """MPI: a launcher that reaches the nodes by SSH."""

    num_proc_per_node: Annotated[
        Maybe[int],
        Int32,
        Default(1),
        Cel("self >= 1", message="NumProcPerNode in mpiPolicy must be >= 1"),
    ] = UNSET
    """Processes on each node."""
    mpi_implementation: Annotated[Maybe[str], Enum(names.OPEN_MPI, ""), Default(names.OPEN_MPI)] = UNSET
    """OpenMPI; there is no other yet."""
    ssh_auth_mount_path: Annotated[Maybe[str], Default("/root/.ssh"), Len(max=4096)] = UNSET
    """Where the key pair is mounted."""
    run_launcher_as_node: Annotated[Maybe[bool], Default(False)] = UNSET
    """Train on the launcher, too."""


class JaxPolicy(Model):
    """JAX: variables for its distributed runtime."""


class XGBoostPolicy(Model):
    """XGBoost: variables for its tracker."""


class FluxPolicy(Model):
    """Flux: pods that form a cluster of their own, in which the training runs."""

    num_proc_per_node: Annotated[
        Maybe[int],
        Int32,
        Default(1),
        Cel("self >= 1", message="NumProcPerNode in fluxPolicy must be >= 1"),
    ] = UNSET
    """Processes on each node."""


class MLPolicy(
    Model,
    rules=[
        Cel(
            "!(has(self.numNodes) && (has(self.torch) && has(self.torch.elasticPolicy)))",
            message="numNodes should not be set if torch.elasticPolicy is configured",
        ),
        Cel(
            "(has(self.torch) ? 1 : 0) + (has(self.mpi) ? 1 : 0) + (has(self.jax) ? 1 : 0)"
            " + (has(self.xgboost) ? 1 : 0) + (has(self.flux) ? 1 : 0) <= 1",
            message="Only one of the policy can be configured",
        ),
    ],
):
    """How many nodes, and the framework that needs to know them."""

    num_nodes: Annotated[Maybe[int], Int32] = UNSET
    """Nodes of the trainer, unless the TrainJob says; 1 when neither does."""
    torch: Maybe[TorchPolicy] = UNSET
    mpi: Maybe[MpiPolicy] = UNSET
    jax: Maybe[JaxPolicy] = UNSET
    xgboost: Maybe[XGBoostPolicy] = UNSET
    flux: Maybe[FluxPolicy] = UNSET


class CoschedulingPolicy(Model):
    """A PodGroup of the coscheduling plugin."""

    schedule_timeout_seconds: Annotated[Maybe[int], Int32, Default(60)] = UNSET
    """Seconds after which the gang is given up."""


class NetworkTopology(Model):
    """How near the pods must be to each other."""

    mode: Annotated[Maybe[str], Enum("hard", "soft"), Default("hard")] = UNSET
    """hard requires the tier, soft prefers it."""
    highest_tier_allowed: Annotated[Maybe[int], Default(1)] = UNSET
    """The widest tier that may hold the gang."""


class VolcanoPolicy(Model):
    """A PodGroup of Volcano."""

    network_topology: Maybe[NetworkTopology] = UNSET


class PodGroupPolicy(Model):
    """The gang scheduler; at most one."""

    coscheduling: Maybe[CoschedulingPolicy] = UNSET
    volcano: Maybe[VolcanoPolicy] = UNSET


class JobSetTemplate(Model):
    """The JobSet that TrainJobs become."""

    metadata: ObjectMeta = omitempty(ObjectMeta())
    spec: JobSetSpec = omitempty(JobSetSpec())


class TrainingRuntimeSpec(Model):
    """How TrainJobs are run."""

    ml_policy: Maybe[MLPolicy] = UNSET
    pod_group_policy: Maybe[PodGroupPolicy] = UNSET
    template: Annotated[Maybe[JobSetTemplate], Len(1)] = UNSET


class TrainingRuntime(Resource, group=names.GROUP, version=names.VERSION):
    """How TrainJobs of a namespace are run."""

    spec: Annotated[Maybe[TrainingRuntimeSpec], Len(1)] = UNSET


class ClusterTrainingRuntime(Resource, group=names.GROUP, version=names.VERSION, scope="Cluster"):
    """How TrainJobs of any namespace are run."""

    spec: Annotated[Maybe[TrainingRuntimeSpec], Len(1)] = UNSET


AnyRuntime = TrainingRuntime | ClusterTrainingRuntime
