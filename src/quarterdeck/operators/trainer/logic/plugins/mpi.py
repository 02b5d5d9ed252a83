"""MPI: a launcher that reaches the nodes by SSH, with a key pair and a hostfile of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quarterdeck.api import UnsetType
from quarterdeck.api.jsonobject import Json
from quarterdeck.api.k8s import ConfigMap, Secret
from quarterdeck.errors import ReconcileError
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.logic.device import gpu_count
from quarterdeck.operators.trainer.logic.env import (
    PROCESSES,
    literal,
    refuse_reserved,
    refuse_too_few_processes,
)
from quarterdeck.operators.trainer.logic.info import Info, PodSet, resources_of, trainer_of
from quarterdeck.operators.trainer.logic.plugin import ClusterFacts, Component, Present, Watch, config_map
from quarterdeck.operators.trainer.logic.systemenv import Shape, SystemEnv
from quarterdeck.operators.trainer.logic.template import (
    container_of,
    replicated_jobs,
    upsert_mount,
    upsert_volume,
)
from quarterdeck.operators.trainer.types import MLPolicy, MpiPolicy, TrainJob
from quarterdeck.wire import fielderror
from quarterdeck.wire.fielderror import FieldError

from .key import build_key

_DEFAULT_MOUNT: Final = "/root/.ssh"
_KEY_MODE: Final = 0o400
_ITEMS: Final = (
    (names.SSH_PRIVATE_KEY, "id_rsa", 0o640),
    (names.SSH_PUBLIC_KEY, "id_rsa.pub", 0o644),
    (names.SSH_PUBLIC_KEY, "authorized_keys", 0o644),
)
_HOSTFILE_MODE: Final = 0o444


class Mpi:
    """For runtimes with ``mlPolicy.mpi``."""

    name: Final = "MPI"
    reserved: Final = names.MPI_RESERVED

    def is_active(self, policy: MLPolicy) -> bool:
        """Whether the runtime is one for MPI."""
        return bool(policy.mpi)

    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        """Set nodes and slots, mount keys and hostfile; raises ``ReconcileError`` for another MPI."""
        mpi = info.ml_policy.mpi
        if not mpi:
            return
        implementation = (
            names.OPEN_MPI if isinstance(mpi.mpi_implementation, UnsetType) else mpi.mpi_implementation
        )
        if implementation != names.OPEN_MPI:
            raise ReconcileError(f"MPI implementation for {implementation} doesn't supported")
        wanted = trainer_of(job).num_nodes
        nodes = info.pod_set(names.NODE)
        if nodes is not None and not isinstance(wanted, UnsetType):
            nodes.count = max(wanted - 1, 1) if mpi.run_launcher_as_node else wanted
        info.processes = str(slots(mpi, info, job))
        for pods in info.pod_sets:
            if pods.name in (names.NODE, names.LAUNCHER):
                self._mount(info, pods, mpi.ssh_auth_mount_path or _DEFAULT_MOUNT)

    @staticmethod
    def _mount(info: Info, pods: PodSet, path: str) -> None:
        upsert_volume(pods.job, _key_volume(info.job_name))
        if pods.name == names.LAUNCHER:
            upsert_volume(pods.job, _hostfile_volume(info.job_name))
        container = pods.container(names.NODE)
        if container is None:
            return
        upsert_mount(container, {"name": names.SSH_VOLUME, "mountPath": path})
        if pods.name == names.LAUNCHER:
            upsert_mount(container, {"name": names.HOSTFILE_VOLUME, "mountPath": names.HOSTFILE_DIRECTORY})

    def system_env(self, shape: Shape) -> Sequence[SystemEnv]:
        """The variables of the launcher."""
        launcher = next(
            (job for job in replicated_jobs(shape.template) if job.get("name") == names.LAUNCHER), None
        )
        if launcher is None or container_of(launcher, names.NODE) is None:
            return []
        entries = [
            literal(names.OMPI_HOSTFILE, f"{names.HOSTFILE_DIRECTORY}/{names.HOSTFILE}"),
            literal(names.OMPI_KEEP_FQDN, "true"),
            literal(names.OMPI_SLOTS, shape.processes),
            literal(names.OMPI_RSH_ARGS, "-o ConnectionAttempts=10"),
        ]
        return [SystemEnv(names.LAUNCHER, names.NODE, entries, names.OMPI_SLOTS)]

    def build(self, info: Info, job: TrainJob, present: Present) -> list[Component]:
        """The key pair, if there is none yet, and the hostfile."""
        if not self.is_active(info.ml_policy):
            return []
        made = build_key(info, job, present)
        info.processes = info.processes or _slots_of_launcher(info)
        if info.processes:
            made.append(Component(_hostfile(info, job)))
        return made

    def watches(self) -> list[Watch]:
        """The Secret and the ConfigMap; that of the cluster's Secrets only the metadata is kept."""
        return [Watch(Secret, is_metadata_enough=True), Watch(ConfigMap, is_metadata_enough=True)]

    def validate(
        self, info: Info, old: TrainJob | None, new: TrainJob, facts: ClusterFacts
    ) -> list[FieldError]:
        """Processes, nodes that the runtime cannot place, and reserved variables."""
        mpi = info.ml_policy.mpi
        if not mpi:
            return []
        trainer = trainer_of(new)
        found: list[FieldError] = []
        if isinstance(trainer.num_proc_per_node, str):
            detail = "must have an int value for MPI TrainJob"
            found.append(fielderror.invalid(PROCESSES, trainer.num_proc_per_node, detail))
        found += refuse_too_few_processes(new)
        nodes = trainer.num_nodes or 0
        is_complete = info.pod_set(names.LAUNCHER) is not None and info.pod_set(names.NODE) is not None
        if nodes >= 2 and mpi.run_launcher_as_node and not is_complete:
            found.append(
                fielderror.invalid(
                    "spec.trainer.numNodes",
                    nodes,
                    "must have 1 when MPI trainingRuntime with enabled runLauncherAsNode does not have "
                    "either launcher and node",
                )
            )
        return found + refuse_reserved(new, self.reserved)


