"""The plugins, in the order in which they are asked."""

from __future__ import annotations

from quarterdeck.operators.trainer.logic.framework import Framework
from quarterdeck.operators.trainer.logic.plugin import Plugin

from .flux import Flux
from .gang import CoScheduling, Volcano
from .jax import Jax
from .jobset import JobSetPlugin
from .mpi import Mpi
from .plainml import PlainML
from .torch import Torch
from .xgboost import XGBoost

__all__ = ["default_framework", "default_plugins"]


def default_plugins() -> tuple[Plugin, ...]:
    """All plugins that come with the operator."""
    return (Torch(), Mpi(), PlainML(), Jax(), XGBoost(), Flux(), CoScheduling(), Volcano(), JobSetPlugin())


def default_framework(*more: Plugin) -> Framework:
    """A framework of all of them, and perhaps some more before the last, which builds the JobSet."""
    *plugins, last = default_plugins()
    return Framework((*plugins, *more, last))
