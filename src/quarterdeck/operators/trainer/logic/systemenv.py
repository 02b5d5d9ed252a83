"""Variables that nobody but a plugin may set: what they follow from, and whose they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.operators.trainer.types import MLPolicy


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What the values of system variables follow from."""

    job_name: str
    template: Json
    """A JobSetSpec whose parallelism is set."""
    policy: MLPolicy
    processes: str
    """Processes on each node, as the policy counts them."""
    has_own_command: bool | None = None
    """Whether the policy gave the trainer its command; ``None`` if that is not known any more."""


class SystemEnv(msgspec.Struct, frozen=True):
    """The variables that one container must have."""

    job: str
    """Name of the replicated job."""
    container: str
    entries: Sequence[Json]
    processes_entry: str = ""
    """Name of the variable that tells the processes per node: nothing else of a JobSet says how many."""


@runtime_checkable
class EnvOwner(Protocol):
    """Sets variables that nobody else may set."""

    reserved: tuple[str, ...]
    """Their names."""

    def is_active(self, policy: MLPolicy) -> bool:
        """Whether the ML policy of a runtime is this plugin's."""
        ...

    def system_env(self, shape: Shape) -> Sequence[SystemEnv]:
        """The variables that a JobSet must have, whether it is about to be written or runs already."""
        ...
