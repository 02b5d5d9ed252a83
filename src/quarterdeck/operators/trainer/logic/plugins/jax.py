"""JAX: variables for ``jax.distributed``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.logic.env import coordinator, literal, rank, trainer_size
from quarterdeck.operators.trainer.logic.info import Info
from quarterdeck.operators.trainer.logic.systemenv import Shape, SystemEnv
from quarterdeck.operators.trainer.logic.template import upsert_port
from quarterdeck.operators.trainer.types import MLPolicy, TrainJob

from .plainml import resize_trainer


class Jax:
    """For runtimes with ``mlPolicy.jax``."""

    name: Final = "JAX"
    reserved: Final = names.JAX_RESERVED

    def is_active(self, policy: MLPolicy) -> bool:
        """Whether the runtime is one for JAX."""
        return bool(policy.jax)

    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        """Set nodes and port."""
        if self.is_active(info.ml_policy):
            resize_trainer(info, job)
            open_port(info)

    def system_env(self, shape: Shape) -> Sequence[SystemEnv]:
        """The variables of the trainer."""
        trainer, nodes = trainer_size(shape.template)
        address = coordinator(shape.job_name, shape.template)
        entries = [
            literal(names.JAX_NUM_PROCESSES, str(nodes)),
            rank(names.JAX_PROCESS_ID),
            literal(names.JAX_COORDINATOR_ADDRESS, f"{address}:{names.TRAINER_PORT}"),
        ]
        return [SystemEnv(trainer, names.NODE, entries)] if trainer else []


def open_port(info: Info) -> None:
    """Declare the port that nodes find each other at."""
    pods = info.ancestor(names.TRAINER)
    container = pods.container(names.NODE) if pods is not None else None
    if container is not None:
        upsert_port(container, names.TRAINER_PORT)
