"""Torch: variables for torchrun, and commands for torchtune."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quarterdeck.api import UnsetType
from quarterdeck.api.jsonobject import Json
from quarterdeck.errors import ReconcileError
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.logic.device import cpu_count, gpu_count
from quarterdeck.operators.trainer.logic.env import (
    PROCESSES,
    coordinator,
    literal,
    rank,
    refuse_reserved,
    refuse_too_few_processes,
    trainer_size,
)
from quarterdeck.operators.trainer.logic.info import Info, resources_of, spec_of, trainer_of
from quarterdeck.operators.trainer.logic.plugin import ClusterFacts
from quarterdeck.operators.trainer.logic.systemenv import Shape, SystemEnv
from quarterdeck.operators.trainer.logic.template import container_of, replicated_jobs, upsert_port
from quarterdeck.operators.trainer.types import MLPolicy, TrainJob
from quarterdeck.wire import fielderror
from quarterdeck.wire.fielderror import FieldError

from . import torchtune
from .plainml import resize_trainer


class Torch:
    """For runtimes with ``mlPolicy.torch``."""

    name: Final = "Torch"
    reserved: Final = names.TORCH_RESERVED

    def is_active(self, policy: MLPolicy) -> bool:
        """Whether the runtime is one for Torch."""
        return bool(policy.torch)

    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        """Set nodes, processes and port; for torchtune the command as well.

        Raises ``ReconcileError`` for variables that are to go where there is no container.
        """
        if not self.is_active(info.ml_policy):
            return
        missing = next(iter(_missing_targets(info)), None)
        if missing is not None:
            raise ReconcileError(_no_target(*missing))
        resize_trainer(info, job)
        resources = resources_of(info, job)
        gpus = gpu_count(resources)
        processes = processes_per_node(info.ml_policy, job)
        if processes == names.CPU or (processes == names.AUTO and gpus == 0):
            processes = max(1, cpu_count(resources))
        info.processes = str(processes)
        pods = info.ancestor(names.TRAINER)
        container = pods.container(names.NODE) if pods is not None else None
        if container is None:
            return
        upsert_port(container, names.TRAINER_PORT)
        if pods is not None and torchtune.is_entrypoint(trainer_of(job).command):
            info.command = torchtune.command(info, job, nodes=pods.count, processes=processes, gpus=gpus)

    def system_env(self, shape: Shape) -> Sequence[SystemEnv]:
        """The variables of torchrun; torchtune is told the address by its command instead.

        Other containers need the address in any case: it may be they who wait for the first node.
        """
        trainer, nodes = trainer_size(shape.template)
        entries = [
            literal(names.PET_NNODES, str(nodes)),
            literal(names.PET_NPROC_PER_NODE, shape.processes),
            rank(names.PET_NODE_RANK),
        ]
        address = [
            literal(names.PET_MASTER_ADDR, coordinator(shape.job_name, shape.template)),
            literal(names.PET_MASTER_PORT, str(names.TRAINER_PORT)),
        ]
        made: list[SystemEnv] = []
        job = next((each for each in replicated_jobs(shape.template) if each.get("name") == trainer), None)
        main = container_of(job, names.NODE) if job is not None else None
        if main is not None:
            needed = [entry for entry in address if _needs(entry, main, shape.has_own_command)]
            made.append(SystemEnv(trainer, names.NODE, [*entries, *needed], names.PET_NPROC_PER_NODE))
        for target, name in _more_targets(shape.policy):
            made.append(SystemEnv(target, name, [*entries, *address], names.PET_NPROC_PER_NODE))
        return made

    def validate(
        self, info: Info, old: TrainJob | None, new: TrainJob, facts: ClusterFacts
    ) -> list[FieldError]:
        """Processes, reserved variables, and what torchtune can do."""
        if not self.is_active(info.ml_policy):
            return []
        found = [
            fielderror.invalid("spec.runtimeRef", spec_of(new).runtime_ref, _no_target(*target))
            for target in _missing_targets(info)
        ]
        processes = trainer_of(new).num_proc_per_node
        if isinstance(processes, str) and processes not in names.PROCESS_WORDS:
            found.append(fielderror.invalid(PROCESSES, processes, "must have an int value or [auto cpu gpu]"))
        found += refuse_too_few_processes(new)
        found += refuse_reserved(new, self.reserved)
        if torchtune.is_entrypoint(trainer_of(new).command):
            found += torchtune.validate(info, new)
        return found


def _needs(entry: Json, container: Json, has_own_command: bool | None) -> bool:
    """Whether a container needs a part of the address.

    Of a JobSet that is there it is not known whether the command of torchtune is the policy's or the
    runtime's own: then only what is there must be right.
    """
    if has_own_command is not None:
        return not has_own_command
    if not torchtune.is_entrypoint((container.get("command") or [])[:2]):
        return True
    return any(known.get("name") == entry["name"] for known in container.get("env") or ())


def processes_per_node(policy: MLPolicy, job: TrainJob) -> int | str:
    """Processes as the TrainJob or else the runtime says."""
    said = trainer_of(job).num_proc_per_node
    if not isinstance(said, UnsetType):
        return said
    default = policy.torch.num_proc_per_node if policy.torch else names.AUTO
    return names.AUTO if isinstance(default, UnsetType) else default


def _more_targets(policy: MLPolicy) -> list[tuple[str, str]]:
    injection = policy.torch.env_injection if policy.torch else None
    if not injection:
        return []
    return [(target.job_name, name) for target in injection.targets for name in target.container_names]


def _missing_targets(info: Info) -> list[tuple[str, str]]:
    """Containers that are to get the variables and that the runtime does not have."""
    return [
        (job, name)
        for job, name in _more_targets(info.ml_policy)
        if (pods := info.pod_set(job)) is None or pods.any_container(name) is None
    ]


def _no_target(job: str, container: str) -> str:
    return f'envInjection target podSet "{job}" container "{container}" not found in runtime template'