def slots(mpi: MpiPolicy, info: Info, job: TrainJob) -> int | str:
    """Processes on each node: said by the TrainJob, else by the runtime, else one for each GPU."""
    said = trainer_of(job).num_proc_per_node
    if not isinstance(said, UnsetType):
        return said
    default = 1 if isinstance(mpi.num_proc_per_node, UnsetType) else mpi.num_proc_per_node
    gpus = gpu_count(resources_of(info, job)) if default == 1 else 0
    return gpus if gpus > 1 else default


def _slots_of_launcher(info: Info) -> str:
    """The slots that a launcher runs with, where nobody has noted them."""
    launcher = info.pod_set(names.LAUNCHER)
    container = launcher.container(names.NODE) if launcher is not None else None
    entries = (container or {}).get("env") or ()
    return next((entry.get("value", "") for entry in entries if entry.get("name") == names.OMPI_SLOTS), "")


def _key_volume(job_name: str) -> Json:
    items = [{"key": key, "path": path, "mode": mode} for key, path, mode in _ITEMS]
    secret = {"secretName": names.ssh_secret_name(job_name), "defaultMode": _KEY_MODE, "items": items}
    return {"name": names.SSH_VOLUME, "secret": secret}


def _hostfile_volume(job_name: str) -> Json:
    item = {"key": names.HOSTFILE, "path": names.HOSTFILE, "mode": _HOSTFILE_MODE}
    return {
        "name": names.HOSTFILE_VOLUME,
        "configMap": {"name": names.hostfile_name(job_name), "items": [item]},
    }


def _hostfile(info: Info, job: TrainJob) -> ConfigMap:
    hosts: list[str] = []
    for pods in info.pod_sets:
        if pods.name == names.NODE or (pods.name == names.LAUNCHER and info.is_launcher_node):
            hosts += pods.endpoints
    text = "".join(f"{host} slots={info.processes}\n" for host in hosts)
    return config_map(job, names.hostfile_name(job.metadata.name), {names.HOSTFILE: text})
