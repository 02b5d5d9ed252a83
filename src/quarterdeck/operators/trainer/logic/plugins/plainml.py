"""PlainML: no framework that needs to know anything, only a number of nodes."""

from __future__ import annotations

from typing import Final

from quarterdeck.api import UnsetType
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.logic.info import Info, trainer_of
from quarterdeck.operators.trainer.types import TrainJob


def resize_trainer(info: Info, job: TrainJob) -> None:
    """As many pods of the trainer as the TrainJob says; those of the runtime if it says nothing."""
    pods = info.ancestor(names.TRAINER)
    wanted = trainer_of(job).num_nodes
    if pods is not None and not isinstance(wanted, UnsetType):
        pods.count = wanted


class PlainML:
    """For runtimes without a policy of their own."""

    name: Final = "PlainML"

    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        """Set the number of nodes; the variables of the TrainJob are the JobSet plugin's affair."""
        policy = info.ml_policy
        if not (policy.torch or policy.mpi or policy.jax or policy.xgboost or policy.flux):
            resize_trainer(info, job)
