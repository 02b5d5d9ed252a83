"""OptimizationJob: trainings with different parameters, of which the best counts.

The definition only: upstream has no controller for it either.
"""

from __future__ import annotations

from typing import Annotated, Final

from quarterdeck.api import UNSET, Condition, Maybe, Model, ObjectMeta, Resource, Seq, omitempty
from quarterdeck.api.marker import (
    Cel,
    Default,
    Enum,
    Ge,
    Int32,
    Int64,
    Le,
    Len,
    ListMap,
    ListSet,
    Pattern,
    Required,
)
from quarterdeck.operators.trainer import names

from .trainjob import TrainJobSpec

_WORD: Final = Len(1, 64)
_COUNT: Final = (Int32, Default(1), Ge(1), Le(100))
_Number = Annotated[str, Required(), Len(1, 64), Pattern(r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$")]
_ORDERED: Final = Cel("double(self.min) < double(self.max)", message="min must be strictly less than max")


def _exactly_one(*fields: str) -> Cel:
    """As a marker of the same name makes it."""
    present = ",".join(f"has(self.{field})" for field in fields)
    return Cel(
        f"[{present}].filter(x,x==true).size() == 1",
        message=f"exactly one of the fields in [{' '.join(fields)}] must be set",
    )


class Objective(Model):
    """What is to become as small or as large as possible."""

    metric: Annotated[str, Required(), _WORD] = omitempty("")
    """A metric that the trainings report."""
    direction: Annotated[Maybe[str], Enum("Maximize", "Minimize"), Default("Minimize")] = UNSET
    """Whether the metric is to be as large or as small as possible."""


class RandomAlgorithm(Model):
    """Values drawn at random."""

    seed: Annotated[Maybe[int], Int64] = UNSET
    """Number that makes the draws repeatable."""


class GridAlgorithm(Model):
    """All combinations of values."""


class SearchAlgorithm(Model, rules=[_exactly_one("random", "grid")]):
    """How the values of a trial are chosen."""

    random: Maybe[RandomAlgorithm] = UNSET
    grid: Maybe[GridAlgorithm] = UNSET


class UniformSpace(Model, rules=[_ORDERED]):
    """Numbers of a range."""

    min: _Number = omitempty("")
    """The smallest value."""
    max: _Number = omitempty("")
    """The largest value."""
    type: Annotated[Maybe[str], Enum("Int", "Float"), Default("Float")] = UNSET


class LogUniformSpace(
    Model, rules=[Cel("double(self.min) > 0.0", message="min must be strictly greater than 0"), _ORDERED]
):
    """Numbers of a range, small ones as often as large ones."""

    min: _Number = omitempty("")
    """The smallest value."""
    max: _Number = omitempty("")
    """The largest value."""
    type: Annotated[Maybe[str], Enum("Int", "Float"), Default("Float")] = UNSET


class CategoricalSpace(Model):
    """One of several values."""

    choices: Annotated[Seq[Annotated[str, Len(max=64)]], Required(), ListSet(), Len(1, 100)] = omitempty(())
    """The values to choose from."""


class SearchSpace(Model, rules=[_exactly_one("uniform", "logUniform", "categorical")]):
    """The values that a parameter may have."""

    uniform: Maybe[UniformSpace] = UNSET
    log_uniform: Maybe[LogUniformSpace] = UNSET
    categorical: Maybe[CategoricalSpace] = UNSET


class Parameter(Model):
    """One of the values that differ from trial to trial."""

    name: Annotated[str, Required(), _WORD] = omitempty("")
    search_space: Annotated[Maybe[SearchSpace], Required()] = UNSET


class TrainJobTemplate(Model):
    """The TrainJob of a trial."""

    metadata: Annotated[
        ObjectMeta,
        Cel(
            "!has(self.name) && !has(self.namespace)",
            message="name and namespace cannot be set in a template.",
        ),
    ] = omitempty(ObjectMeta())
    spec: Annotated[TrainJobSpec, Required()] = omitempty(TrainJobSpec())


class OptimizationJobSpec(
    Model,
    rules=[
        Cel(
            "self == oldSelf",
            message="OptimizationJobSpec is immutable and cannot be updated after creation",
        ),
        Cel("self.parallelTrials <= self.numTrials", message="parallelTrials cannot exceed numTrials"),
        Cel(
            "!has(self.searchAlgorithm.grid) || self.parameters.all(p, has(p.searchSpace.categorical))",
            message="Grid search requires all parameters to be Categorical; Uniform and LogUniform are not "
            "supported.",
        ),
    ],
):
    """Which values are tried, how often, and what is best."""

    objectives: Annotated[Seq[Objective], Required(), ListMap("metric"), Len(1, 1)] = omitempty(())
    search_algorithm: Annotated[Maybe[SearchAlgorithm], Default({"random": {}})] = UNSET
    parameters: Annotated[Seq[Parameter], Required(), ListMap("name"), Len(1, 100)] = omitempty(())
    num_trials: Annotated[Maybe[int], *_COUNT] = UNSET
    """TrainJobs to run in all."""
    parallel_trials: Annotated[Maybe[int], *_COUNT] = UNSET
    """TrainJobs to run at once."""
    train_job_template: Annotated[TrainJobTemplate, Required()] = omitempty(TrainJobTemplate())


class ParameterAssignment(Model):
    """A value that was tried."""

    name: Annotated[str, Required(), _WORD] = omitempty("")
    value: Annotated[str, Required(), _WORD] = omitempty("")


class OptimizationResult(Model):
    """The best trial."""

    train_job_name: Annotated[str, Required(), Len(1, 63)] = omitempty("")
    """The TrainJob that did best."""
    parameters: Annotated[Seq[ParameterAssignment], ListMap("name"), Len(max=100)] = omitempty(())


class OptimizationJobStatus(Model):
    """State of the OptimizationJob."""

    conditions: Annotated[Seq[Condition], ListMap("type"), Len(max=100)] = omitempty(())
    result: Maybe[OptimizationResult] = UNSET


class OptimizationJob(Resource, group=names.GROUP, version=names.VERSION, status=True):
    """A search for the parameters with which a training is best."""

    spec: Annotated[OptimizationJobSpec, Required()] = omitempty(OptimizationJobSpec())
    status: Maybe[OptimizationJobStatus] = UNSET
