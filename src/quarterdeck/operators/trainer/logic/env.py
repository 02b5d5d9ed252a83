"""Variables of containers, as documents."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from quarterdeck.api import to_dict
from quarterdeck.api.jsonobject import Json
from quarterdeck.api.k8s import EnvVar
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.types import TrainJob
from quarterdeck.wire import fielderror, gostyle
from quarterdeck.wire.fielderror import FieldError

from .info import spec_of, trainer_of
from .override import override_env
from .template import job_labels, job_spec, replicated_jobs, subdomain_of

_REFUSAL: Final = "must not have reserved envs"
PROCESSES: Final = "spec.trainer.numProcPerNode"


def literal(name: str, value: str) -> Json:
    """A variable with a value."""
    return {"name": name, "value": value}


def rank(name: str) -> Json:
    """A variable with the index of the pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": names.RANK_FIELD}}}


def coordinator(job_name: str, template: Json) -> str:
    """The address of the first node."""
    return f"{job_name}-{names.NODE}-0-0.{subdomain_of(template, job_name)}"


def trainer_size(template: Json) -> tuple[str, int]:
    """The replicated job that the trainer configures and its pods; an empty name if there is none."""
    for job in replicated_jobs(template):
        if job_labels(job).get(names.ANCESTOR_LABEL) == names.TRAINER:
            return job.get("name", ""), job_spec(job).get("parallelism", 1)
    return "", 0


def user_env(entries: Sequence[EnvVar], reserved: Collection[str] = ()) -> list[Json]:
    """Variables of a user, without those that are the system's."""
    return [to_dict(entry) for entry in entries if entry.name not in reserved]


def reserved_in(job: TrainJob, reserved: Collection[str]) -> list[str]:
    """Reserved variables that a TrainJob sets, sorted; admission refuses them, so they came in past it."""
    set_by_user = {entry.name for entry in trainer_of(job).env}
    set_by_user.update(override_env(spec_of(job)))
    return sorted(set_by_user.intersection(reserved))


def refuse_reserved(job: TrainJob, reserved: Collection[str]) -> list[FieldError]:
    """The refusal of a TrainJob whose trainer sets reserved variables."""
    env = trainer_of(job).env
    found = sorted({entry.name for entry in env}.intersection(reserved))
    if not found:
        return []
    return [fielderror.invalid("spec.trainer.env", env, f"{_REFUSAL}: {gostyle.plain(found)}")]


def refuse_too_few_processes(job: TrainJob) -> list[FieldError]:
    """The refusal of a TrainJob without processes; the definition refuses them as well, older ones do not."""
    processes = trainer_of(job).num_proc_per_node
    if not isinstance(processes, int) or processes >= 1:
        return []
    return [fielderror.invalid(PROCESSES, processes, "must be greater than or equal to 1")]
