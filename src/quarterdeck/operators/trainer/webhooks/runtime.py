"""The validation of runtimes. Upstream checks updates of ClusterTrainingRuntimes only."""

from __future__ import annotations

from typing import Final

from quarterdeck.api import LabelSelector
from quarterdeck.api.meta import LabelSelectorRequirement
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.logic.runtimerule import is_deprecated, runtime_warning, validate_runtime
from quarterdeck.operators.trainer.types import AnyRuntime, ClusterTrainingRuntime, TrainingRuntime
from quarterdeck.runtime.webhook import AdmissionWebhook, Validator
from quarterdeck.runtime.webhook.admission import Admission, deny

_LOOKED_AT: Final = LabelSelector(
    match_expressions=(
        LabelSelectorRequirement(key=names.VALIDATION_LABEL, operator="NotIn", values=(names.DISABLED,)),
    )
)


def runtime_webhooks(*, checks_updates: bool) -> tuple[AdmissionWebhook, ...]:
    """What to serve; ``checks_updates`` is about TrainingRuntimes."""
    return (
        Validator(
            TrainingRuntime,
            create=_check,
            update=_check_update if checks_updates else None,
            operations=("CREATE", "UPDATE"),  # as upstream registers it, whatever is judged
            name=f"validator.trainingruntime.{names.GROUP}",
            object_selector=_LOOKED_AT,
        ),
        Validator(
            ClusterTrainingRuntime,
            create=_check_created,
            update=_check_update,
            name=f"validator.clustertrainingruntime.{names.GROUP}",
            object_selector=_LOOKED_AT,
        ),
    )


def _check(admission: Admission, runtime: AnyRuntime) -> None:
    deny(validate_runtime(runtime))


def _check_created(admission: Admission, runtime: ClusterTrainingRuntime) -> None:
    if is_deprecated(runtime):
        # Not by ``warn``, which would cut off the address at the end.
        admission.warnings.append(runtime_warning(runtime.metadata.name))
    deny(validate_runtime(runtime))


def _check_update(admission: Admission, old: AnyRuntime, new: AnyRuntime) -> None:
    """While a runtime is being deleted its finalizers must be free to go."""
    if not new.metadata.is_deleting:
        deny(validate_runtime(new))
