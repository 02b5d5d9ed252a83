"""XGBoost: variables for its tracker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.logic.device import gpu_count
from quarterdeck.operators.trainer.logic.env import coordinator, literal, rank, trainer_size
from quarterdeck.operators.trainer.logic.info import Info, resources_of, trainer_of
from quarterdeck.operators.trainer.logic.plugin import ClusterFacts
from quarterdeck.operators.trainer.logic.systemenv import Shape, SystemEnv
from quarterdeck.operators.trainer.types import MLPolicy, TrainJob
from quarterdeck.wire import fielderror
from quarterdeck.wire.fielderror import FieldError

from .jax import open_port
from .plainml import resize_trainer


class XGBoost:
    """For runtimes with ``mlPolicy.xgboost``."""

    name: Final = "XGBoost"
    reserved: Final = names.XGBOOST_RESERVED

    def is_active(self, policy: MLPolicy) -> bool:
        """Whether the runtime is one for XGBoost."""
        return bool(policy.xgboost)

    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        """Set nodes and port; a worker for each GPU."""
        if self.is_active(info.ml_policy):
            resize_trainer(info, job)
            info.processes = str(gpu_count(resources_of(info, job)) or 1)
            open_port(info)

    def system_env(self, shape: Shape) -> Sequence[SystemEnv]:
        """The variables of the trainer."""
        trainer, nodes = trainer_size(shape.template)
        workers = str(nodes * int(shape.processes)) if shape.processes.isdigit() else ""
        entries = [
            literal(names.DMLC_TRACKER_URI, coordinator(shape.job_name, shape.template)),
            literal(names.DMLC_TRACKER_PORT, str(names.TRAINER_PORT)),
            rank(names.DMLC_TASK_ID),
            literal(names.DMLC_NUM_WORKER, workers),
        ]
        return [SystemEnv(trainer, names.NODE, entries, names.DMLC_NUM_WORKER)] if trainer else []

    def validate(
        self, info: Info, old: TrainJob | None, new: TrainJob, facts: ClusterFacts
    ) -> list[FieldError]:
        """Reserved variables, one by one."""
        if not self.is_active(info.ml_policy):
            return []
        return [
            fielderror.forbidden(
                f"spec.trainer.env[{place}]", f"{entry.name} is reserved for the XGBoost runtime"
            )
            for place, entry in enumerate(trainer_of(new).env)
            if entry.name in self.reserved
        ]
