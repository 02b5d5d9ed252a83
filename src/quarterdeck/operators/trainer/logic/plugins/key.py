"""The key by which the pods of a TrainJob know each other."""

from __future__ import annotations

from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.logic.framework import is_running
from quarterdeck.operators.trainer.logic.info import Info
from quarterdeck.operators.trainer.logic.plugin import Component, Present
from quarterdeck.operators.trainer.logic.secret import key_digest
from quarterdeck.operators.trainer.types import TrainJob


def build_key(info: Info, job: TrainJob, present: Present) -> list[Component]:
    """The key, if there is none yet. Pods that start from now on are recorded to have it."""
    secret = present.secret or present.new_secret
    assert secret is not None, "a policy with keys was rendered without one"
    if not is_running(job, present.jobset):
        info.record[names.KEY_DIGEST] = key_digest(secret)
    return [] if present.secret else [Component(secret, is_created_once=True)]
